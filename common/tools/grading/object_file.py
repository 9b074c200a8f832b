"""What the compiler made of a student's file: which functions it calls, how much shared memory a block takes,
and whether a variable outlives a call. No spelling hides these. Standard library only.
"""

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tools.grading.content import without_comments
from tools.grading.finding import Finding

MAX_STATIC_SHARED = 48 * 1024  # bytes a block, without asking for more; CUDA's limit
# C functions and variables that an honest kernel may need, the compiler's own ones included. Mathematics, but
# nothing that writes through a pointer: that would not be observed.
NEEDED = re.compile(
    r"threadIdx|blockIdx|blockDim|gridDim|__tls_get_addr|_GLOBAL_OFFSET_TABLE_|__[tu]b?san_\w+|__stack_chk_fail"
    r"|__gxx_personality_v0|_Unwind_Resume|__cxa_\w*(?:exception|throw|catch)"
    r"|memcpy|memset|memmove|__mem(?:cpy|set|move)_chk|printf|puts|putchar|__printf_chk"
    r"|(?:fma|fmax|fmin|fdim|sqrt|cbrt|hypot|ceil|floor|trunc|round|l?lround|rint|l?lrint|nearbyint|fabs|fmod"
    r"|remainder|copysign|nextafter|exp|exp2|expm1|log|log2|log10|log1p|pow|a?(?:sin|cos|tan)h?|atan2|erfc?)f?"
    r"|mmap(?:64)?|munmap|abort"  # exercises_guard.hpp
)
# The library's that fail in words; the rest of std:: works on memory that nobody watches.
NEEDED_OF_STD = re.compile(r"std::(?:__glibcxx_assert_fail|terminate|invalid_argument)\b")


@dataclass(frozen=True)
class Symbol:
    """A row of nm's table; names in C++."""

    name: str
    kind: str  # OBJECT, TLS, FUNC, ...
    bytes: int
    section: str


def check_object(path: Path, source: str) -> Finding | None:
    """The first thing wrong with the object that was made of the source for the CPU device, unobserved.
    Raises OSError if nm cannot be run."""
    symbols = symbols_of(path)
    return _kept(symbols, source) or _shared(symbols, source) or _called(symbols, source)


def symbols_of(path: Path) -> list[Symbol]:
    command = ["nm", "-C", "--format=sysv", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise OSError(0, "nm cannot read it", str(path))
    symbols = []
    for line in result.stdout.splitlines():
        if line.count("|") < 6 or line.startswith("Name"):
            continue
        name, _, _, kind, size, _, section = (word.strip() for word in line.rsplit("|", 6))
        symbols.append(Symbol(name, kind, int(size or "0", 16), section))
    return symbols


def _kept(symbols: list[Symbol], source: str) -> Finding | None:
    kept = []
    for symbol in symbols:
        written = re.match(r"\.t?(?:bss|data)(?!\.rel\.ro)", symbol.section)
        hidden = re.match(r"exercise_guard::|guard variable for|DW\.ref", symbol.name)
        if symbol.kind == "OBJECT" and written and not hidden:
            name = _last(symbol.name)
            kept.append((_line_of(name, source), name))
    if not kept:
        return None
    line, name = min(kept)
    return Finding(
        "rule",
        f"`{name}` outlives a call of sgemm(): what it holds is kept for all later calls. Nothing may be "
        "kept, as each call has other matrices.",
        line,
        look="the variable: constexpr makes it a constant; within a function, and without static, it is new "
        "in every call.",
    )


def _shared(symbols: list[Symbol], source: str) -> Finding | None:
    of_function: dict[str, list[Symbol]] = defaultdict(list)
    for symbol in symbols:
        if symbol.kind == "TLS" and symbol.section != "*UND*":
            if not symbol.name.startswith("(anonymous namespace)::"):
                name = _last(symbol.name)
                return Finding(
                    "rule",
                    f"`{name}` lies outside of `namespace {{`, where the CPU device does not see it.",
                    _line_of(name, source),
                    look="the place of the __shared__ variable: within the kernel is best.",
                )
            of_function[symbol.name.rpartition("::")[0]].append(symbol)
    for variables in of_function.values():
        total = sum(variable.bytes for variable in variables)
        if total <= MAX_STATIC_SHARED:
            continue
        sizes = ", ".join(f"{_last(v.name)} {v.bytes}" for v in variables)
        return Finding(
            "no CUDA",
            f"A block's __shared__ arrays take {total} bytes ({sizes}). Declared so, a GPU has room for "
            f"{MAX_STATIC_SHARED}.",
            _line_of(_last(max(variables, key=lambda v: v.bytes).name), source),
            look="the tile's sizes, and how many floats of 4 bytes the arrays hold.",
        )
    return None


def _called(symbols: list[Symbol], source: str) -> Finding | None:
    for symbol in symbols:
        if symbol.section != "*UND*":
            continue
        name = symbol.name
        if "(" in name or "::" in name:  # C++: only the library's; what nobody has defined the linker tells
            allowed = NEEDED_OF_STD.match(name) or not re.match(r"std::|operator (?:new|delete)", name)
            name = name.partition("(")[0]
        else:
            allowed = NEEDED.fullmatch(name)
        if allowed:
            continue
        return Finding(
            "rule",
            f"It uses the function `{name}`, which is not allowed here: a kernel computes with what it "
            "loads itself, and sgemm() only launches it.",
            _line_of(_last(name), source),
            look="where it is called, maybe by something that the line uses.",
        )
    return None


def _last(name: str) -> str:
    return name.rpartition("::")[2]


def _line_of(name: str, source: str) -> int:
    """The first line of code that names it, 0 if none does."""
    lines = without_comments(source).splitlines()
    return next((n for n, line in enumerate(lines, 1) if re.search(rf"\b{re.escape(name)}\b", line)), 0)
