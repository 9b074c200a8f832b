"""The values that claims and pages may speak of, and the expressions that combine them.

  evaluate("xray(here).load('B').sectors_per_request", Context(build, "02_coalescing"))  ->  4.0

Expressions are Python's, reduced to a whitelist: numbers, strings, lists, arithmetic, comparisons, `and`,
`or`, `not`, comprehensions, the functions below, and attributes and methods of what these return:

  xray(step)              the memory accesses that the CPU device saw on the standard problem; see Xray
  sass(step)              the machine code of the built program, a Kernel of machine_code/sass.py; also
                          arch='sm_80' and kernel='regex'; by default the kernel for aligned shapes. Of its
                          .loop (see Loop): .ffma .per_ffma('LDS'), .hmma .per_hmma('LDSM') with
                          .instructions_per_hmma on tensor cores, .hgmma, .count('LDS.128') .gaps('HMMA') ...
  profile(step, n=4096)   what Nsight Compute counted on the GPU, .sm_cycles .stall('wait') ..., and
                          .cycles_per_hmma (or HGMMA), of a scheduler; see Profile
  ladder(step, n=4096)    measured speed, .tflops .ratio (to cuBLAS) .time_us ...; see Ladder. Also batch=100,
                          and m=, k= where they are not n
  experiment(name, variant)   a recorded experiment's .ratio .tflops .speedup ...
  variant(name, values)   counters of a variant, as in variant('bands', 'tiles in bands of 4 rows')
  register_banks(pattern, warps=4)   a loop of FFMAs with chosen registers, by warps to a scheduler, measured:
                          .cycles_per_ffma, .predicted (by the model of sass(step).loop), .off (predicted
                          against measured, -0.2 is a fifth too few); see RegisterBanks
  architecture(step, arch)   what nvcc makes of a step for another GPU, as recorded: .registers .ffma .others
                          .count('LDS.128') ...; see Architecture
  error(matrix, k, change)  of steps 46 and 47, or of 47 with a change, on matrices of tests/accuracy, in
                          .ours, .fp32 (summation) and whether it is .fast; see emulation_errors.cpp
  const(step, 'BK')       a constant of the step's kernel.cu, or of a file of experiments/kernels, 'name.cu'
  other(ladder, figure)   what the author of another ladder says of it, in docs/other_ladders.toml
  min max abs round sum len all any

and the names gpu (figures of the GPU, with their sources in docs/evidence/h200/device.json), here and before
(this step's and the previous step's directory), steps (all of them), N = 4096. A step may be cut short: '05'.
The goals of exercises know `mine`, the student's kernel, in place of a step.

What cannot be had here (no GPU code in the build, nothing recorded yet) raises NotAvailable; what is wrong
raises ExpressionError, or its subclass NoValue if only a value showed it. Both hold one line.
objects.py holds what the functions return, context.py where it comes from.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any, NamedTuple

from tools.claims.context import MINE, Context, N
from tools.claims.objects import ExpressionError, NotAvailable, NoValue
from tools.machine_code import sass

SOURCES = (
    *("xray", "sass", "profile", "ladder", "experiment", "variant"),
    *("register_banks", "architecture", "error", "const", "other"),
)
PLAIN: dict[str, Callable[..., Any]] = {
    **{"min": min, "max": max, "abs": abs, "round": round},
    **{"sum": sum, "len": len, "all": all, "any": any},
}


def _mine(context: Context) -> str:
    if context.mine is None:
        raise NoValue("'mine' is a student's kernel: only the goals of exercises know it")
    return MINE


NAMES: dict[str, Callable[[Context], Any]] = {
    "here": lambda context: context.step,
    "before": Context.previous,
    "mine": _mine,
    "gpu": Context.gpu,
    "steps": Context.steps,
    "N": lambda _: N,
}


def _power(a: float, b: float) -> float:
    if abs(b) > 64 or abs(a) > 2**64:
        raise NoValue(f"{a} ** {b} is too large")
    return a**b


# Of numbers only: a text times a number could be of any length.
ARITHMETIC: dict[type[ast.AST], Callable[..., Any]] = {
    **{ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv},
    **{ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: _power},
    **{ast.USub: operator.neg, ast.UAdd: operator.pos},
}
COMPARISONS: dict[type[ast.AST], tuple[str, Callable[[Any, Any], bool]]] = {
    **{ast.Eq: ("==", operator.eq), ast.Lt: ("<", operator.lt), ast.LtE: ("<=", operator.le)},
    **{ast.NotEq: ("!=", operator.ne), ast.Gt: (">", operator.gt), ast.GtE: (">=", operator.ge)},
    **{ast.In: ("in", lambda a, b: a in b), ast.NotIn: ("not in", lambda a, b: a not in b)},
}
ALLOWED = (
    *(ast.Name, ast.Attribute, ast.Call, ast.keyword, ast.expr_context, ast.Tuple, ast.List),
    *(ast.UnaryOp, ast.Not, ast.BinOp, ast.BoolOp, ast.boolop, ast.Compare, *ARITHMETIC, *COMPARISONS),
    *(ast.GeneratorExp, ast.ListComp, ast.comprehension),
)


class Comparison(NamedTuple):
    """One comparison that was made: the source of its sides, their values, and whether it held."""

    left: str
    left_value: Any
    sign: str
    right: str
    right_value: Any
    holds: bool


class Evaluation(NamedTuple):
    value: Any
    comparisons: list[Comparison]


# ---- What an expression may hold -------------------------------------------------------------------------


@cache
def parse(expression: str) -> ast.expr:
    """The syntax tree of an expression. ExpressionError if it uses anything that is not on the whitelist,
    reached or not: a file can be judged without a build."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"not an expression: {getattr(error, 'msg', error)}") from None
    nodes = list(ast.walk(tree))
    loops = [node for node in nodes if isinstance(node, ast.comprehension)]
    names = {*NAMES, *(loop.target.id for loop in loops if isinstance(loop.target, ast.Name))}
    functions = (*SOURCES, *PLAIN)
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    for node in nodes:
        said = None
        match node:
            case ast.Call(func=f) if getattr(f, "id", "") not in functions and type(f) is not ast.Attribute:
                said = f"unknown function '{ast.unparse(f)}'; known are {', '.join(functions)}"
            case ast.Name(id=name) if name not in names and node not in called:
                said = f"unknown name '{name}'; known are {', '.join(NAMES)}"
            case ast.Attribute(attr=name) if name.startswith("_"):
                said = f"'.{name}' is not allowed: no name that begins with _"
            case ast.keyword(arg=None):
                said = "'**' in a call is not allowed"
            case ast.Is() | ast.IsNot():
                said = "'is' is not allowed; use =="
            case ast.comprehension(target=target) if not isinstance(target, ast.Name):
                said = "a comprehension takes one name: ... for s in ..."
            case ast.Constant(value=bool() | int() | float() | str()):
                pass
            case _ if not isinstance(node, ALLOWED):
                said = f"'{ast.unparse(node) or type(node).__name__}' is not allowed in an expression"
        if said:
            raise ExpressionError(said)
    return tree


def sources(expression: str) -> list[str]:
    """Which of xray, sass, profile, ladder, experiment, variant, const and gpu an expression uses."""
    names = {node.id for node in ast.walk(parse(expression)) if isinstance(node, ast.Name)}
    return [name for name in (*SOURCES, "gpu") if name in names]


def is_condition(expression: str) -> bool:
    """Whether an expression is true or false by its form."""

    def boolean(node: ast.AST) -> bool:
        match node:
            case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Call(func=ast.Name(id="all" | "any")):
                return True
            case ast.BoolOp(values=values):
                return all(map(boolean, values))
        return False

    return boolean(parse(expression))


# ---- Its value -------------------------------------------------------------------------------------------


def evaluate(expression: str, context: Context) -> Any:
    """The value of an expression. Raises NotAvailable or ExpressionError."""
    return explain(expression, context, compared=False).value


def explain(expression: str, context: Context, compared: bool = True) -> Evaluation:
    """The value of an expression and, if wanted, the comparisons on the way to it. Raises as evaluate()."""
    tree = parse(expression)
    evaluator = _Evaluator(context, compared)
    try:
        return Evaluation(evaluator.value(tree, {}), evaluator.comparisons)
    except sass.NotMeasured as error:
        raise NotAvailable(str(error)) from None
    except sass.SassError as error:
        raise NoValue(str(error)) from None
    except ZeroDivisionError:
        raise NoValue(f"division by zero in '{ast.unparse(tree)}'") from None
    except (TypeError, ValueError, OverflowError, RecursionError, re.error) as error:
        raise NoValue(f"{error} in '{expression.strip()[:80]}'") from None


class _Evaluator:
    """Walks a syntax tree that parse() has let through. `bound`: the names of comprehensions."""

    def __init__(self, context: Context, compared: bool):
        self.context = context
        self.compared = compared
        self.comparisons: list[Comparison] = []

    def value(self, node: ast.AST, bound: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name not in bound and name not in NAMES:
                    raise NoValue(f"unknown name '{name}' outside of its comprehension")
                return bound[name] if name in bound else NAMES[name](self.context)
            case ast.Attribute(value=of, attr=name):
                return attribute(self.value(of, bound), name)
            case ast.Call():
                return self.call(node, bound)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self.value(operand, bound)
            case ast.UnaryOp(op=op, operand=operand):
                return ARITHMETIC[type(op)](number(self.value(operand, bound)))
            case ast.BinOp(left=left, op=op, right=right):
                return ARITHMETIC[type(op)](*(number(self.value(side, bound)) for side in (left, right)))
            case ast.BoolOp(op=op, values=nodes):
                for n in nodes:
                    if bool(value := self.value(n, bound)) != isinstance(op, ast.And):
                        break
                return value
            case ast.Compare():
                return self.compare(node, bound)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return [self.value(element, bound) for element in elements]
            case (
                ast.GeneratorExp(elt=element, generators=parts) | ast.ListComp(elt=element, generators=parts)
            ):
                return [self.value(element, names) for names in self.bindings(parts, bound)]
        raise AssertionError(f"{node} is on the whitelist")

    def bindings(self, parts: list[ast.comprehension], bound: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if not parts:
            yield bound
            return
        items = self.value(parts[0].iter, bound)
        if not isinstance(items, (list, tuple)):
            raise NoValue(f"'{ast.unparse(parts[0].iter)}' is no list")
        for item in items:
            names = {**bound, ast.unparse(parts[0].target): item}
            if all(self.value(condition, names) for condition in parts[0].ifs):
                yield from self.bindings(parts[1:], names)

    def call(self, node: ast.Call, bound: dict[str, Any]) -> Any:
        values = [self.value(argument, bound) for argument in node.args]
        named = {str(keyword.arg): self.value(keyword.value, bound) for keyword in node.keywords}
        if isinstance(node.func, ast.Name):
            target = PLAIN.get(node.func.id) or getattr(self.context, node.func.id)
        else:
            target = self.value(node.func, bound)
            if not is_visible(getattr(target, "__self__", None)):
                raise NoValue(f"'{ast.unparse(node.func)}' is no function")
        try:
            return target(*values, **named)
        except (TypeError, AttributeError) as error:
            said = re.sub(r"^(\w+\.)?\w+\(\) ", "", str(error))
            raise NoValue(f"'{ast.unparse(node)}': {said}") from None

    def compare(self, node: ast.Compare, bound: dict[str, Any]) -> bool:
        left, value = node.left, self.value(node.left, bound)
        for op, other in zip(node.ops, node.comparators, strict=True):
            other_value = self.value(other, bound)
            sign, function = COMPARISONS[type(op)]
            holds = bool(function(value, other_value))
            if self.compared:
                sides = shown(left, bound), value, sign, shown(other, bound), other_value
                self.comparisons.append(Comparison(*sides, holds))
            if not holds:
                return False
            left, value = other, other_value
        return True


def number(value: Any) -> int | float:
    if isinstance(value, (int, float)):
        return value
    raise NoValue(f"{value!r} is no number")


def is_visible(value: Any) -> bool:
    """Whether expressions may look into it: into the project's own objects, and nothing else."""
    return type(value).__module__.startswith("tools.")


def attribute(of: Any, name: str) -> Any:
    if not is_visible(of):
        raise NoValue(f"{of!r} has no .{name}")
    try:
        return getattr(of, name)
    except AttributeError:
        known = ", ".join(known for known in dir(of) if not known.startswith("_"))
        raise NoValue(f"{type(of).__name__.lower()} has no .{name}; it has {known}") from None


def shown(node: ast.AST, bound: dict[str, Any]) -> str:
    """The source of an expression, with the values of a comprehension's names in their places."""
    filled = deepcopy(node) if bound else node
    for name in ast.walk(filled):
        if isinstance(name, ast.Name) and isinstance(bound.get(name.id), (int, str)):
            name.id = repr(bound[name.id])
    return ast.unparse(filled)
