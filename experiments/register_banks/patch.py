"""Puts patterns into the kernels of the program: only FFMAs of their loops change, each in its place.

What is checked, before and after:
  - ptxas wrote the code, of a release that is known; and every instruction of a kernel that the table of
    machine_code can express comes out as the same bits;
  - the kernel is as probes.cu means it: the loop is FFMAs and little else, which leaves the array alone; the
    array is in the same registers before and after the loop, each element in one of its own;
  - nvdisasm reads each new instruction as it was meant, with its marks, and all others as before;
  - nothing reads a register too early (machine_code.hazards).
"""

import re
from dataclasses import dataclass
from functools import cached_property

from machine_code.bits import WORD
from machine_code.control import Control
from machine_code.cubin import Cubin
from machine_code.effects import effects
from machine_code.encoding import encode, verify
from machine_code.hazards import hazards
from machine_code.rewrite import ARCH, Broken, Refused, disassemble
from tools.machine_code.binary import demangle
from tools.machine_code.listing import Instruction
from tools.machine_code.loops import Loop, find_loops, main_loop
from tools.machine_code.register_reads import source_registers

NAME = re.compile(r"probe<(false|true), (\d+)>")  # whether it is a large one, and its number
BEGINS = re.compile(r"FADD R(\d+), R\d+(?:\.reuse)?, (\d+)")  # r[i] = first + (i + 1)
STORE = re.compile(r"STG\.E desc\[UR\d+\]\[R\d+\.64(?:\+(0x[0-9a-f]+))?\], R(\d+)")
FLOAT = 4  # bytes


@dataclass
class Probe:
    """A kernel as ptxas made it."""

    symbol: str
    instructions: list[Instruction]
    words: list[int]
    loop: Loop
    registers: list[int]  # of each element of the array

    @cached_property
    def places(self) -> list[int]:
        """The offsets of the loop's FFMAs."""
        return [i.offset for i in self.loop.instructions if i.mnemonic == "FFMA"]

    @property
    def others(self) -> int:
        """The loop's other instructions."""
        return len(self.loop.instructions) - self.loop.ffma


def find_probes(cubin: Cubin) -> dict[tuple[str, int], Probe]:
    """The kernels of a cubin, by size and number. Raises Refused."""
    found = {}
    for symbol, instructions in disassemble(cubin).items():
        if name := NAME.fullmatch(demangle(symbol)):
            size = "large" if name[1] == "true" else "small"
            found[size, int(name[2])] = read_probe(symbol, instructions, cubin.words(symbol))
    if not found:
        raise Refused("it has no kernel of probes.cu")
    return found


def read_probe(symbol: str, code: list[Instruction], words: list[int]) -> Probe:
    _, wrong = verify(code, words)
    if wrong:
        raise Refused(f"the table of instructions does not agree with ptxas: {wrong[0]}")
    loop = main_loop(find_loops(code, ARCH))
    if loop is None or len(loop.instructions) - loop.ffma > 8:
        raise Refused(f"{symbol}: its loop is not made of FFMAs")
    begins = [match for i in code if (match := BEGINS.fullmatch(i.text))]
    elements = {int(match[2]) - 1: int(match[1]) for match in begins}
    stores = [match for i in code if i.predicate is None and (match := STORE.fullmatch(i.text))]
    by_offset = {int(match[1] or "0", 16): int(match[2]) for match in stores}
    registers = [by_offset[offset] for offset in sorted(by_offset)]
    stride = max(by_offset, default=0) // max(1, len(registers) - 1)
    if (
        registers != [elements.get(n) for n in range(len(elements))]
        or len({*registers}) != len(begins)
        or sorted(by_offset) != [n * stride for n in range(len(registers))]
        or stride % FLOAT
    ):
        raise Refused(f"{symbol}: it is not clear which registers its array is in")
    own = {f"R{r}" for r in registers}
    for i in loop.instructions:
        if i.mnemonic != "FFMA" and own & (effects(i).reads | effects(i).writes):
            raise Refused(f"{symbol}: {i.text} in the loop uses the array")
    return Probe(symbol, code, words, loop, registers)


def control_of(i: Instruction) -> Control:
    """What a pattern's FFMA says: the next instruction a cycle later, of the same warp; what is marked."""
    return Control(reuse=sum(marked << place for place, (_, marked) in source_registers(i).items()))


def put(cubin: Cubin, probe: Probe, pattern: list[Instruction]) -> None:
    """Writes a pattern, with as many FFMAs as the loop has, into the cubin."""
    if taken := {*cubin.relocations(probe.symbol), *cubin.marked(probe.symbol)} & {*probe.places}:
        raise Refused(f"the cubin's notes speak of the instruction at {min(taken):x}, in the loop")
    new = {at: encode(i, control_of(i)) for at, i in zip(probe.places, pattern, strict=True)}
    cubin.put_words(probe.symbol, new)


def check(probe: Probe, pattern: list[Instruction], read: list[Instruction], words: list[int]) -> None:
    """Raises Broken unless nvdisasm reads this pattern in a kernel, and nothing else has changed."""
    meant = dict(zip(probe.places, pattern, strict=True))
    for was, now, old_word in zip(probe.instructions, read, probe.words, strict=True):
        word = words[now.offset // WORD]
        if now.offset not in meant:
            if word != old_word:
                raise Broken(f"{probe.symbol}: {was.text} at {was.offset:x} has changed")
        elif now.text != meant[now.offset].text or Control.of(word) != control_of(meant[now.offset]):
            raise Broken(f"{now.offset:x} should be {meant[now.offset].text}; nvdisasm reads {now.text}")
    if wrong := hazards(read, words, probe.places):
        raise Broken(f"{probe.symbol}: a hazard: {wrong[0]}")
