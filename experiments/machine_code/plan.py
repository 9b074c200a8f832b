"""What a new loop is made of: the plan, its lines, and the whole."""

from dataclasses import dataclass

from tools.machine_code.listing import Instruction, parse_instruction

from machine_code.control import Control
from machine_code.recognise import MainLoop


@dataclass(frozen=True)
class Plan:
    """Where things stand in a step, in FFMAs from its beginning.

    The defaults are the best known; other values are for experiments, to see what each decision is worth.
    """

    first: int = 1  # the first load stands behind so many FFMAs
    spacing: int = 10  # between loads
    glue: int = 70  # the first gap for other instructions
    glue_spacing: int = 6
    address: int = 94  # the first gap where an address may be changed whose last loads stand in this step
    look: int = 3  # the look at the mbarrier comes so many steps before the end
    carry: bool = True  # carry addresses over from one round to the next
    alternate: bool = True  # elements of the inner side up and down in turn, not always up
    settle: bool = False  # wait for all loads at the end of a round, for what comes after the loop


@dataclass
class Line:
    """An instruction of the new loop. "{body}" and "{go_on}" in its text are places that jumps go to."""

    text: str
    control: Control
    why: str
    label: str = ""  # the name of its place

    def instruction(self, offset: int, places: dict[str, int]) -> Instruction:
        return parse_instruction(self.text.format_map({n: f"{at:#x}" for n, at in places.items()}), offset)


@dataclass
class NewLoop:
    """What is to be written: by offset, each instruction and its control word, and what it is there for."""

    loop: MainLoop
    lines: dict[int, tuple[Instruction, Control, str]]
    prologue: int  # where the loop is entered
    body: int  # where the jump back goes
    registers: int  # that a launch must give each thread
    looks: list[Instruction]  # at the mbarrier

    @property
    def round(self) -> list[Instruction]:
        """The instructions of one time round, as far as they lie in the loop."""
        return [i for at, (i, _, _) in sorted(self.lines.items()) if self.body <= at <= self.loop.back]
