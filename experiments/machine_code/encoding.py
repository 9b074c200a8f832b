"""Instructions into bits, for the instructions that a main loop is made of; for sm_90.

A row of the table says which operation a name is and where each operand of its text goes. `verify` holds the
table against ptxas: every instruction of a kernel that a row can express must come out as the same 128 bits.

What all instructions have in common: bits 0 to 11 are the operation, of which the upper three say what kind
of operand b is; 12 to 15 the predicate, 16 to 23 the result, 24 to 31 operand a, 32 to 63 operand b (a
register, a number or a uniform register), 64 to 71 operand c; from 72 on what varies; from 105 on the control
word.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

from tools.machine_code.listing import Instruction, SassError, parse_instruction

from machine_code.bits import WORD, Field
from machine_code.control import Control


class NotExpressible(SassError):
    """No row of the table fits this instruction."""


OPERATION, KIND = Field(0, 9), Field(9, 3)
REGISTER_KIND, NUMBER_KIND, CONSTANT_KIND, UNIFORM_KIND, UNIFORM_C_KIND = 1, 4, 5, 6, 7
PREDICATE, PREDICATE_NOT = Field(12, 3), Field(15, 1)
RESULT, A, B, C = Field(16, 8), Field(24, 8), Field(32, 8), Field(64, 8)
NUMBER, UNIFORM_B = Field(32, 32), Field(32, 6)
NOT_A, NOT_B, NOT_C = Field(72, 1), Field(63, 1), Field(75, 1)  # minus signs
TO_PREDICATE, TO_PREDICATE_2 = Field(81, 3), Field(84, 3)
FROM_PREDICATE, FROM_PREDICATE_NOT = Field(87, 3), Field(90, 1)
USES_UNIFORM = Field(91, 1)  # any operand is a uniform register
OFFSET = Field(40, 24)  # of a memory address, in bytes
MBARRIER_UNIFORM = Field(64, 6)  # of an mbarrier's address
JUMP_LOW, JUMP_HIGH = Field(16, 8), Field(34, 48)  # distance in units of 4 bytes, in two pieces

TRUE = 7  # the predicate PT
ZERO, UNIFORM_ZERO = 255, 63  # the registers RZ and URZ

SIGNED = Field(73, 1)  # integers
LANES = Field(72, 4)  # of MOV: all of them
SPECIAL = Field(72, 8)  # of S2R
CONSTANT, CONSTANT_BANK = Field(40, 14), Field(54, 5)  # in units of 4 bytes
TABLE = Field(72, 8)  # of LOP3: the result for each combination of three bits
SHIFT = Field(75, 5)  # of LEA
CARRY = Field(77, 3), Field(80, 1)  # a second carry into IADD3, and whether it is inverted
HIGH = Field(80, 1)  # of a shift, and of LEA: the upper half of 64 bits
SHF_TYPE, SHF_RIGHT = Field(73, 2), Field(76, 1)
COMPARISON, JOIN = Field(76, 3), Field(74, 2)  # of ISETP; JOIN: with another predicate
EXTENDED = Field(68, 3)  # of ISETP: the predicate of the lower half of a 64-bit comparison
WIDTH = Field(73, 3)  # of a load
TRY_WAIT, PLAIN_ADDRESS = Field(72, 1), Field(70, 1)  # of SYNCS


@dataclass(frozen=True, eq=False)
class Row:
    """An instruction by its name: the operation's number, where its operands go, and what is always the same.

    Each letter of `operands` is an operand of the text, in this order:
      d a c    registers in their places; a and c may have a minus
      b        a register, a number or a uniform register in place b; may have a minus
      e        the same as c, but may be a uniform register: then it goes to place b, and b to place c
      u        a number or a uniform register, of UMOV
      p q      predicates that are set; in brackets: may be left out, then PT
      r        a predicate that is read, may have a "!"
      m        an address in shared memory, [R1+UR2+0x10]
      n        an address of an mbarrier, likewise
      t s      numbers: LOP3's table, LEA's shift
      j        where a jump goes
      x        a special register
      k        a place in constant memory, c[0x0][0x210]
    """

    name: str
    operation: int
    operands: str
    fixed: tuple[tuple[Field, int], ...] = ()
    uniform: bool = False  # its registers are uniform ones
    kind: int | None = None  # if the instruction has no operand b


NO_CARRY = ((CARRY[0], TRUE), (CARRY[1], 1), (FROM_PREDICATE, TRUE), (FROM_PREDICATE_NOT, 1))
NO_CARRY_IN = ((FROM_PREDICATE, TRUE), (FROM_PREDICATE_NOT, 1))
NO_PREDICATE = ((TO_PREDICATE, TRUE), *NO_CARRY_IN)
SPECIAL_REGISTERS = {
    "SR_LANEID": 0x00,
    "SR_TID.X": 0x21,
    "SR_TID.Y": 0x22,
    "SR_TID.Z": 0x23,
    "SR_CTAID.X": 0x25,
    "SR_CTAID.Y": 0x26,
    "SR_CTAID.Z": 0x27,
    "SR_CgaCtaId": 0x88,
}
COMPARISONS = {"LT": 1, "EQ": 2, "LE": 3, "GT": 4, "NE": 5, "GE": 6}
JOINS = {"AND": 0, "OR": 1}
UNSIGNED_TYPE, SIGNED_TYPE = 3, 2
SHIFTS = {
    "SHF.L.U32": (UNSIGNED_TYPE, 0, 0),
    "SHF.R.U32.HI": (UNSIGNED_TYPE, 1, 1),
    "SHF.R.S32.HI": (SIGNED_TYPE, 1, 1),
}


def both(name: str, operation: int, operands: str, *fixed: tuple[Field, int]) -> list[Row]:
    """An operation and its like on uniform registers, whose number is 128 more."""
    row = Row(name, operation, operands, fixed)
    return [row, Row(f"U{name}", operation + 0x80, operands, ((USES_UNIFORM, 1), *fixed), uniform=True)]


ROWS: list[Row] = [
    Row("FFMA", 0x023, "dabc"),
    *both("IADD3", 0x010, "d(pq)abc", *NO_CARRY),
    Row("VIADD", 0x036, "dab"),
    *both("LOP3.LUT", 0x012, "(p)dabctr"),
    Row("LEA", 0x011, "d(p)abs", ((C, ZERO), *NO_CARRY_IN)),
    Row("ULEA", 0x091, "d(p)abs", ((C, UNIFORM_ZERO), (USES_UNIFORM, 1), *NO_CARRY_IN), uniform=True),
    *both("LEA.HI", 0x011, "d(p)abcs", (HIGH, 1), *NO_CARRY_IN),
    *(
        row
        for name, (kind, right, high) in SHIFTS.items()
        for row in both(name, 0x019, "dabc", (SHF_TYPE, kind), (SHF_RIGHT, right), (HIGH, high))
    ),
    *(
        row
        for comparison, number in COMPARISONS.items()
        for join, bits in JOINS.items()
        for unsigned in ("", "U32.")
        for row in both(
            f"ISETP.{comparison}.{unsigned}{join}", 0x00C, "pqabr",
            (COMPARISON, number), (JOIN, bits), (SIGNED, int(not unsigned)), (EXTENDED, TRUE),
        )
    ),
    *both("SEL", 0x007, "dabr"),
    Row("MOV", 0x002, "db", ((LANES, 15),)),
    Row("UMOV", 0x082, "du", uniform=True),
    Row("IMAD", 0x024, "dabe", ((SIGNED, 1), *NO_PREDICATE)),
    Row("IMAD.IADD", 0x024, "dabe", ((SIGNED, 1), *NO_PREDICATE)),
    Row("IMAD.MOV", 0x024, "dabe", ((SIGNED, 1), *NO_PREDICATE)),
    Row("IMAD.U32", 0x024, "dabe", NO_PREDICATE),
    Row("IMAD.MOV.U32", 0x024, "dabe", NO_PREDICATE),
    Row("IMAD.SHL.U32", 0x024, "dabe", NO_PREDICATE),
    Row("LDS", 0x184, "dm", ((WIDTH, 4),), kind=NUMBER_KIND),
    Row("LDS.64", 0x184, "dm", ((WIDTH, 5),), kind=NUMBER_KIND),
    Row("LDS.128", 0x184, "dm", ((WIDTH, 6),), kind=NUMBER_KIND),
    Row(
        "SYNCS.PHASECHK.TRANS64.TRYWAIT", 0x1A7, "pnb",
        ((TRY_WAIT, 1), (PLAIN_ADDRESS, 1), (USES_UNIFORM, 1)), kind=2,
    ),
    Row("BRA", 0x147, "(r)j", kind=NUMBER_KIND),
    Row("S2R", 0x119, "dx", kind=NUMBER_KIND),
    Row("S2UR", 0x1C3, "dx", kind=NUMBER_KIND, uniform=True),
    Row("LDC", 0x182, "dk", ((A, ZERO), (WIDTH, 4)), kind=CONSTANT_KIND),
    Row("LDC.64", 0x182, "dk", ((A, ZERO), (WIDTH, 5)), kind=CONSTANT_KIND),
    Row("ULDC", 0x0B9, "dk", ((WIDTH, 4),), kind=CONSTANT_KIND, uniform=True),
    Row("ULDC.64", 0x0B9, "dk", ((WIDTH, 5),), kind=CONSTANT_KIND, uniform=True),
    Row("NOP", 0x118, "", kind=NUMBER_KIND),
]  # fmt: skip
BY_NAME = {row.name: row for row in ROWS}


@dataclass
class Encoder:
    """Puts one instruction together. place: its offset in the kernel, from which jumps count."""

    row: Row
    place: int
    word: int = 0
    kind: int = REGISTER_KIND

    def put(self, field: Field, value: int) -> None:
        self.word = field.put(self.word, value)

    def register(self, text: str, uniform: bool | None = None) -> int:
        """The number of "R4" or "RZ"; of "UR4", "URZ"."""
        prefix, zero = (
            ("UR", UNIFORM_ZERO) if (self.row.uniform if uniform is None else uniform) else ("R", ZERO)
        )
        match = re.fullmatch(rf"{prefix}(\d+|Z)(?:\.reuse)?", text)
        if not match:
            raise NotExpressible(text)
        return zero if match[1] == "Z" else int(match[1])

    def signed(self, text: str, minus: Field) -> str:
        """The text without its minus, which goes to its bit."""
        self.put(minus, int(text.startswith("-")))
        return text.removeprefix("-")

    def predicate(self, text: str, inverted: Field | None = None) -> int:
        prefix = "UP" if self.row.uniform else "P"
        match = re.fullmatch(rf"(!?){prefix}([0-6]|T)", text)
        if not match or (match[1] and inverted is None):
            raise NotExpressible(text)
        if inverted:
            self.put(inverted, int(bool(match[1])))
        return TRUE if match[2] == "T" else int(match[2])

    def operand_b(self, text: str) -> None:
        if re.fullmatch(r"-?0x[0-9a-f]+", text):
            self.kind = NUMBER_KIND
            self.put(NUMBER, int(text, 16) & 0xFFFFFFFF)
            return
        text = self.signed(text, NOT_B)
        if text.startswith("U") and not self.row.uniform:
            self.uniform_b(text)
        else:
            self.put(B, self.register(text))

    def uniform_b(self, text: str) -> None:
        self.kind = UNIFORM_KIND
        self.put(USES_UNIFORM, 1)
        self.put(UNIFORM_B, self.register(text, uniform=True))

    def operand_c(self, text: str) -> None:
        self.put(C, self.register(self.signed(text, NOT_C)))

    def operand_e(self, text: str) -> None:
        if not text.startswith("UR"):
            return self.operand_c(text)
        if self.kind != REGISTER_KIND:
            raise NotExpressible(text)
        self.put(C, B.get(self.word))
        self.kind = UNIFORM_C_KIND
        self.put(USES_UNIFORM, 1)
        self.put(NUMBER, self.register(text, uniform=True))

    def address(self, text: str) -> tuple[int, int | None, int]:
        """Register, uniform register and offset of "[R1+UR2+0x10]"."""
        match = re.fullmatch(r"\[(?:(R(?:\d+|Z)))?\+?(UR(?:\d+|Z))?\+?(-?0x[0-9a-f]+)?\]", text)
        if not match or not (match[1] or match[2]):
            raise NotExpressible(text)
        base = self.register(match[1], uniform=False) if match[1] else ZERO
        uniform = self.register(match[2], uniform=True) if match[2] else None
        return base, uniform, int(match[3] or "0", 16)

    def operand(self, letter: str, text: str) -> None:
        match letter:
            case "d":
                self.put(RESULT, self.register(text))
            case "a":
                self.put(A, self.register(self.signed(text, NOT_A)))
            case "b":
                self.operand_b(text)
            case "u" if text.startswith("U"):
                self.uniform_b(text)
            case "u":
                self.operand_b(text)
            case "c":
                self.operand_c(text)
            case "e":
                self.operand_e(text)
            case "p" | "q":
                self.put(TO_PREDICATE if letter == "p" else TO_PREDICATE_2, self.predicate(text))
            case "r":
                self.put(FROM_PREDICATE, self.predicate(text, FROM_PREDICATE_NOT))
            case "t" | "s":
                self.put(TABLE if letter == "t" else SHIFT, int(text, 16))
            case "m" | "n":
                base, uniform, offset = self.address(text)
                self.put(A, base)
                self.put(OFFSET, offset)
                if letter == "n":
                    self.put(MBARRIER_UNIFORM, UNIFORM_ZERO if uniform is None else uniform)
                elif uniform is not None:
                    self.put(USES_UNIFORM, 1)
                    self.put(UNIFORM_B, uniform)
            case "x":
                if text not in SPECIAL_REGISTERS:
                    raise NotExpressible(text)
                self.put(SPECIAL, SPECIAL_REGISTERS[text])
            case "k":
                match = re.fullmatch(r"c\[(0x[0-9a-f]+)\]\[(0x[0-9a-f]+)\]", text)
                if not match:
                    raise NotExpressible(text)
                self.put(CONSTANT_BANK, int(match[1], 16))
                self.put(CONSTANT, int(match[2], 16) // 4)
            case "j":
                distance = (int(text, 16) - self.place - WORD) // 4
                self.put(JUMP_LOW, distance & 0xFF)
                self.put(JUMP_HIGH, distance >> 8)


def pair_up(row: Row, operands: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each operand of the text with its letter; those in brackets only as far as the text has them."""
    match = re.fullmatch(r"(\w*?)(?:\((\w+)\))?(\w*)", row.operands)
    before, optional, after = match[1], match[2] or "", match[3]
    if not optional:
        before, after = row.operands, ""
    there = len(operands) - len(before) - len(after)
    if not 0 <= there <= len(optional):
        raise NotExpressible(row.name)
    absent = [(letter, "UPT" if row.uniform else "PT") for letter in optional[there:]]
    return [*zip(before + optional[:there] + after, operands, strict=True), *absent]


def encode(instruction: Instruction, control: Control) -> int:
    """The 128 bits of an instruction at its offset, with this control word.

    What the operands say of .reuse is not looked at: control.reuse says it. Raises NotExpressible.
    """
    row = BY_NAME.get(instruction.opcode)
    if row is None:
        raise NotExpressible(f"there is no row for {instruction.opcode}")
    place = instruction.offset if "j" in row.operands else 0
    try:
        return control.put(encode_row(row, instruction.predicate, instruction.operands, place))
    except (NotExpressible, ValueError) as error:
        raise NotExpressible(f"{instruction.text}: {error}") from None


@lru_cache(maxsize=1 << 16)
def encode_row(row: Row, predicate: str | None, operands: tuple[str, ...], place: int) -> int:
    """The bits without those of the control word."""
    encoder = Encoder(row, place)
    for field_, value in row.fixed:
        encoder.put(field_, value)
    if not predicate:
        predicate = "@UPT" if row.uniform else "@PT"
    encoder.put(PREDICATE, encoder.predicate(predicate.removeprefix("@"), PREDICATE_NOT))
    for letter, text in pair_up(row, operands):
        encoder.operand(letter, text)
    kind = encoder.kind if row.kind is None else row.kind
    encoder.put(OPERATION, row.operation)
    encoder.put(KIND, kind)
    return encoder.word


def encode_text(text: str, offset: int, control: Control) -> int:
    return encode(parse_instruction(text, offset), control)


def verify(instructions: list[Instruction], words: list[int]) -> tuple[int, list[str]]:
    """How many of a kernel's instructions the table can express, and those that come out different."""
    count, wrong = 0, []
    for instruction in instructions:
        word = words[instruction.offset // WORD]
        try:
            ours = encode(instruction, Control.of(word))
        except NotExpressible:
            continue
        count += 1
        if ours != word:
            wrong.append(f"{instruction.offset:x} {instruction.text}: {word:032x}, by the table {ours:032x}")
    return count, wrong
