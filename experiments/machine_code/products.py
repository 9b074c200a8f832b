"""The FFMAs of a step: their order, their registers, what they keep for the next and what they wait for.

One element of the outer side after the other with all of the inner side, up and down in turn. Each FFMA then
shares an operand with the one before it, which comes from the reuse cache. The two others, an element of the
inner side and a sum, are read from the registers, and should lie in different banks; where the sums lie is
the compiler's choice.
"""

from dataclasses import dataclass, field

from tools.machine_code.listing import parse_instruction
from tools.machine_code.loops import Loop

from machine_code.control import Control
from machine_code.plan import Line, Plan
from machine_code.recognise import QUAD, Load, MainLoop

# Counters of the two sets of fragments: of the elements that a step wants at once, and of the others.
SET_COUNTERS = ((2, 3), (0, 1))


@dataclass
class Products:
    """second: where a load of the second set goes, by side and elements. inner: the inner side."""

    loop: MainLoop
    plan: Plan
    second: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)
    inner: int = 0

    @property
    def step(self) -> int:
        """FFMAs of a step."""
        return self.loop.tile[0] * self.loop.tile[1]

    def fragment(self, side: int, element: int, step: int) -> int:
        """The register of an element in a step."""
        if step % 2 == 0:
            return self.loop.first[side][element]
        elements = next(e for s, e in self.second if s == side and element in e)
        return self.second[side, elements] + elements.index(element)

    def at_once(self, side: int, element: int) -> bool:
        """Whether a step begins with this element: with all of the inner side, and the first of the outer."""
        return side == self.inner or element < QUAD

    def counter(self, load: Load, step: int) -> int:
        """The counter that a load for this step raises."""
        return SET_COUNTERS[step % 2][not self.at_once(load.side, load.elements[0])]

    def order(self) -> list[tuple[int, int]]:
        """Row and column of a step's products, one after the other."""
        sides = [range(count) for count in self.loop.tile]
        found = []
        for n, outer in enumerate(sides[1 - self.inner]):
            up = n % 2 == 0 or not self.plan.alternate
            elements = sides[self.inner] if up else reversed(sides[self.inner])
            found += [(element, outer) if self.inner == 0 else (outer, element) for element in elements]
        return found

    def lines(self, step: int) -> list[Line]:
        """The FFMAs of a step, one after the other."""
        order = self.order()
        lines, waited = [], set()
        for place, following in zip(order, [*order[1:], (-1, -1)], strict=True):
            # What the next one has in the same place stays in the cache.
            kept = [mine == next_one for mine, next_one in zip(place, following, strict=True)]
            marks = [".reuse" if keep else "" for keep in kept]
            wanted = {SET_COUNTERS[step % 2][not self.at_once(side, n)] for side, n in enumerate(place)}
            wait = sum(1 << counter for counter in wanted - waited)
            waited |= wanted
            a, b = (f"R{self.fragment(side, n, step)}{marks[side]}" for side, n in enumerate(place))
            total = f"R{self.loop.sums[place]}"
            control = Control(reuse=kept[0] | kept[1] << 1, wait=wait)
            why = f"step {step}: row {place[0]}, column {place[1]}"
            lines.append(Line(f"FFMA {total}, {a}, {b}, {total}", control, why))
        return lines

    def choose_inner(self) -> None:
        """Takes the side for which the FFMAs lose fewer cycles to busy register banks."""
        lost = []
        for self.inner in (0, 1):
            ffmas = [parse_instruction(line.text) for step in (0, 1) for line in self.lines(step)]
            lost.append(Loop("sm_90a", ffmas, [], frozenset()).bank_conflicts)
        self.inner = lost.index(min(lost))
