"""What a student's code may hold. The rules say what teaches; what runs is judged from another process
(common/judge), within walls (isolation.py). They read what the compiler gets (source.py). Standard library
only.
"""

import re
from functools import cache

from tools.grading.finding import COMMAND, Failed, Finding

# Words with two underscores, all of CUDA, that the CPU device has; and of std::, what a kernel or its launch
# may need: it works on numbers and on types, not on memory.
CUDA = (
    "__(?:(?:global|device|host|shared|forceinline|noinline|align|launch_bounds|grid_constant|restrict|LINE|FILE)__"
    "|restrict|syncthreads|syncwarp|threadfence|shfl(?:_up|_down|_xor)?_sync|reduce_(?:add|min|max)_sync"
    "|ldc?g|stcg|fmaf_r[nz]|float_as_uint|uint_as_float)"
)
STD = (
    r"(?:abs|size_t|ptrdiff_t|nullptr_t|u?int(?:ptr|max|(?:_fast|_least)?(?:8|16|32|64))_t|fmaf?|fmin|fmax|sqrt|ceil"
    r"|floor|numeric_limits|(?:true|false)_type|integral_constant|bool_constant|is_\w+|conditional(?:_t)?"
    r"|enable_if(?:_t)?|remove_\w+|decay(?:_t)?|declval|(?:make_)?(?:index|integer)_sequence)"
)
LACKS = "CUDA has it, but the CPU device, on which exercises are graded, does not"
# Forbidden words and why; those in the starter are allowed. Of several reasons for a line the first counts.
WORDS = {
    "asm": "inline assembly hides what it does; the wrappers in common/cuda say it",
    r"extern(?!\s+__shared__)": "it reaches into other files; everything an exercise needs is included",
    "throw|try|catch": "a GPU has no exceptions, and what launches needs none",
    "thread_local": "CUDA has no such variables; what is a thread's own is a variable of the kernel",
    r"harness|judge|cpu_device|exercise_\w+|guarded_\w+|run_on_\w+|STEP_\w+": "that is the grader's",
    r"cublas\w*|cutlass|cute|cudnn\w*": "a library's product is no exercise; write the kernel",
    r"cuda[A-Z]\w*": "the host only launches; memory and devices are the program's business",
    r"(?:std\s*::\s*)?(?:mem(?:p?cpy|move|set)|bcopy|bzero)": "nobody sees what that reads; write a loop",
    r"using\s+namespace|std(?!\s*::)": "a name of the standard library stands directly behind std::",
    r"std\s*::\s*array": "write a plain array, such as float sums[TM]",
    r"std\s*::\s*(?:min|max|clamp|swap)": "`std::` has the host's; CUDA's own min and max stand without it",
    rf"std\s*::\s*(?!{STD}(?!\w))\w+(?:\s*::\s*\w+)*": "a kernel needs its numbers and types only",
    rf"(?!{CUDA}(?!\w))_[_A-Z]\w*": f"it is a word of the compiler, or {LACKS}",
    r"(?<!struct )(?:(?:make_)?(?:u?int[13]|u?(?:char|short|long)[1-4]|float[13]|double[1-4])"
    r"|atomic(?!(?:Add|Exch)(?!\w))[A-Z]\w*|cooperative_groups)(?!\w|\s*[=;,])": LACKS,
}
# What is no single word, and what is said of it.
FORMS = {
    r"^[ \t]*#[ \t]*pragma\b(?![ \t]+(?:no)?unroll\b).*": "only #pragma unroll is allowed here.",
    r"\bextern\s+__shared__": "the CPU device has no `extern __shared__`: write an array of constant size, "
    "__shared__ float As[...][...] (in exercise 12: dynamic_shared).",
    r"\b__shared__\s+alignas\b": "write __shared__ __align__(16) float ...: GCC takes no alignas there.",
    r"\[\[(?!\s*(?:maybe_unused|nodiscard|likely|unlikely)\s*\]\])\s*(\w*)": "`[[{0}...]]` is not allowed "
    "here: attributes could hide the kernel from the grader.",
    "<<<": "write launch(kernel, grid, block, 0, g) in place of <<<...>>>: the CPU device has no other.",
}
RULES = [(re.compile(form, re.MULTILINE), says) for form, says in FORMS.items()] + [
    (re.compile(rf"(?<![\w.])(?:{words})(?!\w)"), f"`{{0}}` is not allowed here: {why}.")
    for words, why in WORDS.items()
]
LOOK = f"the task, which says what is yours to write. The starter again: `{COMMAND} reset NAME`"


def check(text: str, allowed: str) -> None:
    """text: the file's code, without the contents of strings; allowed: the starter's. Raises Failed with the
    first rule that is broken."""

    @cache
    def is_given(words: str) -> bool:
        return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", allowed) is not None

    firsts = [
        (next((m for m in form.finditer(text) if not is_given(m[0])), None), says) for form, says in RULES
    ]
    if broken := [(match, says) for match, says in firsts if match]:
        match, says = min(broken, key=lambda pair: _line(text, pair[0].start()))
        found = " ".join(re.sub(r"\s*::\s*", "::", match[match.lastindex or 0]).split())
        raise broken_rule(_line(text, match.start()), says.format(found))


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def broken_rule(line: int, says: str) -> Failed:
    return Failed(Finding("rule", says[0].upper() + says[1:], line, look=LOOK))
