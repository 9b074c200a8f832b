"""What the text of a student's file may not hold: what would get round the grader or hide what it does, and
what is no CUDA although the CPU device would run it. The rest shows in what the compiler makes of it
(object_file.py) and when the program runs (exercise_guard.hpp, grader.py). Standard library only.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tools.grading.content import PIECE, without_comments, without_strings
from tools.grading.finding import Finding

# Words with two underscores, all of CUDA, that the CPU device has.
CUDA = (
    "__(?:global__|device__|host__|shared__|forceinline__|noinline__|align__|launch_bounds__|restrict|restrict__"
    "|syncthreads|syncwarp|threadfence|shfl(?:_up|_down|_xor)?_sync|ldc?g|stcg|fmaf_r[nz]|float_as_uint|uint_as_float)"
)
# Of std::, what a kernel or its launch may need: it works on numbers and on types, not on memory.
STD = (
    r"(?:abs|size_t|ptrdiff_t|nullptr_t|u?int(?:ptr|max|(?:_fast|_least)?(?:8|16|32|64))_t"
    r"|fmaf?|fmin|fmax|sqrt|ceil|floor|numeric_limits|(?:true|false)_type|integral_constant|bool_constant"
    r"|is_\w+|conditional(?:_t)?|enable_if(?:_t)?|remove_\w+|decay(?:_t)?|declval"
    r"|(?:make_)?(?:index|integer)_sequence)"
)
# Words, and why they are not allowed; the starter's are. Of several reasons on one line the first is told.
WORDS = {
    "asm|__asm|__asm__": "inline assembly hides what it does; the wrappers in common/cuda say it",
    r"extern(?!\s+__shared__)": "it reaches into other files; everything an exercise needs is included",
    "thread_local": "CUDA has no such variables; what is a thread's own is a variable of the kernel",
    r"harness|exercise_guard|guarded_\w+|run_on_\w+|verify_on_host|reference\w*_cpu|STEP_\w+": (
        "that is a part of the grader"
    ),
    "cpu_device|current_worker": "that observes the kernel",
    "__attribute__|__attribute|no_sanitize|gnu": "attributes could hide the kernel from the grader",
    r"cublas\w*|cutlass|cute|cudnn\w*": "a library's product is no exercise; write the kernel",
    r"cuda[A-Z]\w*": "the host only launches; memory and devices are the program's business",
    # The compiler makes calls of these itself, so the object does not tell.
    r"(?:std\s*::\s*)?(?:mem(?:p?cpy|move|set)|bcopy|bzero)": (
        "the host cannot reach the matrices, and nobody sees what a library reads; the kernel copies"
    ),
    r"_Pragma|using\s+namespace|operator\s*(?:new|delete)": "an exercise needs none of it",
    r"std(?!\s*::)": "a name of the standard library stands directly behind std::",
    r"std\s*::\s*array": "write a plain array, such as float sums[TM]",
    r"std\s*::\s*(?:min|max|clamp|swap)": "`std::` has the host's; CUDA's own min and max stand without it",
    r"std\s*::\s*(?:ranges\s*::\s*)?(?:copy|fill|move|transform)\w*": (
        "a GPU has no such function; write the loop"
    ),
    rf"std\s*::\s*(?!{STD}(?!\w))\w+(?:\s*::\s*\w+)*": (
        "the work is the kernel's, and of the standard library it needs numbers and types only, such as "
        "std::size_t"
    ),
    rf"(?!{CUDA}(?!\w))__\w+": (
        "it is a word of the compiler, or CUDA has it, but the CPU device, on which exercises are graded, "
        "does not"
    ),
    r"(?<!struct )(?:u?(?:int|char|short|long)[1-4]|float3|double[2-4]|make_(?:u?int[1-4]|float3)"
    r"|atomic(?!(?:Add|Exch)(?!\w))[A-Z]\w*|cooperative_groups)(?!\w|\s*[=;,])": (
        "CUDA has it, but the CPU device, on which exercises are graded, does not"
    ),
}
# What is no single word, and what is said of it.
FORMS = {
    r"^[ \t]*#[ \t]*pragma\b(?![ \t]+(?:no)?unroll\b)[ \t]*(\w*).*": (
        "`#pragma {0}` is not allowed here: only #pragma unroll is."
    ),
    r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|elifdef|elifndef)\b(?![ \t]+[01][ \t]*$).*": (
        "`#{0}` is not allowed here: the program must be the same wherever it is graded."
    ),
    r"^[ \t]*#[ \t]*define\b(?![ \t]+[A-Z][A-Z0-9_]*\b)[ \t]*(\w*).*": (
        "the macro `{0}` is not allowed here: names of macros are to be in capitals, so that none takes the "
        "place of another word (or write constexpr int ...)."
    ),
    r"^[ \t]*#[ \t]*define\b.*#.*": "`#` in a macro is not allowed here: it makes words that nobody sees.",
    r"^[ \t]*#[ \t]*(?!(?:include|pragma|define|\w*if|\w*ifn?def|else)\b)(\w+).*": (
        "`#{0}` is not allowed here: an exercise needs none."
    ),
    r"%:|<%|%>|\?\?[=/'()!<>-]": "another spelling of a bracket or a # is not allowed here.",
    r"\bextern\s+__shared__": (
        "the CPU device has no `extern __shared__`: write an array of constant size, __shared__ float "
        "As[...][...] (in exercise 12: dynamic_shared)."
    ),
    r"\b__shared__\s+alignas\b": (
        "write __shared__ __align__(16) float ...: the CPU device's compiler takes no alignas there."
    ),
    r"\bnamespace\b(?!\s*\{)(?:\s*(\w*))": (
        "`namespace {0}` is not allowed here: it could reach into other parts of the program; leave the name "
        "out."
    ),
    r"\[\[(?!\s*(?:maybe_unused|nodiscard|likely|unlikely)\s*\]\])\s*(\w*)": (
        "`[[{0}...]]` is not allowed here: attributes could hide the kernel from the grader."
    ),
    r"\\": "a backslash is not allowed here, but within a string.",
    "<<<": "write launch(kernel, grid, block, 0, g) in place of <<<...>>>: the CPU device has no other.",
}
RULES = [(re.compile(form, re.MULTILINE), says) for form, says in FORMS.items()]
RULES += [
    (re.compile(rf"(?<![\w.])(?:{w})(?!\w)"), f"`{{0}}` is not allowed here: {why}.")
    for w, why in WORDS.items()
]
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[ \t]*(.*?)[ \t]*$", re.MULTILINE)
UNNAMED = re.compile(r"\bnamespace\s*\{")
LOOK = "the task, which says what is yours to write; `reset` brings the file back."


def check(source: str, starter: str) -> Finding | None:
    """The first rule that the file breaks, or None. starter: what the student began with; what stands there
    is allowed."""
    if not source.strip("\ufeff \t\r\n"):
        return Finding("rule", "The file is empty.", look="`reset`, which brings the starter back.")
    text, beginning = without_comments(joined(source)), without_comments(joined(starter))
    raw = 'a string of the kind R"(...)" is not allowed here: an exercise needs none.'
    broken = [(_line(text, p.start()), raw) for p in PIECE.finditer(text) if p["mark"] is not None]
    includes = sorted(set(INCLUDE.findall(beginning)))
    only = f"only the starter's includes are allowed: {', '.join(includes)}."
    for match in INCLUDE.finditer(text):
        if match[1] not in includes:
            broken.append((_line(text, match.start()), f"it includes {match[1]}; {only}"))
    code, allowed = without_strings(text), without_strings(beginning)
    for pattern, says in RULES:
        for match in pattern.finditer(code):
            if not re.search(rf"(?<!\w){re.escape(match[0])}(?!\w)", allowed):
                found = re.sub(r"\s*::\s*", "::", " ".join(match[match.lastindex or 0].split()))
                broken.append((_line(code, match.start()), says.format(found)))
    if broken:
        return _broken(*min(broken, key=lambda pair: pair[0]))
    if UNNAMED.search(allowed) and not UNNAMED.search(code):
        return _broken(0, "`namespace {` around the kernel and its launch is missing; the starter has it.")
    if wrong_side := no_cuda(code):
        at, says, look = wrong_side
        return Finding("no CUDA", says, _line(code, at), look=look)
    return None


def joined(source: str) -> str:
    """The source with lines that go on in the next made one, as the compiler does first of all; as many lines
    as before."""
    goes_on = r"\\[ \t\r\f\v]*\n"
    return re.sub(
        rf"(?:[^\n]*{goes_on})+[^\n]*",
        lambda lines: re.sub(goes_on, "", lines[0]) + "\n" * lines[0].count("\n"),
        source.lstrip("\ufeff"),
    )


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _broken(line: int, says: str) -> Finding:
    return Finding("rule", says[0].upper() + says[1:], line, look=LOOK)


# ---- Calls from the wrong side ---------------------------------------------------------------------------

ARGUMENTS = r"\s*\((?:[^()]|\([^()]*\))*\)"
ATTRIBUTE = re.compile(rf"\b(?:__launch_bounds__|__align__|alignas|decltype|requires|explicit){ARGUMENTS}")
# A lambda with a name is a function, too; a constructor has a list behind its parameters.
FUNCTION = re.compile(
    r"(?:\A|(?<=[;{}]))([^;{}()]*)\b(?!(?:if|for|while|switch|catch)\b)(\w+)\s*(?:=\s*\[[^\]]*\]\s*)?"
    rf"{ARGUMENTS}[^;{{}}()=:]*(?::[^;{{}}]*)?\{{"
)
DEVICE_WORDS = ("__shared__", "__syncthreads", "__syncwarp", "threadIdx", "blockIdx", "blockDim", "gridDim")
NOT_CALLED = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*\()")
USE = re.compile(rf"\b({'|'.join(DEVICE_WORDS)})\b|(?<![\w.])(\w+)\s*(?:<[^<>;(){{}}]*>\s*)?\(")
FOR_KERNELS = ("__global__", "__device__", "constexpr", "consteval")
MARKS = "the words before the functions: __global__ makes a kernel, __device__ a function that kernels call."


@dataclass(frozen=True)
class Function:
    """A function with a body. marks: what stands before its name; start, at: where it and the body begin."""

    name: str
    marks: str
    start: int
    at: int
    body: str

    def has(self, *words: str) -> bool:
        return not set(words).isdisjoint(re.findall(r"\w+", self.marks))


def no_cuda(code: str) -> tuple[int, str, str] | None:
    """Where the first call from the wrong side is, or launch of what is no kernel; what is wrong; a look.
    code: without comments and the contents of strings."""
    code = re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m[0]), code, flags=re.MULTILINE)
    functions: dict[str, list[Function]] = defaultdict(list)
    for function in functions_of(code):
        functions[function.name].append(function)
    found = [item for same in functions.values() for f in same for item in _wrong_side(f, functions)]
    for launch in re.finditer(r"(?<!\w)launch\s*\(([^,]*)", code):
        names = NOT_CALLED.findall(launch[1])
        holds = [x for name in names for x in re.findall(rf"\b{name}\s*=(?!=)([^;[]*);", code)]
        names += NOT_CALLED.findall(" ".join(holds))  # of a variable that holds the kernel
        for same in (functions[name] for name in names if name in functions):
            if not any(f.has("__global__") for f in same):
                says = f"`{same[0].name}` is launched, but it is no kernel: __global__ is missing before it."
                found.append((same[0].start, says, MARKS))
    return min(found, default=None)


def functions_of(code: str) -> Iterator[Function]:
    """The functions that are defined in namespaces and in structs."""
    code = ATTRIBUTE.sub(lambda m: " " * len(m[0]), code)
    at = 0
    while match := FUNCTION.search(code, at):
        at, depth = match.end(), 1
        while depth and at < len(code):
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        yield Function(match[2], match[1], match.start(2), match.end(), code[match.end() : at])


def _wrong_side(caller: Function, functions: dict[str, list[Function]]) -> Iterator[tuple[int, str, str]]:
    on_device = caller.has("__global__", "__device__")
    for match in USE.finditer(caller.body):
        word, name = match.groups()
        # A lambda or a variable of the caller's own may have the same name.
        own = name == caller.name or re.search(rf"\b{name}\s*[={{]", caller.body)
        called = [] if name is None or own else functions.get(name, [])
        says, look = "", MARKS
        if word and not on_device:
            says = (
                f"`{word}` is for kernels, and `{caller.name}` is a function of the host: is __global__ or "
            )
            says += "__device__ missing before it?"
        elif called and all(f.has("__global__") for f in called):
            says, look = (
                f"`{name}` is a kernel: it is launched, not called.",
                "launch(), which is for kernels.",
            )
        elif called and on_device and not any(f.has(*FOR_KERNELS) for f in called):
            says = (
                f"The kernel's side calls `{name}`, which only the host has: __device__ is missing before it."
            )
        elif (
            called and not on_device and not any(f.has("__host__") or not f.has("__device__") for f in called)
        ):
            says = (
                f"`{caller.name}` runs on the host and calls `{name}`, which only the GPU has (__device__)."
            )
        if says:
            yield caller.at + match.start(), says, look
