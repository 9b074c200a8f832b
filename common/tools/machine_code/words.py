"""Says in words what a machine instruction does, for those that the steps' kernels have.

NVIDIA documents only the names ("CUDA Binary Utilities", tables of instruction sets); the meaning of
operands here is what the kernels show.
"""

import re
from collections.abc import Callable

from tools.machine_code.listing import Instruction

SPECIAL = {
    "SR_TID": "threadIdx",
    "SR_CTAID": "blockIdx",
    "SR_NTID": "blockDim",
    "SR_NCTAID": "gridDim",
    "SR_LANEID": "the lane's number",
    "SR_CgaCtaId": "the block's number in its cluster",
}
COMPARISONS = {"LT": "<", "LE": "≤", "GT": ">", "GE": "≥", "EQ": "=", "NE": "≠", "NEU": "≠"}
# The table of LOP3 says for each combination of bits of a, b, c what comes out: a = 0xf0, b = 0xcc, c = 0xaa.
LOP3 = {
    0xC0: "{0} and {1}",
    0xFC: "{0} or {1}",
    0x3C: "{0} xor {1}",
    0x30: "{0} and not {1}",
    0x33: "not {1}",
    0x80: "{0} and {1} and {2}",
    0xFE: "{0} or {1} or {2}",
    0x96: "{0} xor {1} xor {2}",
    0xF8: "{0} or ({1} and {2})",
    0xEA: "({0} and {1}) or {2}",
}


def value(operand: str) -> str:
    """An operand as one reads it: without .reuse, numbers decimal, the zero registers as 0."""
    text = operand.replace(".reuse", "")
    if re.fullmatch(r"[-~]?U?RZ|SRZ", text):
        return "0"
    if re.fullmatch(r"-?0x[0-9a-f]+", text):
        number = int(text, 16)
        return str(number - (1 << 32) if number >= 1 << 31 else number)
    return text


def registers(operand: str, size: int) -> str:
    """The registers, the first of which is the operand, that hold `size` bytes."""
    match = re.match(r"(U?R)(\d+)", operand)
    if match is None or size <= 4:
        return value(operand)
    return f"{match[1]}{match[2]}–{match[1]}{int(match[2]) + size // 4 - 1}"


def address(operand: str) -> str:
    """What stands in the last brackets: "R2–R3 + 0x108" for desc[UR4][R2.64+0x108]."""
    inside = re.findall(r"\[([^\]]+)\]", operand)[-1]
    inside = re.sub(r"(R\d+)\.64", lambda m: registers(m[1], 8), inside)
    inside = re.sub(r"\.X(\d+)", r" × \1", inside)
    return re.sub(r"\+(-?)", lambda m: f" {m[1] or '+'} ", inside)


def is_predicate(operand: str) -> bool:
    return re.fullmatch(r"!?U?P[0-9T]", operand) is not None


def plain(operands: tuple[str, ...]) -> list[str]:
    return [value(operand) for operand in operands if not is_predicate(operand)]


def total(terms: list[str]) -> str:
    kept = [term for term in terms if term != "0"] or ["0"]
    return " + ".join(kept).replace("+ -", "- ")


def product(a: str, b: str) -> str:
    if "0" in (a, b):
        return "0"
    return a if b == "1" else f"{a} × {b}"


# ---- Arithmetic ------------------------------------------------------------------------------------------


def ffma(i: Instruction) -> str:
    d, a, b, c = plain(i.operands)
    kept = [value(operand) for operand in i.operands[1:] if operand.endswith(".reuse")]
    words = f"{d} += {a} × {b}" if c == d else f"{d} = {total([product(a, b), c])}"
    return words + (f"; {', '.join(kept)} kept for the next" if kept else "")


def imad(i: Instruction) -> str:
    d, a, b, c = plain(i.operands)
    kind = i.opcode.split(".")[1:]
    if "MOV" in kind:
        return f"{d} = {total([product(a, b), c])}"
    if "WIDE" in kind:
        return f"{registers(d, 8)} = {total([product(a, b), registers(c, 8)])}, 64 bits"
    if "HI" in kind:
        return f"{d} = the upper half of {total([product(a, b), c])}"
    return f"{d} = {total([product(a, b), c])}" + (" + carry" if "X" in kind else "")


def iadd(i: Instruction) -> str:
    d, *terms = plain(i.operands)
    carry_out = len(i.operands) > 1 and is_predicate(i.operands[1]) and not i.opcode.endswith(".X")
    words = f"{d} = {total(terms)}" + (" + carry" if i.opcode.endswith(".X") else "")
    return words + (f", carry to {i.operands[1]}" if carry_out else "")


def lea(i: Instruction) -> str:
    d, a, b, *rest = plain(i.operands)
    parts = i.opcode.split(".")
    if "SX32" in parts and rest == ["1"]:
        return f"{d} = {b} + {a}'s sign + carry"
    if "HI" in parts:
        high, by = rest if len(rest) == 2 else (f"{a}'s sign", rest[0])
        carry = " + carry" if "X" in parts else ""
        return f"{d} = {b} + the upper half of ({high}:{a} << {by}){carry}"
    words = f"{d} = {total([product(a, str(1 << int(rest[-1]))), b])}"
    return words + (f", carry to {i.operands[1]}" if is_predicate(i.operands[1]) else "")


def shift(i: Instruction) -> str:
    d, low, by, high = plain(i.operands)
    parts = i.opcode.split(".")
    if "U64" in parts or "S64" in parts:
        arrow = "<<" if "L" in parts else ">>"
        return f"{d} = the {'upper' if 'HI' in parts else 'lower'} half of {high}:{low} {arrow} {by}"
    return f"{d} = {low} << {by}" if "L" in parts else f"{d} = {high} >> {by}"


def lop3(i: Instruction) -> str:
    d, a, b, c, table = plain(i.operands)[:5]
    words = LOP3.get(int(table))
    return (
        f"{d} = {words.format(a, b, c)}" if words else f"{d} = bits of {a}, {b}, {c} (table {int(table):#x})"
    )


def compare(i: Instruction) -> str:
    parts = i.opcode.split(".")
    a, b = plain(i.operands)
    also = i.operands[-1]
    words = f"{i.operands[0]} = {a} {COMPARISONS.get(parts[1], parts[1])} {b}"
    return words if also in ("PT", "UPT") else f"{words} {parts[-1].lower()} {also.replace('!', 'not ')}"


def select(i: Instruction) -> str:
    d, a, b = plain(i.operands)
    return f"{d} = {a} if {i.operands[-1].replace('!', 'not ')}, else {b}"


def minimum(i: Instruction) -> str:
    d, *terms = plain(i.operands)
    name = "max" if i.operands[-1].startswith("!") else "min"
    return f"{d} = {name}({total(terms[:-1])}, {terms[-1]})"


def half(i: Instruction) -> str:
    d, a, b, *constant = plain(i.operands)
    if "0" in (a, b) and set(constant) == {"0"}:
        return f"{d} = 0, in the half-precision lanes"
    return f"{d} = a constant or product of half-precision pairs"


def move(i: Instruction) -> str:
    d, a = plain(i.operands)[:2]
    return f"{d} = {a}"


def constant(i: Instruction) -> str:
    d = registers(i.operands[0], 8 if i.opcode.endswith(".64") else 4)
    return f"{d} = {i.operands[-1]}, an argument of the kernel or a constant"


def special(i: Instruction) -> str:
    d, name = i.operands
    if name == "SRZ":
        return f"{registers(d, 4 if '32' in i.opcode else 8)} = 0"
    base, _, part = name.partition(".")
    return f"{d} = {SPECIAL.get(base, name)}{'.' + part.lower() if part and base in SPECIAL else ''}"


# ---- Memory ----------------------------------------------------------------------------------------------


def load(i: Instruction) -> str:
    place = {"LDS": "shared", "LDG": "global", "LDL": "local"}[i.mnemonic]
    size = i.bytes or 4
    return f"{registers(i.operands[0], size)} = {size} bytes of {place} memory at {address(i.operands[1])}"


def store(i: Instruction) -> str:
    place = {"STS": "shared", "STG": "global", "STL": "local"}[i.mnemonic]
    size = i.bytes or 4
    return f"{size} bytes of {place} memory at {address(i.operands[0])} = {registers(i.operands[1], size)}"


def copy(i: Instruction) -> str:
    to, source, *valid = i.operands
    words = f"starts to copy {i.bytes} bytes of global memory at {address(source)}"
    words += f" to shared memory at {address(to)}" + (", past the L1 cache" if "BYPASS" in i.opcode else "")
    if valid:
        p = valid[0]
        words += f"; zeros if {p[1:]}" if p.startswith("!") else f"; zeros if not {p}"
    return words


# ---- Control ---------------------------------------------------------------------------------------------


def jump(i: Instruction) -> str:
    return f"goes on at {i.operands[-1].removeprefix('0x')}"


def wait_for_copies(i: Instruction) -> str:
    most = value(i.operands[-1])
    return (
        "waits for all copies"
        if most == "0"
        else f"waits until at most {most} groups of copies are on their way"
    )


WORDS: dict[str, Callable[[Instruction], str]] = {
    "FFMA": ffma,
    "FMUL": lambda i: "{} = {} × {}".format(*plain(i.operands)),
    "FADD": lambda i: f"{value(i.operands[0])} = {total(plain(i.operands)[1:])}",
    "IMAD": imad,
    "UIMAD": imad,
    "IADD3": iadd,
    "UIADD3": iadd,
    "VIADD": iadd,
    "LEA": lea,
    "ULEA": lea,
    "SHF": shift,
    "USHF": shift,
    "LOP3": lop3,
    "ULOP3": lop3,
    "ISETP": compare,
    "UISETP": compare,
    "FSETP": compare,
    "SEL": select,
    "USEL": select,
    "FSEL": select,
    "IMNMX": minimum,
    "VIMNMX": minimum,
    "VIADDMNMX": minimum,
    "HFMA2": half,
    "MOV": move,
    "UMOV": move,
    "LDC": constant,
    "ULDC": constant,
    "S2R": special,
    "S2UR": special,
    "CS2R": special,
    "P2R": lambda i: f"{i.operands[0]} = the predicates",
    "PLOP3": lambda i: f"{i.operands[0]} = of other predicates ({', '.join(i.operands[2:5])})",
    "IABS": lambda i: "{} = |{}|".format(*plain(i.operands)),
    "I2F": lambda i: "{} = {} as a float".format(*plain(i.operands)),
    "F2I": lambda i: "{} = {} as an integer".format(*plain(i.operands)),
    "MUFU": lambda i: "{} = 1 / {}, roughly".format(*plain(i.operands)) if "RCP" in i.opcode else "",
    "LDS": load,
    "LDG": load,
    "LDL": load,
    "STS": store,
    "STG": store,
    "STL": store,
    "LDGSTS": copy,
    "LDGDEPBAR": lambda i: "closes the group of copies started so far",
    "DEPBAR": wait_for_copies,
    "BAR": lambda i: "waits for all threads of the block",
    "BRA": jump,
    "CALL": jump,
    "BSSY": lambda i: (
        f"says where the lanes that part now meet again: at {i.operands[-1].removeprefix('0x')}"
    ),
    "BSYNC": lambda i: "lanes that parted meet again",
    "EXIT": lambda i: "the thread ends",
    "NOP": lambda i: "nothing",
}


def explain(instruction: Instruction) -> str:
    """One phrase; empty for an instruction that is not known here."""
    if instruction.never:
        return "never executed: the compiler's filler"
    say = WORDS.get(instruction.mnemonic)
    try:
        words = say(instruction) if say else ""
    except (ValueError, IndexError, KeyError):  # operands in a form not seen so far
        words = ""
    predicate = instruction.predicate
    if not words or predicate is None or predicate in ("@PT", "@UPT"):
        return words
    return f"if {predicate[1:].replace('!', 'not ')}: {words}"
