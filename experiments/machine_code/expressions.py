"""What a register holds, as an expression of what the registers held before.

A value is a sum modulo 2^32 of atoms with factors, and a constant: `Sum`. Atoms are registers as they were at
the start, parts of sums cut out by a mask or a shift, and results of operations about which nothing is known
but their operands. Addresses come out the same whichever way they were computed: (x << 1) & 0x1fffe is 2 * (x
& 0xffff).
"""

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import cache

from tools.machine_code.listing import Instruction

from machine_code.effects import registers, results

Atom = tuple[Hashable, ...]
MODULUS = 1 << 32
AND = 0xC0  # LOP3's table for a & b, whatever c is


@dataclass(frozen=True)
class Sum:
    """constant + the sum of factor * atom, modulo 2^32."""

    constant: int = 0
    terms: frozenset[tuple[Atom, int]] = frozenset()

    def __post_init__(self) -> None:  # the hash is wanted often, and values are deep
        object.__setattr__(self, "hash", hash((self.constant, self.terms)))

    def __hash__(self) -> int:
        return self.hash  # type: ignore[attr-defined]

    @property
    def atom(self) -> Atom | None:
        """The atom, if it is nothing else."""
        if self.constant == 0 and len(self.terms) == 1:
            ((atom, factor),) = self.terms
            return atom if factor == 1 else None
        return None

    @property
    def number(self) -> int | None:
        """The constant, if it is nothing else."""
        return None if self.terms else self.constant

    def __str__(self) -> str:
        parts = [f"{factor:#x}*{show(atom)}" if factor != 1 else show(atom) for atom, factor in self.terms]
        return " + ".join([*sorted(parts), *([f"{self.constant:#x}"] if self.constant or not parts else [])])


def show(part: Hashable) -> str:
    if isinstance(part, tuple):
        if part[0] == "in":
            return str(part[1])
        return f"{part[0]}({', '.join(map(show, part[1:]))})"
    return " * ".join(sorted(map(show, part))) if isinstance(part, frozenset) else str(part)


def make(constant: int, terms: Iterable[tuple[Atom, int]]) -> Sum:
    factors: dict[Atom, int] = {}
    for atom, factor in terms:
        factors[atom] = (factors.get(atom, 0) + factor) % MODULUS
    return Sum(constant % MODULUS, frozenset((atom, factor) for atom, factor in factors.items() if factor))


def number(value: int) -> Sum:
    return make(value, [])


def of_atom(*atom: Hashable) -> Sum:
    return Sum(0, frozenset([(atom, 1)]))


@cache
def initial(register: str) -> Sum:
    """What a register held at the start."""
    return of_atom("in", register)


def add(*values: Sum) -> Sum:
    return make(sum(v.constant for v in values), [term for v in values for term in v.terms])


def times(value: Sum, factor: int) -> Sum:
    """A mask that only takes off what the factor shifts out is left out: 2^31 * (x & 1) is 2^31 * x."""
    plain, unmasked = [], []
    for atom, f in value.terms:
        product = f * factor % MODULUS
        kept = (MODULUS - 1) // max(1, product & -product)  # the bits of the atom that are not shifted out
        if atom[0] == "and" and product and atom[2] & kept == kept:
            unmasked.append(times(atom[1], product))
        else:
            plain.append((atom, product))
    product = make(value.constant * factor, plain)
    return add(product, *unmasked) if unmasked else product


def minus(a: Sum, b: Sum) -> Sum:
    return add(a, times(b, -1))


def masked(value: Sum, mask: int) -> Sum:
    """value & mask."""
    if value.number is not None:
        return number(value.number & mask)
    if mask == MODULUS - 1:
        return value
    if mask == 0:
        return number(0)
    numbers = [value.constant, *(factor for _, factor in value.terms)]
    zeros = min((n & -n).bit_length() - 1 for n in numbers if n)
    if zeros:  # the factor comes out: the lowest bits are 0
        inner = Sum(value.constant >> zeros, frozenset((atom, f >> zeros) for atom, f in value.terms))
        return times(masked(inner, mask >> zeros), 1 << zeros)
    atom = value.atom
    if atom and atom[0] == "and":
        return masked(atom[1], atom[2] & mask)
    if mask & mask + 1 == 0:  # what the upper bits are does not matter
        value = Sum(value.constant & mask, frozenset((a, f & mask) for a, f in value.terms if f & mask))
        if value.number is not None:
            return value
    return of_atom("and", value, mask)


def shifted_right(value: Sum, bits: int) -> Sum:
    """value >> bits, as a number without sign."""
    if value.number is not None:
        return number(value.number >> bits)
    return value if bits == 0 else of_atom("shr", value, bits)


# ---- Instructions ----------------------------------------------------------------------------------------

Get = Callable[[str], Sum]  # what a register holds
NAME = re.compile(r"(-?)(!?)(U?[RP])(\d+|Z|T)(?:\.reuse)?")
COMPARISON = re.compile(r"(U?ISETP\.)(EQ|LT|LE)(\.(?:U32\.)?AND)")
COPIES = {"MOV", "UMOV", "R2UR", "IMAD.MOV", "IMAD.MOV.U32"}
OPPOSITE = {"EQ": "NE", "LT": "GE", "LE": "GT"}
SUMS = {"IADD3", "UIADD3", "VIADD", "IMAD.IADD"}
PRODUCTS = {"IMAD", "IMAD.U32", "IMAD.SHL.U32"}


def operand_value(text: str, get: Get) -> Sum:
    """Of a source operand: a register, a predicate, a number; else something opaque."""
    return parsed_operand(text)(get)


def always(value: Sum) -> Callable[[Get], Sum]:
    return lambda get: value


@cache
def parsed_operand(text: str) -> Callable[[Get], Sum]:
    if re.fullmatch(r"-?0x[0-9a-f]+", text):
        return always(number(int(text, 16)))
    match = NAME.fullmatch(text)
    if match is None:
        names = sorted(registers(text, 1))
        shape = re.sub(r"\b(UR|R|UP|P)\d+\b", r"\1", text)
        return lambda get: of_atom("operand", shape, *(get(name) for name in names))
    sign, inverted, kind, n = match.groups()
    if n == "T":
        return always(of_atom("false" if inverted else "true"))
    name = f"{kind}{n}"
    if inverted:
        return lambda get: of_atom("not", number(0) if n == "Z" else get(name))
    if n == "Z":
        return always(number(0))
    return (lambda get: times(get(name), -1)) if sign else (lambda get: get(name))


def evaluate(i: Instruction, get: Get) -> list[Sum]:
    """What an instruction's results are, one for each operand that is a result.

    Not for loads, whose results depend on more than the registers.
    """
    count = results(i)
    sources = [operand_value(text, get) for text in i.operands[count:]]
    comparison = COMPARISON.fullmatch(i.opcode)
    if comparison and sources[-1] == of_atom("true"):  # as the opposite of its opposite
        opposite = f"{comparison[1]}{OPPOSITE[comparison[2]]}{comparison[3]}"
        return [of_atom("not", of_atom("result", n, opposite, *sources)) for n in range(count)]
    if i.opcode == "R2UR":
        sources = sources[:1]
    known = arithmetic(i, sources)
    shape = (i.opcode, *(s for s in sources))
    found = [of_atom("result", n, *shape) for n in range(count)]
    if known is not None:
        at = next(n for n, text in enumerate(i.operands) if re.match(r"U?R", text))
        found[at] = known
    return found


def arithmetic(i: Instruction, sources: list[Sum]) -> Sum | None:
    """The register's new value, if this is integer arithmetic that is understood here."""
    opcode = i.opcode
    plain = opcode.removeprefix("U")
    if opcode in COPIES:
        return sources[-1]
    if opcode in SUMS:
        if opcode == "IMAD.IADD":
            return add(sources[0], sources[2]) if sources[1] == number(1) else None
        return add(*sources)
    if opcode in PRODUCTS:
        a, b, c = sources
        if a.number is not None:
            a, b = b, a
        return add(times(a, b.number), c) if b.number is not None else None
    match plain, sources:
        case "LEA", [a, b, shift]:
            return add(times(a, 1 << shift.constant), b)
        case "SHF.L.U32", [a, bits, c] if bits.number is not None and c == number(0) and bits.number < 32:
            return times(a, 1 << bits.number)
        case "SHF.R.U32.HI", [a, bits, c] if bits.number is not None and a == number(0) and bits.number < 32:
            return shifted_right(c, bits.number)
        case "LOP3.LUT", [a, b, c, table, last] if (
            table == number(AND) and c == number(0) and last == of_atom("false")
        ):
            x, mask = (a, b) if b.number is not None else (b, a)
            return masked(x, mask.number) if mask.number is not None else None
    return None
