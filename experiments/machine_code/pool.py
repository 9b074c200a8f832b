"""Registers for what the new loop adds."""

import re

from machine_code.recognise import QUAD, MainLoop, Unknown

SPARE_REGISTERS = 2  # of as many registers as a launch gives, the last two are not to be used
MOST_REGISTERS = 255
UNIFORM_REGISTERS = 63
PREDICATES = 7


def register_file(name: str) -> str:
    """ "R", "UR", "P" or "UP"."""
    return name.rstrip("0123456789")


def rename(text: str, names: dict[str, str]) -> str:
    """An operand with other registers, and without .reuse."""
    text = text.replace(".reuse", "")
    return re.sub(r"\b(UR|R|UP|P)(\d+)\b", lambda match: names.get(match[0], match[0]), text)


class Pool:
    """Registers that nothing needs at the loop. Not R1, which is the stack's by convention.

    registers: that a thread has so far; more are taken only if these are not enough.
    """

    def __init__(self, loop: MainLoop, registers: int):
        busy = loop.counts | {"R1"}
        last = MOST_REGISTERS - SPARE_REGISTERS - 1
        self.free = {
            "R": [n for n in range(last + 1) if f"R{n}" not in busy],
            "UR": [n for n in range(UNIFORM_REGISTERS) if f"UR{n}" not in busy],
            "P": [n for n in range(PREDICATES) if f"P{n}" not in busy],
            "UP": [n for n in range(PREDICATES) if f"UP{n}" not in busy],
        }
        self.last = registers - SPARE_REGISTERS - 1
        self.highest = 0

    @property
    def needed(self) -> int:
        """Registers that a launch must give a thread for those that were taken."""
        return self.highest + 1 + SPARE_REGISTERS

    def quad(self) -> int:
        """Four registers for a load of 128 bits; the number of the first."""
        free = set(self.free["R"])
        base = next((n for n in sorted(free) if n % QUAD == 0 and {*range(n, n + QUAD)} <= free), None)
        if base is None:
            raise Unknown("there are too few registers for a second set of fragments")
        for n in range(base, base + QUAD):
            self.take("R", n)
        return base

    def one(self, kind: str) -> str:
        """The name of one register of a kind, if possible none of four that still lie together."""
        free = self.free[kind]
        if not free:
            raise Unknown(f"there are too few registers of the kind {kind}")

        def whole(n: int) -> bool:
            return {*range(n // QUAD * QUAD, n // QUAD * QUAD + QUAD)} <= set(free)

        if kind != "R":
            return self.take(kind, free[0])
        return self.take(kind, min(free, key=lambda n: (n > self.last, n <= self.last and whole(n), n)))

    def take(self, kind: str, n: int) -> str:
        self.free[kind].remove(n)
        if kind == "R":
            self.highest = max(self.highest, n)
        return f"{kind}{n}"
