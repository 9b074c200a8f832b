"""What a student's file may not hold: the ways around writing the kernel that its source shows. The others
show when the program runs (exercises_grade.py). Standard library only.
"""

import re

from exercises_content import without_comments, without_strings
from exercises_finding import Finding

PRAGMAS = ("unroll", "nounroll")
CUDA_WORDS = {
    "__global__", "__device__", "__host__", "__shared__", "__forceinline__", "__noinline__", "__align__",
    "__launch_bounds__", "__restrict__", "__restrict", "__syncthreads", "__syncwarp", "__ldg", "__fmaf_rn",
}  # fmt: skip
# Words, as regular expressions, and why the grader stops at them.
FORBIDDEN = {
    "asm|__asm|__asm__": "inline assembly hides what it does; the wrappers in common/cuda say it",
    "extern": "it reaches into other files; everything an exercise needs is included",
    r"harness|exercise_guard|guarded_sgemm|run_on_\w+|verify_on_host|reference\w*_cpu|STEP_\w+": (
        "that is a part of the grader"
    ),
    r"cpu_device|current_worker|__tsan_\w*|__ubsan_\w*|__sanitizer_\w*": "that observes the kernel",
    "__attribute__|__attribute|no_sanitize|gnu|constructor|destructor": (
        "attributes could hide the kernel from the grader"
    ),
    r"cublas\w*|cutlass|cute|cudnn\w*": "a library's product is no exercise; write the kernel",
    r"cuda[A-Z]\w*": "sgemm() only launches; memory and devices are the program's business",
    "f?open|fopen64|freopen|openat|[io]?fstream|filesystem|FILE|m(?:un|re)?map|mprotect|ioctl|syscall": (
        "a kernel needs no files"
    ),
    r"dlopen|dlsym|system|popen|fork|vfork|exec[lv]\w*|getenv|setenv|ptrace|signal|sigaction": (
        "a kernel needs nothing of the operating system"
    ),
    "_?exit|_Exit|quick_exit|atexit|abort|terminate|longjmp|setjmp|raise|kill": (
        "ending the program early is no answer"
    ),
    r"w?mem(?:cpy|move|set|cmp|chr)|bcopy|bzero|strn?cpy": (
        "the host cannot reach the matrices; the kernel reads and writes them"
    ),
    r"std\s*::\s*(?:copy|fill|move|transform)\w*": "a GPU has no such function; write the loop",
    "malloc|calloc|realloc|aligned_alloc|new|operator|vector|map|unordered_map|thread|jthread|async|future": (
        "the work is the kernel's, in its registers and its shared memory; sgemm() only launches it"
    ),
    r"_Pragma|goto|using\s+namespace|import|module": "an exercise needs none of it",
}
WORDS = [(re.compile(rf"(?<![\w.])(?:{words})(?!\w)"), why) for words, why in FORBIDDEN.items()]


def check(source: str, starter: str) -> Finding | None:
    """The first rule that the file breaks, or None. starter: what the student began with; what stands there
    is allowed."""
    code = without_strings(without_comments(source))
    allowed = without_strings(without_comments(starter))
    includes = _includes(starter)
    for number, line in enumerate(code.splitlines(), 1):
        raw = source.splitlines()[number - 1]
        if finding := _directive(line, raw, includes, allowed):
            finding.line = number
            return finding
        if line.lstrip().startswith("#"):
            continue
        for pattern, why in WORDS:
            for match in pattern.finditer(line):
                if not re.search(rf"(?<!\w){re.escape(match[0])}(?!\w)", allowed):
                    return _broken(f"`{match[0]}` is not allowed here: {why}.", number)
        for word in re.findall(r"(?<!\w)__\w+", line):
            if word not in CUDA_WORDS and word not in allowed:
                return _broken(
                    f"`{word}` is not allowed here: it is a word of the compiler, and none of CUDA's.", number
                )
        if match := re.search(r"\bnamespace\s+(\w+)", line):
            return _broken(
                f"`namespace {match[1]}` is not allowed here: it reaches into other parts of the program.",
                number,
            )
    return None


def _broken(says: str, line: int = 0) -> Finding:
    return Finding(
        "rule", says, line, look="the task, which says what is yours to write; `reset` brings the file back."
    )


def _includes(source: str) -> set[str]:
    return set(re.findall(r'^\s*#\s*include\s*([<"][^>"\n]*[>"])', source, re.MULTILINE))


def _directive(line: str, raw: str, includes: set[str], allowed: str) -> Finding | None:
    """A preprocessor line that is not allowed. Conditionals would let the graded program differ from the one
    that is observed."""
    if "%:" in line or "??=" in line or re.search(r"\\\s*$", line):
        return _broken("a line that goes on in the next, or another spelling of #, is not allowed here.")
    match = re.match(r"\s*#\s*(\w*)(.*)", line)
    if match is None:
        return None
    name, rest = match[1], match[2].strip()
    if name == "include":
        file = next(iter(_includes(raw)), "")
        if file in includes:
            return None
        shown = file or "what the macro says"
        return _broken(
            f"it includes {shown}; only the starter's includes are allowed: {', '.join(sorted(includes))}."
        )
    if name == "pragma" and rest.split(" ")[0].split("(")[0] in PRAGMAS:
        return None
    if (name == "if" and rest in ("0", "1")) or name in ("endif", "else", ""):
        return None
    if name == "define" and re.match(r"[A-Z][A-Z0-9_]* ", rest + " ") and "#" not in rest:
        return None
    if line.strip() and line.strip() in allowed:
        return None
    return _broken(f"`#{name}` is not allowed here: the program must be the same wherever it is graded.")
