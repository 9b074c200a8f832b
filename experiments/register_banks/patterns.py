"""The patterns: which registers the FFMAs of a loop read and write, and what they leave in the reuse cache.

The notation: FFMAs, separated by "|", each with its operands a, b and c of d = a * b + c. The result goes to
the register of c, a sum, unless ">" names another; then c is an input as a and b are, and never changes.

  E O        the next even or odd register: of the inputs for a and b, of the sums for c
  0 1 2 3    the next one whose number has this remainder by 4
  e0 o1 ...  a certain even or odd input, always the same
  *          marked .reuse: stays in the reuse cache

So "O e0* E" reads an odd input and an even sum afresh, and has its b from the cache.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice

from tools.machine_code.listing import Instruction, SassError, parse_instruction
from tools.machine_code.loops import Loop
from tools.machine_code.register_reads import source_registers

IDEAL, EVEN_CLASH, ODD_CLASH = "O e0* E", "E e0* E", "O e0* O"


def repeated(*parts: tuple[str, int]) -> str:
    return " | ".join(ffma for ffma, times in parts for _ in range(times))


PATTERNS = {
    # Nothing clashes: one operand from the cache, the others from different banks.
    "ideal": IDEAL,
    # Two fresh operands in one bank: always the same bank, or a few times the one and as often the other.
    "clash": EVEN_CLASH,
    **{f"clash_turns_{n}": repeated((EVEN_CLASH, n), (ODD_CLASH, n)) for n in (1, 2, 4, 8)},
    # ... one FFMA out of so many, the others ideal.
    **{f"clash_every_{n}": repeated((EVEN_CLASH, 1), (IDEAL, n - 1)) for n in (2, 4, 8)},
    # ... as many in the one bank as in the other, some ideal ones in between.
    "clash_turns_1_of_4": repeated((EVEN_CLASH, 1), (IDEAL, 3), (ODD_CLASH, 1), (IDEAL, 3)),
    # ... in other places than a and c.
    "clash_b_c": "e0* E E",
    "clash_a_b": "E E e0* >O",
    # ... whether the banks are even and odd, or finer: one remainder by 4, or two that are both even.
    "clash_remainders_0_0": "0 o0* 0",
    "clash_remainders_0_2": "0 o0* 2",
    # Three fresh operands.
    "three_eeo": "E E O",
    "three_eeo_ooe": "E E O | O O E",
    "three_eee": "E E E",
    "three_eee_ooo": "E E E | O O O",
    # The result's bank. The reads are those of "ideal".
    "result_even": "O e0* E >E",
    "result_odd": "O e0* E >O",
    # The marks: none at all; one register for two and for four FFMAs, as at the turns of a tile.
    "no_marks": "O e0 E",
    "reuse_2": "O e0* E | E e0 O | E o0* O | O o0 E",
    "reuse_4": "O e0* E | E e0* O | O e0* E | E e0 O | O o0* E | E o0* O | O o0* E | E o0 O",
    # What the cache finds again. In another place? Then e0 is never read from its bank.
    "cache_other_place": "e0* E O | E e0* O",
    # In the same place, with an operand of the other bank read in this place in between; seven of them.
    "cache_other_bank_between": "e0* O E | o0* E O",
    "cache_other_bank_7_between": repeated(("e0* O E", 1), ("o0* E O", 7)),
    # ... with an operand of the same bank in between, which is marked itself, or is not.
    "cache_same_bank_between": "e0* O E | e1* O E",
    "cache_unmarked_between": "e0* O E | e1 O E",
}
LARGE_PATTERNS = {"ideal_large": IDEAL}  # in the larger kernels, whose loop is as long as that of step 12

TOKEN = re.compile(r"([EO0-3]|[eo]\d)(\*?)")
PARITIES = {"E": 0, "O": 1, "e": 0, "o": 1}
NAMED, INPUTS, SUMS = slice(0, 2), slice(2, 8), slice(8, 24)  # of the registers with one remainder by 4


@dataclass
class Registers:
    """Gives out the registers of a kernel. `pool`: their numbers."""

    pool: list[int]
    rotations: dict[tuple[str, bool], Iterator[int]] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)

    def of(self, part: slice, remainders: tuple[int, ...]) -> list[int]:
        """Of each remainder by 4 in turn."""
        classes = [[r for r in sorted(self.pool) if r % 4 == n][part] for n in remainders]
        if any(len(registers) < part.stop - part.start for registers in classes):
            raise SassError("the kernel leaves too few registers to a pattern")
        return [r for row in zip(*classes, strict=True) for r in row]

    def register(self, token: str, is_sum: bool) -> int:
        kind = token[0]
        remainders = (PARITIES[kind], PARITIES[kind] + 2) if kind in PARITIES else (int(kind),)
        if kind in "eo":
            if token not in self.named:
                self.named[token] = self.of(NAMED, remainders)[int(token[1])]
            return self.named[token]
        if (token, is_sum) not in self.rotations:
            found = self.of(SUMS, remainders) if is_sum else self.of(INPUTS, remainders)[:-1]
            # One input less: so inputs and sums do not go round in step, and all remainders meet.
            self.rotations[token, is_sum] = cycle(found)
        return next(self.rotations[token, is_sum])


def ffma(d: int, sources: list[tuple[int, bool]]) -> Instruction:
    """Sources: numbers of registers, and whether they are marked."""
    return parse_instruction(f"FFMA R{d}, " + ", ".join(f"R{r}{'.reuse' * marked}" for r, marked in sources))


def in_notation(notation: str, pool: list[int], count: int) -> list[Instruction]:
    """So many FFMAs of a pattern."""
    registers, code = Registers(pool), []
    for text in islice(cycle(notation.split("|")), count):
        operands, _, result = text.partition(">")
        tokens = [TOKEN.fullmatch(token) for token in operands.split()]
        sources = [
            (registers.register(token[1], is_sum=place == 2 and not result), bool(token[2]))
            for place, token in enumerate(tokens)
        ]
        d = registers.register(result.strip(), is_sum=True) if result else sources[2][0]
        code.append(ffma(d, sources))
    return code


def replay(loop: Loop, pool: list[int], count: int) -> list[Instruction]:
    """The FFMAs of a step's main loop in their order, again from the first if they are too few.

    The registers are others, with the same remainder by 4. Those that a or b name are inputs here and stay as
    they are, as no load fills them: an FFMA that writes there writes to another register of the same bank.
    """
    ffmas = [i for i in loop.instructions if i.mnemonic == "FFMA"]
    sources = [source_registers(i) for i in ffmas]
    results = [int(i.operands[0].removeprefix("R")) for i in ffmas]
    if any(len(found) != 3 or "-" in i.text for found, i in zip(sources, ffmas, strict=True)):
        raise SassError("the loop has FFMAs with operands that are no registers")
    used = {*results, *(r for found in sources for r, _ in found.values())}
    free, own = sorted(pool), {}
    for register in sorted(used):
        own[register] = next((r for r in free if r % 4 == register % 4), None)
        if own[register] is None:
            raise SassError(f"the loop has more than {Counter(r % 4 for r in pool)} registers by remainder")
        free.remove(own[register])
    inputs = {found[place][0] for found in sources for place in (0, 1)}
    sink = {parity: next((r for r in free if r % 2 == parity), None) for parity in (0, 1)}
    if None in sink.values():
        raise SassError("the loop leaves no register to write to")
    code = [
        ffma(sink[d % 2] if d in inputs else own[d], [(own[r], marked) for r, marked in found.values()])
        for d, found in zip(results, sources, strict=True)
    ]
    return list(islice(cycle(code), count))
