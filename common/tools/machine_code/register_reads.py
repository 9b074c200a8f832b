"""The registers that instructions read: from which bank, or from the reuse cache.

Since Volta (compute capability 7.0; known up to 9.0) a scheduler's register file has two banks, even
registers in one and odd registers in the other, and each delivers one register a cycle. An operand marked
.reuse stays in a small cache, which has an entry for each place of an operand and each bank, until an operand
of the same bank is read in the same place. What remains is read from the banks.

What instructions other than FFMAs leave in the cache was not measured: they are taken to do as FFMAs do.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from tools.machine_code.listing import Instruction, matches

REGISTER = re.compile(r"[-~|]*R(\d+)(?:\.\w+)*?(\.reuse)?[|]?$")


@dataclass
class RegisterReads:
    """What the FFMAs of a loop read."""

    operands: int = 0  # registers among their source operands
    cached: int = 0  # of those, read from the reuse cache
    from_banks: list[tuple[int, int]] = field(default_factory=list)  # of each FFMA, from either bank


def source_registers(instruction: Instruction) -> dict[int, tuple[int, bool]]:
    """By the operand's place: the register's number and whether it is marked .reuse."""
    return _source_registers(instruction.operands, instruction.mnemonic != "ISETP")


@lru_cache(maxsize=1 << 16)
def _source_registers(operands: tuple[str, ...], has_result: bool) -> dict[int, tuple[int, bool]]:
    found: dict[int, tuple[int, bool]] = {}
    registers = [o for o in operands if not re.fullmatch(r"!?U?P(\d|T)", o)]
    for place, operand in enumerate(registers[has_result:]):
        match = REGISTER.fullmatch(operand)
        if match:
            found[place] = (int(match[1]), match[2] is not None)
    return found


HMMA_WORDS = {0: 4, 1: 2, 2: 4}  # registers of A, B and C; of HMMA.1688.F32.TF32 and HMMA.16816.F32.*


def read_by(instruction: Instruction) -> set[int]:
    """The numbers of the registers that it reads: of an HMMA all of its fragments', of others the first of
    each operand."""
    wide = HMMA_WORDS if matches(instruction, "HMMA") else {}
    places = source_registers(instruction).items()
    return {register + word for place, (register, _) in places for word in range(wide.get(place, 1))}


def register_reads(instructions: list[Instruction]) -> RegisterReads:
    """Of a loop: in its first round, as the cache is empty at the beginning."""
    result = RegisterReads()
    cache: dict[tuple[int, int], int] = {}  # operand's place, bank -> register
    for i in instructions:
        sources = source_registers(i)
        if i.mnemonic == "FFMA":
            fresh = {r for place, (r, _) in sources.items() if cache.get((place, r % 2)) != r}
            result.operands += len(sources)
            result.cached += sum(cache.get((place, r % 2)) == r for place, (r, _) in sources.items())
            odd = sum(r % 2 for r in fresh)
            result.from_banks.append((len(fresh) - odd, odd))
        for place, (r, marked) in sources.items():
            cache.pop((place, r % 2), None)
            if marked:
                cache[place, r % 2] = r
    return result
