"""What the compiler made of a student's file: which functions it calls, how much shared memory a block takes,
whether a variable outlives a call or something runs beforehand. No spelling hides these. Standard library
only.
"""

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tools.grading.finding import Failed, Finding

MAX_STATIC_SHARED = 48 * 1024  # bytes a block, without asking for more; CUDA's limit
# C functions and variables that an honest kernel may need, the compiler's own ones included. Mathematics, but
# nothing that writes through a pointer: that would not be observed.
NEEDED = re.compile(
    r"threadIdx|blockIdx|blockDim|gridDim|__tls_get_addr|_GLOBAL_OFFSET_TABLE_|__[tu]b?san_\w+|__stack_chk_fail"
    r"|__gxx_personality_v0|_Unwind_Resume|__cxa_\w*(?:exception|throw|catch)"
    r"|memcpy|memset|memmove|__mem(?:cpy|set|move)_chk|printf"
    r"|(?:fma|fmax|fmin|fdim|sqrt|cbrt|hypot|ceil|floor|trunc|round|l?lround|rint|l?lrint|nearbyint|fabs|fmod"
    r"|remainder|copysign|nextafter|exp|exp2|expm1|log|log2|log10|log1p|pow|a?(?:sin|cos|tan)h?|atan2|erfc?)f?"
    # C++: what reports a failure, and anything not from a library; the linker finds what is undefined.
    r"|std::(?:__glibcxx_assert_fail|terminate|invalid_argument)\b.*"
    r"|(?!std::|operator (?:new|delete)).*(?:\(|::).*"
)
# Of objdump's table: flags, section, size and name.
ROW = re.compile(r"^[0-9a-f]+ (.{7}) (\S+)\t([0-9a-f]+) (?:\.hidden )?(\S+)$", re.MULTILINE)
SLOW_S = 120  # for objects of at most MOST_BYTES, binutils take less
OBSERVING = (".init_array.00099", 8)  # a section and its bytes
KERNELS = ".text.hot."  # the sections of what is marked as hot: kernels alone
# Of objdump's lines: the student's line, what a relocation names, and a call of what an address tells.
PLACE = re.compile(r"\S.*/kernel\.cu:(\d+)")
CALLED = re.compile(r"\bR_\w+\s+(\.text\.(?:(?:hot|unlikely|startup)\.)?)?([\w$]+)")
BY_ADDRESS = re.compile(r":\s+(?:notrack )?(?:(?:call|jmp)q?\s+\*|blra?\w*\s|bra?\w*\s+x\d)")
OUTLIVES = "the variable: constexpr makes a constant; in a function, without static, it is new in every call."


@dataclass(frozen=True)
class Symbol:
    """A row of objdump's table. name: in C++; linker: as the linker knows it; flags: as it shows them."""

    name: str
    linker: str
    flags: str
    bytes: int
    section: str

    @property
    def is_function(self) -> bool:
        return self.flags.endswith("F") and self.section != "*UND*"

    @property
    def last(self) -> str:
        """The name in its namespace, as the source has it."""
        match = re.search(r"(\w+)(?:\[\])?(?:\([^()]*\))?$", self.name)
        return match[1] if match else self.name


def check_object(path: Path, source: str, binutils: str = "") -> dict[str, str]:
    """Checks what was compiled for the CPU device. Returns what the compiler has marked as kernels, each with
    the function of exercise_guard.hpp that calls one with its parameters, "" if nothing launches it so: the
    linker's names. binutils: the prefix of the tools that read another processor's objects. Raises Failed
    with the first thing wrong, OSError if the object cannot be read."""
    said = _said(f"{binutils}objdump", "-htdrlw", "--no-show-raw-insn", path)
    symbols = symbols_of(said)
    _nothing_outlives(symbols, source)
    _nothing_runs_before(said, symbols)
    _shared_memory_fits(symbols, source)
    for symbol in symbols:
        if symbol.section == "*UND*" and not NEEDED.fullmatch(symbol.name):
            says = f"It uses the function `{symbol.name.partition('(')[0]}`, which is not allowed here."
            look = "where it is called, maybe by something that the line uses."
            raise Failed(Finding("rule", says, line_of(symbol, source), look=look))
    _kernels_are_whole(said)
    return kernels_of(symbols)


def kernels_of(symbols: list[Symbol]) -> dict[str, str]:
    spread = re.compile(r"void exercise_guard::\(anonymous namespace\)::spread<(.*)>\(void const\*\)")
    spreads = {match[1].strip(): s.linker for s in symbols if (match := spread.fullmatch(s.name))}
    return {
        s.linker: spreads.get(_parameters(s.name), "")
        for s in symbols
        if s.is_function and f"{s.section}.".startswith(KERNELS)
    }


def _parameters(function: str) -> str:
    """What stands between its last parentheses."""
    depth = 0
    for at in range(len(function) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(function[at], 0)
        if depth == 0:
            return function[at + 1 : -1]
    return ""


def kernel_table(kernels: dict[str, str]) -> str:
    """The table of common/judge/launches.cpp, in assembly."""
    rows = [".globl exercise_kernels", '.section .data.rel.ro,"aw"', ".balign 8", "exercise_kernels:"]
    for kernel, spread in kernels.items():
        rows.append(f'.pushsection .rodata; 1: .asciz "{kernel}"; .popsection')
        rows.append(f".quad 1b, {kernel}, {spread or 0}")
    return "\n".join([*rows, ".quad 0", '.section .note.GNU-stack,"",%progbits', ""])


def line_of(symbol: Symbol, source: str) -> int:
    """The first line of code that names it, 0 if none does."""
    return _first_lines(source).get(symbol.last, 0)


@lru_cache(maxsize=4)
def _first_lines(source: str) -> dict[str, int]:
    """Where each word first stands."""
    words = ((word, n) for n, line in enumerate(source.split("\n"), 1) for word in re.findall(r"\w+", line))
    return dict(reversed([*words]))


def _nothing_outlives(symbols: list[Symbol], source: str) -> None:
    written = re.compile(r"\.t?(?:bss|data)(?!\.rel\.ro)")
    hidden = re.compile(r"exercise_guard::|cpu_device::|guard variable for|DW\.ref")
    kept = [
        s for s in symbols if s.flags.endswith("O") and written.match(s.section) and not hidden.match(s.name)
    ]
    if kept:
        first = min(kept, key=lambda symbol: line_of(symbol, source))
        says = f"`{first.last}` outlives a call; nothing may be kept, as each call has other matrices."
        raise Failed(Finding("rule", says, line_of(first, source), look=OUTLIVES))


def _nothing_runs_before(said: str, symbols: list[Symbol]) -> None:
    # Of objdump's list of sections. What is compiled to be observed begins with one call of its own.
    sections = re.findall(r"^ +\d+ (\S+) +([0-9a-f]+) ", said, re.MULTILINE)
    early = re.compile(r"\.(?:(?:pre)?init_array|fini_array|[cd]tors|init\b).*")
    found = [name for name, size in sections if early.match(name) and (name, int(size, 16)) != OBSERVING]
    found += [s.last for s in symbols if "i" in s.flags]  # a function chooses them as the program begins
    if found:
        says = "Something of the file runs before or after the program: the work is the kernel's alone."
        look = f"variables outside of functions: only constexpr ones need no code ({found[0]})."
        raise Failed(Finding("rule", says, look=look))


def _shared_memory_fits(symbols: list[Symbol], source: str) -> None:
    shared: dict[str, list[Symbol]] = defaultdict(list)  # of each function
    for symbol in symbols:
        if symbol.section.startswith((".tbss", ".tdata")):
            shared[symbol.name.rpartition("::")[0]].append(symbol)
    for function, arrays in shared.items():
        arrays.sort(key=lambda array: line_of(array, source))
        if not function.startswith("(anonymous namespace)"):
            says = f"`{arrays[0].last}` lies outside of `namespace {{`; declare it within the kernel."
            raise Failed(Finding("rule", says, line_of(arrays[0], source), look="its declaration."))
        total = sum(array.bytes for array in arrays)
        if total > MAX_STATIC_SHARED:
            sizes = ", ".join(f"{array.last} {array.bytes}" for array in arrays)
            says = (
                f"A block's __shared__ arrays take {total} bytes ({sizes}); at most {MAX_STATIC_SHARED} fit."
            )
            look = "the tile's sizes, and how many floats of 4 bytes the arrays hold."
            line = line_of(max(arrays, key=lambda array: array.bytes), source)
            raise Failed(Finding("no CUDA", says, line, look=look))


def _kernels_are_whole(said: str) -> None:
    """A kernel calls nothing of the file, as all of it is inlined, and nothing by its address: only then are
    all of its reads and writes observed."""
    own = {row[3] for row in ROW.findall(said) if row[0].endswith("F") and row[1] != "*UND*"}
    line = 0
    sections = (section.partition(":\n") for section in said.split("\nDisassembly of section ")[1:])
    kernels = [(name.removeprefix(KERNELS), code) for name, _, code in sections if name.startswith(KERNELS)]
    for kernel, text in ((kernel, text) for kernel, code in kernels for text in code.splitlines()):
        if place := PLACE.match(text):
            line = int(place[1])
        called = CALLED.search(text) if "R_" in text else None
        # Of an AArch64 relocation that finds a shared variable, too.
        by_address = None if "R_AARCH64_TLSDESC_CALL" in text else BY_ADDRESS.search(text)
        name = called[2] if called and (called[1] or called[2] in own) else kernel
        trusted = name == kernel or "exercise_guard" in name  # which no student's file may hold
        if by_address or not trusted:
            what = "a function through a pointer or a table" if by_address else f"`{demangled(name)}`"
            says = f"A kernel calls {what}, which cannot become a part of it: its accesses would go unseen."
            look = "its calls: no recursion; if, switch or a template's parameter in place of a pointer."
            raise Failed(Finding("rule", says, line, look=look))


def demangled(name: str) -> str:
    return _said("c++filt", name).strip().replace("(anonymous namespace)::", "").partition("(")[0] or name


def symbols_of(said: str) -> list[Symbol]:
    """Of objdump's table, but for the compiler's own, such as .LANCHOR0."""
    rows = [row for row in ROW.findall(said) if not row[3].startswith(".")]
    names = _said("c++filt", given="\n".join(row[3] for row in rows)).split("\n")
    return [
        Symbol(name, linker, flags, int(size, 16), section)
        for name, (flags, section, size, linker) in zip(names, rows, strict=True)
    ]


def _said(*command: str | Path, given: str = "") -> str:
    words = list(map(str, command))
    try:
        result = subprocess.run(
            words, input=given, capture_output=True, text=True, check=False, timeout=SLOW_S
        )
    except subprocess.TimeoutExpired:
        raise OSError(0, f"{command[0]} does not come to its end", str(command[-1])) from None
    if result.returncode != 0:
        raise OSError(0, f"{command[0]} cannot read it", str(command[-1]))
    return result.stdout
