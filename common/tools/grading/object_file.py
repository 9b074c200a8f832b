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
    r"|mmap(?:64)?|munmap|abort"  # exercise_guard.hpp
    # Of C++: what fails in words, and what is no library's; the linker tells if nobody has defined it.
    r"|std::(?:__glibcxx_assert_fail|terminate|invalid_argument)\b.*"
    r"|(?!std::|operator (?:new|delete)).*(?:\(|::).*"
)


@dataclass(frozen=True)
class Symbol:
    """A row of nm's table; names in C++."""

    name: str
    kind: str  # OBJECT, TLS, FUNC, ...
    bytes: int
    section: str

    @property
    def last(self) -> str:
        """The name in its namespace, as the source has it."""
        match = re.search(r"(\w+)(?:\[\])?(?:\([^()]*\))?$", self.name)
        return match[1] if match else self.name


def check_object(path: Path, source: str) -> Finding | None:
    """The first thing wrong with the object that was made of the source for the CPU device, unobserved.
    Raises OSError if nm cannot be run."""
    lines = without_comments(source).splitlines()

    def line_of(symbol: Symbol) -> int:
        """The first line of code that names it, 0 if none does."""
        word = re.compile(rf"\b{symbol.last}\b")
        return next((n for n, line in enumerate(lines, 1) if word.search(line)), 0)

    symbols = symbols_of(path)
    written = re.compile(r"\.t?(?:bss|data)(?!\.rel\.ro)")
    hidden = re.compile(r"exercise_guard::|guard variable for|DW\.ref")
    kept = [
        s for s in symbols if s.kind == "OBJECT" and written.match(s.section) and not hidden.match(s.name)
    ]
    if kept:
        first = min(kept, key=line_of)
        says = (
            f"`{first.last}` outlives a call: what it holds is kept for all later calls. Nothing "
            "may be kept, as each call has other matrices."
        )
        look = (
            "the variable: constexpr makes it a constant; within a function, and without static, it is new "
        )
        return Finding("rule", says, line_of(first), look=look + "in every call.")
    shared: dict[str, list[Symbol]] = defaultdict(list)  # of each function
    for symbol in symbols:
        if symbol.kind == "TLS" and symbol.section != "*UND*":
            shared[symbol.name.rpartition("::")[0]].append(symbol)
    for function, arrays in shared.items():
        if not function.startswith("(anonymous namespace)"):
            says = f"`{arrays[0].last}` lies outside of `namespace {{`, where the CPU device does not see it."
            look = "the place of the __shared__ variable: within the kernel is best."
            return Finding("rule", says, line_of(arrays[0]), look=look)
        total = sum(array.bytes for array in arrays)
        if total > MAX_STATIC_SHARED:
            sizes = ", ".join(f"{array.last} {array.bytes}" for array in arrays)
            says = (
                f"A block's __shared__ arrays take {total} bytes ({sizes}). Declared so, a GPU has room for "
            )
            look = "the tile's sizes, and how many floats of 4 bytes the arrays hold."
            line = line_of(max(arrays, key=lambda array: array.bytes))
            return Finding("no CUDA", f"{says}{MAX_STATIC_SHARED}.", line, look=look)
    for symbol in symbols:
        if symbol.section == "*UND*" and not NEEDED.fullmatch(symbol.name):
            says = (
                f"It uses the function `{symbol.name.partition('(')[0]}`, which is not allowed here: a "
                "kernel computes with what it loads itself, and the host only launches it."
            )
            look = "where it is called, maybe by something that the line uses."
            return Finding("rule", says, line_of(symbol), look=look)
    return None


def symbols_of(path: Path) -> list[Symbol]:
    command = ["nm", "-C", "--format=sysv", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise OSError(0, "nm cannot read it", str(path))
    rows = re.findall(
        r"^(.*?) *\|[^|]*\|[^|]*\| *(\w*)\|([0-9a-f]*) *\|[^|]*\|(\S+)", result.stdout, re.MULTILINE
    )
    return [Symbol(name, kind, int(size or "0", 16), section) for name, kind, size, section in rows]
