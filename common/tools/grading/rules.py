"""What a student's file may not hold: the ways around writing the kernel that its source shows, and what is
no CUDA although the CPU device would run it. More shows in what the compiler makes of it
(object_file.py) and when the program runs (grader.py). Standard library only.
"""

import re

from tools.grading.content import PIECE, without_comments, without_strings
from tools.grading.cuda import no_cuda
from tools.grading.finding import Finding

PRAGMAS = ("unroll", "nounroll")
CUDA_WORDS = {
    "__global__", "__device__", "__host__", "__shared__", "__forceinline__", "__noinline__", "__align__",
    "__launch_bounds__", "__restrict__", "__restrict", "__syncthreads", "__syncwarp", "__ldg", "__fmaf_rn",
}  # fmt: skip
# CUDA's as well, but not the CPU device's.
OTHER_CUDA_WORDS = re.compile(
    r"__(?:shfl\w*|constant__|managed__|grid_constant__|cluster\w*|any_sync|all_sync|ballot_sync|activemask"
    r"|match_\w+|reduce_\w+|syncthreads_\w+|threadfence\w*|nanosleep|trap|brkpt|ld(?:c[agsv]|lu)|st(?:cs|cg|wb|wt)"
    r"|f\w+_r[nzud]|[uh]?mul24|[us]ad|popcl?l?|ffsl?l?|clzl?l?|brevl?l?|byte_perm|funnelshift\w*|dp[24]a|half\w*"
    r"|float2\w+|\w+2float\w*|\w+_as_\w+|expf|logf|powf|sinf|cosf|saturatef|cvta\w*|isShared|isGlobal"
    r"|pipeline\w*|maxnreg__|nv_\w+)"
)
# Words, as regular expressions, and why the grader stops at them.
FORBIDDEN = {
    "asm|__asm|__asm__": "inline assembly hides what it does; the wrappers in common/cuda say it",
    r"extern(?!\s+__shared__)": "it reaches into other files; everything an exercise needs is included",
    "thread_local": "CUDA has no such variables; what is a thread's own is a variable of the kernel",
    r"harness|exercise_guard|guarded_sgemm|run_on_\w+|verify_on_host|reference\w*_cpu|STEP_\w+": (
        "that is a part of the grader"
    ),
    r"cpu_device|current_worker|__tsan_\w*|__ubsan_\w*|__sanitizer_\w*": "that observes the kernel",
    "__attribute__|__attribute|no_sanitize|gnu": "attributes could hide the kernel from the grader",
    r"cublas\w*|cutlass|cute|cudnn\w*": "a library's product is no exercise; write the kernel",
    r"cuda[A-Z]\w*": "sgemm() only launches; memory and devices are the program's business",
    "malloc|calloc|realloc|aligned_alloc|new": (
        "the work is the kernel's, in its registers and its shared memory; sgemm() only launches it"
    ),
    r"w?mem[cp]?(?:p?cpy|move|set|cmp|r?chr|ccpy)|wmemp?cpy|bcopy|bzero|swab|explicit_bzero|wcs\w+"
    r"|st[pr]n?(?:cpy|cat|dup|cmp|len|lcpy|lcat|xfrm|chr)": (
        "the host cannot reach the matrices, and nobody sees what a library reads; the kernel copies"
    ),
    r"_Pragma|goto|using\s+namespace|typeof|__typeof__": "an exercise needs none of it",
}
# The same for functions: their names are common words, and only a call is meant. What is left out here the
# linker would not find (object_file.py).
FORBIDDEN_CALLS = {
    "f?open|fopen64|freopen|openat|m(?:un|re)?map|mprotect|ioctl|syscall": "a kernel needs no files",
    r"dlopen|dlsym|system|popen|fork|vfork|exec[lv]\w*|getenv|setenv|ptrace|signal|sigaction": (
        "a kernel needs nothing of the operating system"
    ),
    "_?exit|_Exit|quick_exit|atexit|abort|terminate|longjmp|setjmp|raise|kill": (
        "ending the program early is no answer"
    ),
}
# Of std::, what a kernel or its launch may need: it works on numbers and on types, not on memory.
STD = re.compile(
    r"(?:min|max|clamp|abs|swap|size_t|ptrdiff_t|nullptr_t|u?int(?:ptr|max|(?:_fast|_least)?(?:8|16|32|64))_t"
    r"|fmaf?|fmin|fmax|sqrt|ceil|floor|numeric_limits|(?:true|false)_type|integral_constant|bool_constant"
    r"|is_\w+|conditional(?:_t)?|enable_if(?:_t)?|remove_\w+|decay(?:_t)?|declval|(?:make_)?(?:index|integer)_sequence)"
    r"(?!\w)"
)
STD_WHY = {
    "array": "write a plain array, such as float sums[TM]",
    r"(?:ranges\s*::\s*)?(?:copy|fill|move|transform)\w*|memory|ranges": (
        "a GPU has no such function; write the loop"
    ),
    r"j?thread\w*|async|future|promise|vector|(?:unordered_)?map|[dl]ist|deque|(?:unique|shared)_ptr|make_\w+"
    r"|function|string\w*|allocator\w*": (
        "the work is the kernel's, in its registers and its shared memory; sgemm() only launches it"
    ),
    r"[io]?fstream|filesystem\w*|FILE|[if]?open|f\w*(?:read|write)": "a kernel needs no files",
    r"system|getenv|signal\w*|raise": "a kernel needs nothing of the operating system",
    r"_?exit|_Exit|quick_exit|atexit|abort|terminate\w*": "ending the program early is no answer",
    r"c(?:out|err|log|in)|f?printf|f?puts|print\w*": (
        "output would slow the kernel down; what it does the X-ray shows (exercises check tells more)"
    ),
    r"mem\w+|str\w+|wcs\w+": (
        "the host cannot reach the matrices, and nobody sees what a library reads; the kernel copies"
    ),
}
LOOK = "the task, which says what is yours to write; `reset` brings the file back."
SAME = "the program must be the same wherever it is graded"


def check(source: str, starter: str) -> Finding | None:
    """The first rule that the file breaks, or None. starter: what the student began with; what stands there
    is allowed."""
    if not source.strip("\ufeff \t\r\n"):
        return Finding("rule", "The file is empty.", look="`reset`, which brings the starter back.")
    text = joined(source)
    for piece in PIECE.finditer(text):
        if piece["mark"] is not None:
            line = text.count("\n", 0, piece.start()) + 1
            return _broken('a string of the kind R"(...)" is not allowed here: an exercise needs none.', line)
    code = without_strings(without_comments(text))
    allowed = without_strings(without_comments(joined(starter)))
    # What is checked in its own way is not looked at for words.
    plain_lines = []
    for number, line in enumerate(code.splitlines(), 1):
        raw = text.splitlines()[number - 1]
        if finding := _directive(line, raw, _includes(starter), allowed):
            finding.line = number
            return finding
        plain_lines.append("" if re.match(r"\s*#\s*(?:include|pragma)\b", line) else line)
    plain = "\n".join(plain_lines)
    broken = [
        *_words(plain, allowed),
        *_std(plain, allowed),
        *_compiler_words(plain, allowed),
        *_forms(plain),
    ]
    if broken:
        at, says = min(broken, key=lambda pair: pair[0])
        return _broken(says, plain.count("\n", 0, at) + 1)
    unnamed = r"\bnamespace\s*\{"
    if re.search(unnamed, allowed) and not re.search(unnamed, plain):
        return _broken("`namespace {` around the kernel and sgemm() is missing; the starter has it.")
    if found := no_cuda(plain):
        at, says, look = found
        return Finding("no CUDA", says, plain.count("\n", 0, at) + 1, look=look)
    return None


def joined(source: str) -> str:
    """The source with lines that go on in the next made one, as the compiler does first of all; as many lines
    as before."""
    pieces = []
    waiting = 0  # line ends that were taken out
    for line in source.lstrip("\ufeff").splitlines():
        if match := re.search(r"\\[ \t\f\v]*$", line):
            pieces.append(line[: match.start()])
            waiting += 1
        else:
            pieces.append(line + "\n" * (waiting + 1))
            waiting = 0
    return "".join(pieces) + "\n" * waiting


def _broken(says: str, line: int = 0) -> Finding:
    return Finding("rule", says[0].upper() + says[1:], line, look=LOOK)


Broken = tuple[int, str]  # where in the text, and what is wrong


def _words(code: str, allowed: str) -> list[Broken]:
    """Words that get round the work, macros' included."""
    found = []
    tables = [(words, r"(?!\w)", why) for words, why in FORBIDDEN.items()]
    calls = FORBIDDEN_CALLS.items()
    tables += [(w, r"(?=\s*\()", f"{why} (if it is your own, give it another name)") for w, why in calls]
    for words, end, why in tables:
        for match in re.finditer(rf"(?<![\w.])(?:{words}){end}", code):
            if not re.search(rf"(?<!\w){re.escape(match[0])}(?!\w)", allowed):
                found.append((match.start(), f"`{_one_line(match[0])}` is not allowed here: {why}."))
    return found


def _std(code: str, allowed: str) -> list[Broken]:
    """Names of the standard library that a kernel does not need, and `std` by another name."""
    found = []
    for match in re.finditer(r"(?<!\w)std(?!\w)(\s*::\s*)?", code):
        rest = code[match.end() :]
        if match[1] is None:
            found.append((match.start(), "`std` is not allowed here without `::` and a name behind it."))
            continue
        name = re.match(r"(?:\w+\s*::\s*)*\w*", rest)
        whole = "std::" + re.sub(r"\s", "", name[0] if name else "")
        if STD.match(rest) or whole in allowed:
            continue
        why = next((why for words, why in STD_WHY.items() if re.match(rf"(?:{words})(?!\w)", rest)), None)
        why = why or "an exercise needs numbers and types of the standard library only, such as std::size_t"
        found.append((match.start(), f"`{whole}` is not allowed here: {why}."))
    return found


def _compiler_words(code: str, allowed: str) -> list[Broken]:
    """Words that begin with two underscores: CUDA's, as far as the CPU device has them."""
    found = []
    for match in re.finditer(r"(?<!\w)__\w+", code):
        word = match[0]
        if word in CUDA_WORDS or re.search(rf"(?<!\w){word}(?!\w)", allowed):
            continue
        why = (
            "CUDA has it, but the CPU device, on which exercises are graded, does not"
            if OTHER_CUDA_WORDS.fullmatch(word)
            else "it is a word of the compiler, and none that the CPU device has from CUDA"
        )
        found.append((match.start(), f"`{word}` is not allowed here: {why}."))
    return found


def _forms(code: str) -> list[Broken]:
    """What is no single word."""
    found = []
    for pattern, says in (
        (
            r"\bnamespace\b(?!\s*\{)(?:\s*(\w+))?",
            "`namespace {0}` is not allowed here: it could reach into other parts of the program; "
            "leave the name out.",
        ),
        (r"\boperator\s*(new|delete)\b", "`operator {0}` is not allowed here: a kernel allocates nothing."),
        (
            r"\[\[(?!\s*(?:maybe_unused|nodiscard|likely|unlikely)\s*\]\])\s*(\w*)",
            "`[[{0}...]]` is not allowed here: attributes could hide the kernel from the grader.",
        ),
        (
            r"\bextern\s+__shared__()",
            "the CPU device has no `extern __shared__`: write an array of constant size, __shared__ float "
            "As[...][...] (in exercise 10: dynamic_shared).",
        ),
        (
            r"\b__shared__\s+alignas\b()",
            "write __shared__ __align__(16) float ...: the CPU device's compiler takes no alignas there.",
        ),
        (
            r"(?<![\w.])(?<!struct )(u?(?:int|char|short|long)[1-4]|float3|double[2-4]"
            r"|make_(?:u?int[1-4]|float3)|atomic[A-Z]\w*|cooperative_groups)(?!\w)(?!\s*[=;,])",
            "`{0}` is not allowed here: CUDA has it, but the CPU device, on which exercises are graded, "
            "does not.",
        ),
        (r"\\()", "a backslash is not allowed here, but within a string."),
        (r"<%|%>|\?\?[=/'()!<>-]()", "this spelling of a bracket or a # is not allowed here."),
        (
            r"<<<()",
            "write launch(kernel, grid, block, 0, g) in place of <<<...>>>: the CPU device has no other.",
        ),
    ):
        found += [(m.start(), says.format(m[1] or "")) for m in re.finditer(pattern, code)]
    return found


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _includes(source: str) -> set[str]:
    return set(re.findall(r'^\s*#\s*include\s*([<"][^>"\n]*[>"])', source, re.MULTILINE))


def _directive(line: str, raw: str, includes: set[str], allowed: str) -> Finding | None:
    """A preprocessor line that is not allowed. Conditionals would let the graded program differ from the one
    that is observed."""
    if "%:" in line:
        return _broken("another spelling of # is not allowed here.")
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
    if name == "pragma":
        if rest.split(" ")[0].split("(")[0] in PRAGMAS:
            return None
        return _broken(f"`#pragma {rest.split(' ')[0]}` is not allowed here: only #pragma unroll is.")
    if (name == "if" and rest in ("0", "1")) or name in ("endif", "else", ""):
        return None
    if line.strip() and line.strip() in allowed:
        return None
    if name == "define":
        if "#" in rest:
            return _broken("`#` in a macro is not allowed here: it makes words that nobody sees.")
        if not re.match(r"[A-Z][A-Z0-9_]*\b", rest):
            macro = re.split(r"\W", rest)[0]
            return _broken(
                f"the macro `{macro}` is not allowed here: names of macros are to be in capitals, so that "
                "none takes the place of another word (or write constexpr int ...)."
            )
        return None
    if name in ("if", "ifdef", "ifndef", "elif", "elifdef", "elifndef"):
        return _broken(f"`#{name}` is not allowed here: {SAME}.")
    return _broken(f"`#{name}` is not allowed here: an exercise needs none.")
