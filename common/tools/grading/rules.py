"""What a student's file may hold, read from what the compiler's preprocessor makes of it, which is what is compiled
for every device: no macro, comment or condition hides anything. The rules say what teaches; what runs is judged from
another process (common/judge), within walls (isolation.py). Standard library only.
"""

import re
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.grading.content import without_strings
from tools.grading.finding import Failed, Finding
from tools.grading.isolation import Limits, run_confined

LIMITS = Limits(cpu_s=5, wall_s=20, memory=1 << 30, file=16 << 20)
MOST_BYTES, MOST_LINES = 1 << 18, 10_000  # of a hand-in; the longest solution has 20 KB
# Words with two underscores, all of CUDA, that the CPU device has.
CUDA = (
    "__(?:global__|device__|host__|shared__|forceinline__|noinline__|align__|launch_bounds__|restrict|restrict__"
    "|syncthreads|syncwarp|threadfence|shfl(?:_up|_down|_xor)?_sync|ldc?g|stcg|fmaf_r[nz]|float_as_uint|uint_as_float"
    "|grid_constant__|LINE__|FILE__)"
)
# Of std::, what a kernel or its launch may need: it works on numbers and on types, not on memory.
STD = (
    r"(?:abs|size_t|ptrdiff_t|nullptr_t|u?int(?:ptr|max|(?:_fast|_least)?(?:8|16|32|64))_t"
    r"|fmaf?|fmin|fmax|sqrt|ceil|floor|numeric_limits|(?:true|false)_type|integral_constant|bool_constant"
    r"|is_\w+|conditional(?:_t)?|enable_if(?:_t)?|remove_\w+|decay(?:_t)?|declval"
    r"|(?:make_)?(?:index|integer)_sequence)"
)
LACKS = "CUDA has it, but the CPU device, on which exercises are graded, does not"
# Words, and why they are not allowed; the starter's are. Of several reasons on one line the first is told.
WORDS = {
    "asm": "inline assembly hides what it does; the wrappers in common/cuda say it",
    r"extern(?!\s+__shared__)": "it reaches into other files; everything an exercise needs is included",
    "thread_local": "CUDA has no such variables; what is a thread's own is a variable of the kernel",
    r"harness|judge|cpu_device|exercise_guard|guarded_\w+|run_on_\w+|STEP_\w+": "that is a part of the grader",
    r"cublas\w*|cutlass|cute|cudnn\w*": "a library's product is no exercise; write the kernel",
    r"cuda[A-Z]\w*": "the host only launches; memory and devices are the program's business",
    r"(?:std\s*::\s*)?(?:mem(?:p?cpy|move|set)|bcopy|bzero)": "nobody sees what a library reads; the kernel copies",
    r"using\s+namespace": "a name of the standard library stands directly behind std::",
    r"std\s*::\s*array": "write a plain array, such as float sums[TM]",
    r"std\s*::\s*(?:min|max|clamp|swap)": "`std::` has the host's; CUDA's own min and max stand without it",
    rf"std\s*::\s*(?!{STD}(?!\w))\w+(?:\s*::\s*\w+)*": (
        "the work is the kernel's, and of the standard library it needs numbers and types only, such as std::size_t"
    ),
    rf"(?!{CUDA}(?!\w))_[_A-Z]\w*": f"it is a word of the compiler, or {LACKS}",
    r"(?<!struct )(?:u?(?:int|char|short|long)[1-4]|float3|double[2-4]|make_(?:u?int[1-4]|float3)"
    r"|atomic(?!(?:Add|Exch)(?!\w))[A-Z]\w*|cooperative_groups)(?!\w|\s*[=;,])": LACKS,
}
# What is no single word, and what is said of it.
FORMS = {
    r"^[ \t]*#[ \t]*pragma\b(?![ \t]+(?:no)?unroll\b)[ \t]*(\w*).*": (
        "`#pragma {0}` is not allowed here: only #pragma unroll is."
    ),
    r"\bextern\s+__shared__": (
        "the CPU device has no `extern __shared__`: write an array of constant size, __shared__ float As[...][...] (in "
        "exercise 12: dynamic_shared)."
    ),
    r"\b__shared__\s+alignas\b": (
        "write __shared__ __align__(16) float ...: the CPU device's compiler takes no alignas there."
    ),
    r"\[\[(?!\s*(?:maybe_unused|nodiscard|likely|unlikely)\s*\]\])\s*(\w*)": (
        "`[[{0}...]]` is not allowed here: attributes could hide the kernel from the grader."
    ),
    r"""[uUL8]*R(?=")""": 'a string of the kind R"(...)" is not allowed here: an exercise needs none.',
    "<<<": "write launch(kernel, grid, block, 0, g) in place of <<<...>>>: the CPU device has no other.",
}
RULES = [(re.compile(form, re.MULTILINE), says) for form, says in FORMS.items()]
RULES += [
    (re.compile(rf"(?<![\w.])(?:{w})(?!\w)"), f"`{{0}}` is not allowed here: {why}.")
    for w, why in WORDS.items()
]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
FILE = "kernel.cu"
PREPROCESS = ["g++", "-E", "-undef", "-nostdinc", "-std=c++20", "-Iinclude", "-x", "c++"]
LOOK = "the task, which says what is yours to write; `reset` brings the file back."


@dataclass(frozen=True)
class Code:
    """A file as the compiler sees it: text has the file's lines, without comments and macros; includes: of the
    starter."""

    text: str
    includes: tuple[str, ...]


def read(source: str, starter: str) -> Code:
    """The file's code, if it may be graded. starter: what the student began with; what stands there is allowed.
    Raises Failed with the first rule that is broken."""
    if not source.strip("\ufeff \t\r\n"):
        raise Failed(Finding("rule", "The file is empty.", look="`reset`, which brings the starter back."))
    if len(source.encode()) > MOST_BYTES or source.count("\n") > MOST_LINES:
        raise Failed(
            Finding("rule", f"The file is too long: more than {MOST_LINES} lines or {MOST_BYTES} bytes.")
        )
    includes = tuple(dict.fromkeys(INCLUDE.findall(starter)))
    code = Code(preprocessed(source, includes), includes)
    text, allowed = without_strings(code.text), without_strings(preprocessed(starter, includes))
    broken = [
        (_line(text, match.start()), says.format(" ".join(re.sub(r"\s*::\s*", "::", found).split())))
        for pattern, says in RULES
        for match in pattern.finditer(text)
        if not re.search(rf"(?<!\w){re.escape(match[0])}(?!\w)", allowed)
        for found in [match[match.lastindex or 0]]
    ]
    if broken:
        raise _broken(*min(broken, key=lambda pair: pair[0]))
    if wrong_side := no_cuda(text):
        at, says, look = wrong_side
        raise Failed(Finding("no CUDA", says, _line(text, at), look=look))
    return code


def preprocessed(source: str, includes: tuple[str, ...]) -> str:
    """As many lines as the source, without comments, directives and macros. What it includes must be among `includes`,
    of which nothing is read here. Raises Failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for header in includes:
            (folder / "include" / header).parent.mkdir(parents=True, exist_ok=True)
            (folder / "include" / header).touch()
        (folder / FILE).write_text(source.removeprefix("\ufeff"), encoding="utf-8")
        ended = run_confined([*PREPROCESS, FILE, "-o", "out"], LIMITS, writable=[folder], cwd=folder)
        if ended.status == 0:
            return _in_lines(
                (folder / "out").read_text(encoding="utf-8", errors="replace"), source.count("\n") + 1
            )
    found = re.search(rf"^{FILE}:(\d+):\d+: (?:fatal )?error: (.*)", ended.said, re.MULTILINE)
    line, said = (int(found[1]), found[2]) if found else (0, "the preprocessor does not come to its end")
    if missing := re.search(r"(.*): No such file|#include", said):
        said = f"it includes {missing[1] or 'something'}; only the starter's includes are allowed: {', '.join(includes)}."
        raise _broken(line, said)
    raise Failed(
        Finding("compile", f"It does not compile: {said}.", line, look="the line, and the ones before it.")
    )


def _in_lines(made: str, count: int) -> str:
    """What the preprocessor made, each line where it is in the source."""
    lines, at, mine = [""] * (count + 1), 1, True
    for text in made.split("\n"):
        marker = re.match(r'# (\d+) "([^"]*)"', text)
        if marker is None:
            if mine and text and at <= count:
                if lines[at] and text.startswith("#"):
                    raise _broken(at, "`_Pragma` is not allowed here: write #pragma unroll.")
                lines[at] = f"{lines[at]} {text}" if lines[at] else text
            at += mine
        elif mine := marker[2] == FILE:
            if 0 < int(marker[1]) < at:
                raise _broken(min(at, count), "`#line` is not allowed here: an exercise needs none.")
            at = int(marker[1]) or at
        elif not marker[2].startswith(("include/", "<")):
            raise _broken(min(at, count), "`#line` is not allowed here: an exercise needs none.")
    return "\n".join(lines[1:])


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _broken(line: int, says: str) -> Failed:
    return Failed(Finding("rule", says[0].upper() + says[1:], line, look=LOOK))


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
    code = re.sub(r"^[ \t]*#.*$", lambda m: " " * len(m[0]), code, flags=re.MULTILINE)  # pragmas
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
