"""What nvdisasm prints, as data: kernels, their instructions, and the source line of each.

The source line of an instruction is that of the innermost frame in steps/ or tests/: what the compiler
inlined from common/cuda or from CUDA's headers counts for the line of the kernel that called it.
"""

import posixpath
import re
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

from tools.base import ROOT, UsageError


class SassError(UsageError):
    """What is wrong and what to do about it, in one line."""


class NotMeasured(SassError):
    """A figure of the GPU that a prediction needs, and that was not recorded."""


@dataclass(frozen=True)
class Frame:
    """A place in the source: inlined code has several, the innermost first."""

    file: str  # relative to the project where it lies in it
    line: int


@dataclass(frozen=True)
class Instruction:
    """One machine instruction."""

    offset: int  # from the kernel's first instruction, in bytes
    text: str  # "@P0 LDG.E R4, desc[UR4][R2.64]"
    predicate: str | None  # "@P0", "@!P6", "@UP1"; "@!PT" is never true
    opcode: str  # "LDG.E"
    operands: tuple[str, ...] = ()  # ("R4", "desc[UR4][R2.64]")
    frames: tuple[Frame, ...] = ()  # innermost first; empty without line information
    target: int | None = None  # of a jump: the offset it goes to

    def __hash__(self) -> int:  # is wanted often; the other fields follow from the text, or nearly so
        return hash((self.offset, self.text))

    @cached_property
    def mnemonic(self) -> str:
        return self.opcode.split(".")[0]

    @property
    def never(self) -> bool:
        """Takes an issue slot and does nothing."""
        return self.predicate in ("@!PT", "@!UPT")

    @property
    def frame(self) -> Frame | None:
        """The innermost frame in steps/ or tests/; if there is none, the outermost."""
        own = (f for f in self.frames if f.file.startswith(("steps/", "tests/")))
        return next(own, self.frames[-1] if self.frames else None)

    @property
    def line(self) -> int | None:
        return self.frame.line if self.frame else None

    @property
    def bytes(self) -> int | None:
        """Bytes a lane loads, stores or copies; None for anything but a memory instruction."""
        if self.mnemonic not in MEMORY:
            return None
        if self.mnemonic == "LDSM":  # one, two or four matrices of 8 rows of 16 bytes, for 32 lanes
            return 4 * MATRICES.get(self.opcode.split(".")[-1], 1)
        widths = [WIDTHS[part] for part in self.opcode.split(".") if part in WIDTHS]
        return widths[-1] if widths else 4


MEMORY = {"LDG", "STG", "LDS", "LDSM", "STS", "LDL", "STL", "LD", "ST", "LDGSTS"}
MATRICES = {"2": 2, "4": 4}  # that LDSM.16.M88.4 or LDSM.16.MT88.2 loads
JUMPS = {"BRA", "JMP", "CALL", "BSSY"}
WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def matches(instruction: Instruction, pattern: str) -> bool:
    """Whether the parts of `pattern` stand in the opcode in this order, the first one first.

    "LDG", "LDG.E", "LDG.128" all match LDG.E.128. "LDS.32" matches LDS, which has no suffix for 4 bytes.
    An instruction that is never executed ("@!PT LDS RZ, [RZ]") matches nothing.
    """
    first, *parts = pattern.split(".")
    if instruction.mnemonic != first or instruction.never:
        return False
    if "32" in parts and instruction.bytes == 4:
        parts.remove("32")
    rest = iter(instruction.opcode.split(".")[1:])
    return all(part in rest for part in parts)


def count(instructions: list[Instruction], pattern: str) -> int:
    first = pattern.split(".")[0]
    return sum(i.mnemonic == first and matches(i, pattern) for i in instructions)


@cache
def relative(path: str) -> str:
    """The path as the project knows it: from its root, or from the last steps/, tests/ or common/ on."""
    clean = posixpath.normpath(path)
    if clean.startswith(f"{ROOT}/"):
        return clean[len(str(ROOT)) + 1 :]
    inside = re.search(r".*/((?:steps|tests|common)/.+)$", clean)
    return inside[1] if inside else clean


def parse_instruction(text: str, offset: int = 0, frames: tuple[Frame, ...] = ()) -> Instruction:
    """An Instruction from its text, such as "@P0 LDS.128 R4, [R2+0x10]"; a SassError if it is none."""
    text, predicate, opcode, operands, target = _parts(text)
    return Instruction(offset, text, predicate, opcode, operands, frames, target)


# What nvcc calls an anonymous namespace, which varies with the place of the build. Calls and returns name
# functions in one.
ANONYMOUS = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_[0-9a-f]{8}")


@lru_cache(maxsize=1 << 16)
def _parts(text: str) -> tuple[str, str | None, str, tuple[str, ...], int | None]:
    text = ANONYMOUS.sub("_GLOBAL__N_", " ".join(text.strip().rstrip(";").split()))
    match = re.fullmatch(r"(?:(@!?U?P[0-9T]+) )?([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)(?: (.*))?", text)
    if match is None:
        raise SassError(f"this is no machine instruction: {text!r}")
    predicate, opcode, rest = match[1], match[2], match[3] or ""
    # Between the commas outside of brackets.
    operands = tuple(part.strip() for part in re.split(r",(?![^\[(]*[\])])", rest) if part.strip())
    target = None
    if opcode.split(".")[0] in JUMPS and operands and re.fullmatch(r"0x[0-9a-f]+", operands[-1]):
        target = int(operands[-1], 16)
    return text, predicate, opcode, operands, target


@dataclass
class Listing:
    """One function of a cubin."""

    is_kernel: bool = False
    instructions: list[Instruction] = field(default_factory=list)


FRAME = re.compile(r'\s*//## File "([^"]+)", line (\d+)(?: inlined at "([^"]+)", line (\d+))?')
INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
SECTION = re.compile(r"\s*\.section\s+\"?([^,\"]+)")
# A label and the offset of the instruction that it stands before, in the same section.
LABEL = re.compile(
    r"^(\.L_\w+):(?=\n(?:(?!\s+/\*|\s*\.section\s).*\n)*\s+/\*([0-9a-f]{4,})\*/)", re.MULTILINE
)


def parse_listing(text: str) -> dict[str, Listing]:
    """What `nvdisasm --print-line-info-inline --print-code` printed: the functions by symbol.

    Labels become offsets: "BRA `(.L_x_1)" is "BRA 0x1210".
    """
    labels = {label: f"{int(offset, 16):#x}" for label, offset in LABEL.findall(text)}
    listings: dict[str, Listing] = {}
    current = Listing()  # of what stands outside of functions
    frames: list[Frame] = []
    fresh = True  # the next line about a source file begins a new list of frames
    for line in text.splitlines():
        if match := INSTRUCTION.match(line):
            words = re.sub(r"`\(([^)]+)\)", lambda m: labels.get(m[1], m[0]), match[2])
            current.instructions.append(parse_instruction(words, int(match[1], 16), tuple(frames)))
            fresh = True
        elif match := FRAME.match(line):
            places = [Frame(relative(match[n]), int(match[n + 1])) for n in (1, 3) if match[n]]
            known = [] if fresh else frames
            frames = known + places[known[-1:] == places[:1] :]
            fresh = False
        elif match := SECTION.match(line):
            symbol = match[1].removeprefix(".text.")
            current = listings.setdefault(symbol, Listing()) if symbol != match[1] else Listing()
            frames, fresh = [], True
        elif "STO_CUDA_ENTRY" in line:
            current.is_kernel = True
    return listings
