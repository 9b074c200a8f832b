"""Which registers an instruction reads and which it writes: all kinds of registers, for all that our kernels
use.

Where it is not known exactly, more is read than may be: for liveness and hazards that errs on the safe side.
An instruction that is not in these tables is an error, not a guess.
"""

import re
from dataclasses import dataclass
from functools import cache, cached_property

from tools.machine_code.listing import Instruction, SassError


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Instructions whose operands are all read.
NO_RESULT = names(
    """
    ACQBULK BAR BRA BREAK BSSY BSYNC BPT CCTL CGAERRBAR DEPBAR ERRBAR EXIT FENCE KILL LDGDEPBAR
    LDGSTS MEMBAR NANOSLEEP NOP PREEXIT RED REDG RET CALL ST STG STS STL UBLKCP USETMAXREG UTMALDG
    UTMACMDFLUSH WARPSYNC YIELD
    """
)
# Instructions whose results come after a time that is not fixed.
VARIABLE = names(
    """
    ATOM ATOMG ATOMS F2F F2I FENCE FLO I2F LD LDC LDG LDGDEPBAR LDGSTS LDL LDS MEMBAR MUFU POPC RED
    REDG S2R S2UR SHFL ST STG STL STS SYNCS UBLKCP USETMAXREG UTMALDG CCTL
    """
)
# Their first operand is the result; if it is a predicate, the next one, too, if that is a register.
ONE_RESULT = names(
    """
    ATOM ATOMG ATOMS CS2R DADD DFMA DMUL ELECT F2F F2I FADD FFMA FLO FMNMX FMUL FSEL HFMA2 I2F I2FP
    IABS IMNMX LD LDC LDG LDL LDS LOP3 MOV MUFU P2R POPC PRMT R2UR S2R S2UR SEL SHF SHFL SYNCS UFLO
    ULDC ULOP3 UMOV UPOPC UPRMT USEL USHF VIADD VIADDMNMX VIMNMX
    """
)
TWO_PREDICATES = {"DSETP", "FSETP", "ISETP", "PLOP3", "UISETP", "UPLOP3"}
# After the result up to so many predicates stand for carries, or for what a vote came to.
CARRIES = {"IADD3": 2, "UIADD3": 2, "LEA": 1, "ULEA": 1, "IMAD": 1, "UIMAD": 1, "VOTE": 1, "VOTEU": 1}
MEMORY = names("ATOM ATOMG ATOMS LD LDC LDG LDL LDS RED REDG ST STG STL STS ULDC")  # their names say how wide
SET_PREDICATE = re.compile(r"U?P([0-6]|T)")
REGISTER = re.compile(r"\b(UR|R)(\d+)\b")
PREDICATE = re.compile(r"\b(UP|P)([0-6])\b")
ALL_PREDICATES = frozenset(f"P{n}" for n in range(7))


@dataclass(frozen=True)
class Effects:
    """Names of registers: R0, UR4, P3, UP1. RZ, PT and the like are none."""

    reads: frozenset[str]
    writes: frozenset[str]

    @cached_property
    def guards(self) -> frozenset[str]:
        """Those that the predicates it writes make: "@P1", "@!P1"."""
        return frozenset(f"{mark}{name}" for name in self.writes if "P" in name for mark in ("@", "@!"))


def results(i: Instruction) -> int:
    """How many operands, from the first on, are results."""
    ops = i.operands
    if i.mnemonic in NO_RESULT or not ops:
        return 0
    if i.mnemonic in TWO_PREDICATES:
        return 2
    if i.mnemonic in CARRIES:
        count = 1
        if SET_PREDICATE.fullmatch(ops[0]):  # VOTEU.ALL UP0, P0
            return count
        while count <= CARRIES[i.mnemonic] and count < len(ops) and SET_PREDICATE.fullmatch(ops[count]):
            count += 1
        return count
    if i.mnemonic in ONE_RESULT:
        both = SET_PREDICATE.fullmatch(ops[0]) and len(ops) > 1 and re.match(r"U?R(\d|Z)", ops[1])
        return 2 if both and i.mnemonic != "SYNCS" else 1
    raise SassError(f"what {i.mnemonic} reads and writes is not known here: {i.offset:x} {i.text}")


def width(i: Instruction, result: bool, place: int) -> int:
    """Consecutive registers of an operand; place: of a source, from 0."""
    parts = set(i.opcode.split("."))
    name = i.mnemonic
    if name in MEMORY:
        return 4 if "128" in parts else 2 if "64" in parts else 1
    if name == "CS2R":
        return 1 if "32" in parts else 2
    if "WIDE" in parts:
        return 2 if result or place == 2 else 1
    if name in ("DADD", "DMUL", "DFMA", "DSETP"):
        return 2
    if name in ("F2F", "F2I", "I2F"):
        to, *source = [part for part in i.opcode.split(".") if part[1:] in ("64", "32", "16")] + ["32"]
        from_wide = "64" in ((source or [to])[0] if name == "F2F" else to if name == "I2F" else "")
        to_wide = "64" in to and name != "I2F"
        return 2 if (to_wide if result else from_wide) else 1
    if name == "SYNCS" and "EXCH" in parts and not result:
        return 2
    if name == "RET":
        return 2
    if name == "UTMALDG":
        coordinates = next((int(part[0]) for part in parts if part[1:] == "D"), 5)
        return 2 + coordinates if place == 0 else 2
    if name == "UBLKCP":  # destination and mbarrier, source, bytes
        return (2, 2, 1)[place]
    return 1


@cache
def registers(operand: str, count: int) -> frozenset[str]:
    """Those that an operand names. Of an address, each by itself; R4.64 and descriptors are pairs."""
    if operand == "PR":
        return ALL_PREDICATES
    in_brackets = "[" in operand
    found = {f"{kind}{number}" for kind, number in PREDICATE.findall(operand)}
    for match in REGISTER.finditer(operand):
        pair = operand[match.end() :].startswith(".64") or operand[: match.start()].endswith("desc[")
        wide = 2 if pair else count if not in_brackets or operand == f"[{match[0]}]" else 1
        zero = 255 if match[1] == "R" else 63
        found |= {f"{match[1]}{n}" for n in range(int(match[2]), int(match[2]) + wide) if n < zero}
    return frozenset(found)


KNOWN: dict[str, Effects] = {}  # by the text of the instruction


def effects(i: Instruction) -> Effects:
    """Raises SassError for an instruction that is not known here."""
    if (known := KNOWN.get(i.text)) is None:
        known = KNOWN[i.text] = work_out(i)
    return known


def work_out(i: Instruction) -> Effects:
    count = results(i)
    writes, reads = set(), set()
    for operand in i.operands[:count]:
        writes |= registers(operand, width(i, True, 0))
    for place, operand in enumerate(i.operands[count:]):
        uniform_address = i.mnemonic in ("UTMALDG", "UBLKCP")
        wide = width(i, False, place)
        if "[" in operand and not uniform_address:
            wide = 1
        reads |= registers(operand, wide)
    if i.never:
        return Effects(frozenset(), frozenset())
    reads |= registers((i.predicate or "").lstrip("@!"), 1)
    return Effects(frozenset(reads), frozenset(writes))
