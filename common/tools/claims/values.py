"""The values that claims and pages may speak of, and the expressions that combine them.

  evaluate("xray(here).load('B').sectors_per_request", Context(build, "02_coalescing"))  ->  4.0

Expressions are Python's, reduced to a whitelist: numbers, strings, lists, arithmetic, comparisons, `and`,
`or`, `not`, comprehensions, the functions below, and attributes and methods of what these return:

  xray(step)              the memory accesses that the CPU device saw on the standard problem; see Xray
  sass(step)              the machine code of the built program, a Kernel of machine_code/sass.py; also
                          arch='sm_80' and kernel='regex'; by default the kernel for aligned shapes
  profile(step, n=4096)   what Nsight Compute counted on the GPU; see Profile
  ladder(step, n=4096)    measured speed, .tflops .ratio (to cuBLAS) .time_us ...; see Ladder
  experiment(name, variant)   a recorded experiment's .ratio .tflops .speedup ...
  const(step, 'BK')       a `constexpr int` of the step's kernel.cu
  min max abs round sum len all any

and the names gpu (figures of the GPU, with their sources in docs/evidence/h200/device.json), here and before
(this step's and the previous step's directory), steps (all of them), N = 4096. A step may be cut short: '05'.
The goals of exercises know `mine`, the student's kernel, in place of a step.

What cannot be had here (no GPU code in the build, nothing recorded yet) raises NotAvailable; what is wrong
raises ExpressionError, or its subclass ValueProblem if only a value showed it. Both hold one line.
objects.py holds what the functions return, context.py where it comes from, expression.py
the whitelist and the evaluator.
Standard library only.
"""

from tools.claims.context import DEFAULT_ARCH, MINE, STANDARD_PROBLEM, Context, N, all_steps, constants
from tools.claims.expression import (
    Comparison,
    Evaluation,
    evaluate,
    explain,
    is_condition,
    parse,
    public_names,
    sources,
)
from tools.claims.objects import ExpressionError, NotAvailable, ValueProblem

__all__ = [
    "DEFAULT_ARCH",
    "MINE",
    "STANDARD_PROBLEM",
    "Comparison",
    "Context",
    "Evaluation",
    "ExpressionError",
    "N",
    "NotAvailable",
    "ValueProblem",
    "all_steps",
    "constants",
    "evaluate",
    "explain",
    "is_condition",
    "parse",
    "public_names",
    "sources",
]
