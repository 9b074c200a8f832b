"""Fields of an instruction, which is a number of 128 bits."""

from dataclasses import dataclass

WORD = 16  # bytes of an instruction


@dataclass(frozen=True)
class Field:
    """`width` bits, the lowest of which is bit `low` of the instruction."""

    low: int
    width: int

    def get(self, word: int) -> int:
        return word >> self.low & ((1 << self.width) - 1)

    def put(self, word: int, value: int) -> int:
        """The word with this value there, a negative one as its complement. ValueError if it has no room."""
        if not -(1 << self.width - 1) <= value < 1 << self.width:
            raise ValueError(f"{value} does not fit into {self.width} bits")
        mask = (1 << self.width) - 1
        return word & ~(mask << self.low) | (value & mask) << self.low


def words_of(code: bytes) -> list[int]:
    return [int.from_bytes(code[n : n + WORD], "little") for n in range(0, len(code), WORD)]
