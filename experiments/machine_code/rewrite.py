"""A kernel's main loop written anew, and everything that is checked before the result is handed out.

1. The table of instructions agrees with ptxas on every instruction of the kernel that it can express.
2. What nvdisasm reads in the new words is what was meant.
3. The new loop does what the old one does (meaning.py).
4. It has no hazard, and the kernel around it has none that it did not have (hazards.py).

If one of them fails, nothing is written.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from tools.machine_code.binary import demangle, run_tool
from tools.machine_code.listing import Instruction, SassError, parse_listing
from tools.machine_code.loops import Loop

from machine_code.bits import WORD, Field
from machine_code.control import Control
from machine_code.cubin import Cubin
from machine_code.encoding import encode, verify
from machine_code.hazards import hazards
from machine_code.meaning import Stretch, differences
from machine_code.plan import NewLoop, Plan
from machine_code.recognise import MainLoop, recognise
from machine_code.schedule import new_loop

RELEASES = ("13.0",)  # of ptxas, whose encoding and habits are known here
ARCH = "sm_90a"


class Refused(SassError):
    """This program is none that the tool may change; says why."""


class Broken(SassError):
    """A check found the tool's own work wrong. That is a mistake in the tool."""


class AfterLoop(Broken):
    """A hazard in the code that comes after the loop."""


@dataclass
class Rewritten:
    """A kernel before and after."""

    kernel: str
    old: MainLoop
    new: NewLoop
    expressible: int  # instructions of the kernel on which the table was held against ptxas
    registers: tuple[int, int]  # of a thread, before and after

    @property
    def name(self) -> str:
        return demangle(self.kernel)

    @property
    def models(self) -> tuple[Loop, Loop]:
        """Both loops as tools.machine_code.loops counts them: issue slots, bank conflicts."""
        before = [i for i in self.old.path if i.mnemonic != "NOP"] + [self.old.code[self.old.back]]
        return Loop(ARCH, before, [], frozenset()), Loop(ARCH, self.new.round, [], frozenset())


def check_origin(cubin: Cubin) -> None:
    """Raises Refused for another architecture, and for a compiler that is not known here."""
    if cubin.arch != ARCH:
        raise Refused(
            f"its machine code is for {cubin.arch or 'an unknown architecture'}; {ARCH} is known here"
        )
    tool, version = cubin.compiler
    if tool != "ptxas" or not any(f"release {release}," in version for release in RELEASES):
        known = " and ".join(RELEASES)
        found = f"{tool or 'an unknown tool'}, {version or 'of no version'}"
        raise Refused(f"it was compiled by {found}; ptxas {known} is known here")


def disassemble(cubin: Cubin, kernel: str = "") -> dict[str, list[Instruction]]:
    """The instructions of a cubin's kernels, or of one, by symbol, as nvdisasm reads them."""
    of_one = ["-fun", str(cubin.symbols()[kernel])] if kernel else []
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin.data)
        file.flush()
        listings = parse_listing(run_tool("nvdisasm", *of_one, "--print-code", Path(file.name)))
    return {symbol: listing.instructions for symbol, listing in listings.items() if listing.is_kernel}


def rewrite(cubin: Cubin, kernel: str, instructions: list[Instruction], plan: Plan) -> Rewritten:
    """Writes a kernel's main loop anew, in `cubin`. Raises SassError, and then has changed nothing:
    Unknown for a loop of another kind, Refused, Broken."""
    return rewrite_loop(cubin, *read_loop(cubin, kernel, instructions), plan)


def read_loop(cubin: Cubin, kernel: str, instructions: list[Instruction]) -> tuple[MainLoop, int]:
    """The main loop, and how many instructions of the kernel the table can express: as ptxas has them."""
    check_origin(cubin)
    words = cubin.words(kernel)
    expressible, wrong = verify(instructions, words)
    if wrong:
        raise Refused(f"the table of instructions does not agree with ptxas: {wrong[0]}")
    return recognise(kernel, instructions, words, ARCH), expressible


def rewrite_loop(cubin: Cubin, old: MainLoop, expressible: int, plan: Plan) -> Rewritten:
    """The same for a loop that was read."""
    kernel, registers = old.kernel, cubin.registers(old.kernel)
    try:
        new, changed = write(cubin, old, plan)
    except AfterLoop:  # what comes after the loop does not wait for the loads that are still on their way
        new, changed = write(cubin, old, replace(plan, settle=True))
    cubin.data[:] = changed.data
    return Rewritten(kernel, old, new, expressible, (registers, cubin.registers(kernel)))


def write(cubin: Cubin, old: MainLoop, plan: Plan) -> tuple[NewLoop, Cubin]:
    """The new loop, and a cubin with it, both checked. Raises Unknown, Refused, Broken."""
    kernel = old.kernel
    registers = cubin.registers(kernel)
    new = new_loop(old, registers, plan)
    touched = {*range(old.start, old.end, WORD), *new.lines}
    if taken := {*cubin.relocations(kernel), *cubin.marked(kernel)} & touched:
        raise Refused(f"the cubin's notes speak of the instruction at {min(taken):x}, in the main loop")
    changed = Cubin(bytearray(cubin.data))
    changed.put_words(kernel, {at: encode(i, control) for at, (i, control, _) in new.lines.items()})
    changed.put_registers(kernel, max(registers, new.registers))
    changed.put_mbarrier_places(kernel, touched, [place_of_look(look) for look in new.looks])
    check(old, new, disassemble(changed, kernel)[kernel], changed.words(kernel))
    return new, changed


def place_of_look(look: Instruction) -> tuple[int, int, int]:
    """What a cubin's note says of it: offset, address register and uniform register."""
    word = encode(look, Control())
    return look.offset, Field(24, 8).get(word), Field(64, 6).get(word)


def check(old: MainLoop, new: NewLoop, read: list[Instruction], words: list[int]) -> None:
    """Raises Broken. `read` is what nvdisasm makes of the changed kernel."""
    texts = {i.offset: i.text for i in read}
    for at, (i, control, _) in new.lines.items():
        if texts[at] != i.text or Control.of(words[at // WORD]) != control:
            raise Broken(f"{at:x} should be {i.text}; nvdisasm reads {texts[at]}")
    if any(texts.get(i.offset) != i.text for i in old.instructions if i.offset not in new.lines):
        raise Broken("instructions outside of the main loop have changed")
    known = {(hazard.offset, hazard.text) for hazard in old.hazards}
    for hazard in hazards(read, words, new.lines.keys()):
        if (hazard.offset, hazard.text) not in known:
            raise (Broken if hazard.offset in new.lines else AfterLoop)(
                f"the new code has a hazard: {hazard}"
            )
    was = Stretch(old.instructions, old.start, old.start, old.back)
    now = Stretch(read, new.prologue, new.body, old.back)
    for way in old.ways:
        for looks in ([], [False], [False, False]):
            if wrong := differences(was, now, old.counts, old.known, looks, way):
                raise Broken(f"the new loop does something else: {wrong[0]}")
