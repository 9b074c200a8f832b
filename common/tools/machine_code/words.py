"""Says in words what a machine instruction does, for those that the steps' kernels have.

NVIDIA documents only the names ("CUDA Binary Utilities", tables of instruction sets); the meaning of
operands here is what the kernels show.
"""

import re
from collections.abc import Callable

from tools.machine_code.listing import Instruction

SPECIAL = {
    "SR_TID": "threadIdx", "SR_CTAID": "blockIdx", "SR_NTID": "blockDim", "SR_NCTAID": "gridDim",
    "SR_LANEID": "the lane's number", "SR_CgaCtaId": "the block's number in its cluster", "SRZ": "0",
}  # fmt: skip
COMPARISONS = {"LT": "<", "LE": "≤", "GT": ">", "GE": "≥", "EQ": "=", "NE": "≠", "NEU": "≠"}
# The table of LOP3 says for each combination of bits of a, b, c what comes out: a = 0xf0, b = 0xcc, c = 0xaa.
LOP3 = {
    0xC0: "{0} and {1}", 0xFC: "{0} or {1}", 0x3C: "{0} xor {1}", 0xFE: "{0} or {1} or {2}",
    0xF8: "{0} or ({1} and {2})",
}  # fmt: skip
SPACES = {"S": "shared", "G": "global", "L": "local"}


class Operand(str):
    """In a format: {0} as one reads it, {0:8} the registers for 8 bytes from it on, {0:at} an address."""

    def __format__(self, how: str) -> str:
        text = self.replace(".reuse", "")
        if how == "desc":  # UR8 of gdesc[UR8].tnspB
            return re.findall(r"\[([^\]]+)\]", self)[0]
        if how == "at":  # what stands in the last brackets: "R2–R3 + 0x108" for desc[UR4][R2.64+0x108]
            inside = re.findall(r"\[([^\]]+)\]", self)[-1]
            inside = re.sub(r"(R\d+)\.64", lambda m: f"{Operand(m[1]):8}", inside)
            inside = re.sub(r"\.X(\d+)", r" × \1", inside)
            return re.sub(r"\+(-?)", lambda m: f" {m[1] or '+'} ", inside)
        if (first := re.match(r"(U?R)(\d+)", self)) and int(how or 0) > 4:
            return f"{first[0]}–{first[1]}{int(first[2]) + int(how) // 4 - 1}"
        if re.fullmatch(r"[-~]?U?RZ", text):
            return "0"
        if re.fullmatch(r"-?0x[0-9a-f]+", text):
            number = int(text, 16)
            return str(number - (1 << 32) if number >= 1 << 31 else number)
        return text

    @property
    def is_predicate(self) -> bool:
        return re.fullmatch(r"!?U?P[0-9T]", self) is not None

    @property
    def condition(self) -> str:
        return self.replace("!", "not ")


def lop3(i: Instruction, d: Operand, a: Operand, b: Operand, c: Operand, table: Operand, *_: Operand) -> str:
    words = LOP3.get(int(table, 16), f"bits of {{0}}, {{1}}, {{2}} (table {table!s})")
    return f"{d} = " + words.format(a, b, c)


def compare(i: Instruction, a: Operand, b: Operand) -> str:
    parts, also = i.opcode.split("."), Operand(i.operands[-1])
    words = f"{i.operands[0]} = {a} {COMPARISONS.get(parts[1], parts[1])} {b}"
    return words if also in ("PT", "UPT") else f"{words} {parts[-1].lower()} {also.condition}"


def warpgroup_product(i: Instruction, d: Operand, a: Operand, b: Operand, *_: Operand) -> str:
    if "gdesc" in a:
        return f"starts a product of tiles in shared memory, described from {a:desc} on, added to {d} …"
    return f"starts a product of {a:16} and a tile, described from {b:desc} on, added to {d} …"


def special(i: Instruction, d: Operand, name: Operand) -> str:
    base, _, part = name.partition(".")
    words = SPECIAL.get(base, name) + (f".{part.lower()}" if part and base in SPECIAL else "")
    return f"{d:8} = {words}" if i.opcode == "CS2R" else f"{d} = {words}"


# Opcodes, without the U of uniform registers, and what they do: of the first line that fits. The numbers are
# those of the operands without predicates; a function gets these operands.
WORDS: dict[str, str | Callable[..., str]] = {
    "FFMA": "{0} = {1} × {2} + {3}",
    "HMMA.1688": "{0:16} = {1:16} × {2:8} + {3:16}, matrices 16 × 8 and 8 × 8",
    "HMMA.16816": "{0:16} = {1:16} × {2:8} + {3:16}, matrices 16 × 16 and 16 × 8",
    "HGMMA": warpgroup_product,
    "WARPGROUP.ARRIVE": "the warpgroup's registers are ready for what it multiplies next",
    "WARPGROUP.DEPBAR": "waits until at most {last} groups of products are under way",
    "FMUL": "{0} = {1} × {2}",
    "FADD": "{0} = {1} + {2}",
    "IMAD.WIDE": "{0:8} = {1} × {2} + {3:8}, 64 bits",
    "IMAD.HI": "{0} = the upper half of {1} × {2} + {3}",
    "IMAD": "{0} = {1} × {2} + {3}{carry_in}",
    "IADD3": "{0} = {1} + {2} + {3}{carry_in}{carry_out}",
    "VIADD": "{0} = {1} + {2}{carry_in}{carry_out}",
    "LEA.HI": "{0} = {2} + the upper half of {1}, shifted{carry_in}",
    "LEA": "{0} = {1} × {power} + {2}{carry_out}",
    "SHF.L.U64.HI": "{0} = the upper half of {3}:{1} << {2}",
    "SHF.L": "{0} = {1} << {2}",
    "SHF.R": "{0} = {3} >> {2}",
    "LOP3": lop3,
    "PRMT": "{0} = four bytes chosen from {1} and {3}",
    "ISETP FSETP": compare,
    "SEL FSEL": "{0} = {1} if {last.condition}, else {2}",
    "IMNMX VIMNMX": "{0} = {extreme}({1}, {2})",
    "HFMA2": "{0} = a constant or product of half-precision pairs",
    "MOV": "{0} = {1}",
    "IABS": "{0} = |{1}|",
    "I2F": "{0} = the integer {1} as a float",
    "F2I": "{0} = the float {1} as an integer",
    "MUFU.RCP": "{0} = about 1 / {1}",
    "LDC.64": "{0:8} = {last}, an argument of the kernel or a constant",
    "LDC": "{0} = {last}, an argument of the kernel or a constant",
    "S2R S2UR CS2R": special,
    "P2R": "{0} = the predicates",
    "PLOP3": "{all[0]} = of other predicates ({all[2]}, {all[3]}, {all[4]})",
    "LDSM": "{0:{bytes}} = matrices of 8 rows of 16 bytes of shared memory, a row at {1:at}",
    "LDS LDG LDL": "{0:{bytes}} = {bytes} bytes of {space} memory at {1:at}",
    "STS STG STL": "{bytes} bytes of {space} memory at {0:at} = {1:{bytes}}",
    "LDGSTS": "starts to copy {bytes} bytes of global memory at {1:at} to shared memory at {0:at}",
    "LDGDEPBAR": "closes the group of copies started so far",
    "DEPBAR": "waits until at most {last} groups of copies are on their way",
    "BAR": "waits for all threads of the block",
    "MEMBAR": "waits until its accesses to memory are visible to others",
    "FENCE": "orders the threads' accesses before those of TMA and tensor cores",
    "SYNCS": "works on an mbarrier: arrives there, or asks whether its phase is complete",
    "ELECT": "{all[0]} = whether this lane is the one of its warp that goes on",
    "VOTEU.ALL VOTE.ALL": "{all[0]} = {last.condition} in all lanes",
    "VOTEU.ANY VOTE.ANY": "{all[0]} = {last.condition} in any lane",
    "R2UR": "{0} = {1}, the same in all lanes",
    "WARPSYNC": "waits for the lanes of the warp",
    "UTMALDG": "asks TMA for a box of a matrix",
    "BRA CALL": "goes on at {target}",
    "BSSY": "says where the lanes that part now meet again: at {target}",
    "BSYNC": "lanes that parted meet again",
    "NOP": "nothing",
}
KNOWN = {name.split(".")[0] for names in WORDS for name in names.split()}
TABLE = [(name.split("."), say) for names, say in WORDS.items() for name in names.split()]
# Zeros and ones that say nothing, and sums that are added to.
SIMPLER = (
    (r"(?<![\w.:])(-?0 × \S+?|\S+ × 0)(?=[ ,)]|$)", "0"),
    (r" × 1(?=[ ,)]|$)", ""),
    (r" \+ 0(?=[ ,)]|$)", ""),
    (r"(?<![\w.])0 \+ ", ""),
    (r"\+ -", "- "),
    (r"^(\S+) = (.+ × .+) \+ \1(?=,|$)", r"\1 += \2"),
)


def phrase(i: Instruction) -> str:
    opcode = i.opcode.split(".")
    if opcode[0] not in KNOWN:
        opcode[0] = opcode[0].removeprefix("U")
    say = next((say for name, say in TABLE if opcode[0] == name[0] and {*name} <= {*opcode}), "")
    every = [Operand(operand) for operand in i.operands]
    plain = [operand for operand in every if not operand.is_predicate]
    if callable(say):
        return say(i, *plain)
    last = every[-1] if every else Operand()
    carry_out = len(every) > 1 and every[1].is_predicate and "X" not in opcode
    return say.format(
        *plain,
        all=every,
        last=last,
        target=last.removeprefix("0x"),
        bytes=i.bytes,
        space=SPACES.get(opcode[0][2:], ""),
        carry_in=" + carry" if "X" in opcode else "",
        carry_out=f", carry to {every[1]}" if carry_out else "",
        power=1 << int(plain[-1], 16) if "{power}" in say else "",
        extreme="max" if last.startswith("!") else "min",
    )


def explain(instruction: Instruction) -> str:
    """One phrase; empty for an instruction that is not known here."""
    if instruction.never:
        return "never executed: the compiler's filler"
    try:
        words = phrase(instruction)
    except (TypeError, ValueError, IndexError):  # operands in a form not seen so far
        return ""
    for long, short in SIMPLER:
        words = re.sub(long, short, words)
    predicate = Operand(instruction.predicate or "@PT").removeprefix("@")
    return f"if {predicate.replace('!', 'not ')}: {words}" if words and "PT" not in predicate else words
