"""What a kernel's main loop consists of, found by what it computes, not by where things stand.

The loop is carried out once with expressions (meaning.py). Then each sum is a nest of FFMAs, one for each
step of k, and each factor a word of a load: which loads serve which step, which element of the thread's tile
a word is, and in which register each sum lives, can be read off. A loop that is anything else is refused,
with the reason.
"""

from dataclasses import dataclass, field
from functools import cached_property

from tools.machine_code.listing import Instruction, SassError
from tools.machine_code.loops import find_loops, main_loop

from machine_code.bits import WORD
from machine_code.effects import effects
from machine_code.expressions import Atom, Sum, evaluate, initial
from machine_code.hazards import Hazard, hazards
from machine_code.liveness import Liveness, conditional, flow, liveness, unchanged
from machine_code.meaning import LOOK, Machine, Undecided, by_offset

QUAD = 4  # words of a load of 128 bits


class Unknown(SassError):
    """This is not a loop that can be written anew; says why."""


@dataclass(frozen=True)
class Load:
    """Of four elements of a fragment, for one step."""

    instruction: Instruction
    side: int  # 0: rows (A), 1: columns (B)
    elements: tuple[int, ...]  # which of the side's elements its words are
    address: Sum


@dataclass(frozen=True)
class Wait:
    """For an mbarrier. The loop looks once; if in vain, it goes aside and looks there until it is over."""

    look: Instruction
    jumps: tuple[Instruction, ...]  # on the way that waits: those that depend on the look
    aside: tuple[Instruction, ...]  # look, jump back, jump to the loop; outside of it
    skip: Instruction | None  # the jump over the wait in a round that need not wait


@dataclass
class MainLoop:
    """Of a kernel: offsets in bytes from its first instruction.

    A step is one k: every sum gets one product. A round is one time through the loop. Fragments of the first
    step are there when it begins; those of the others are loaded in it, and those of the next round's first.
    """

    kernel: str
    instructions: list[Instruction]
    words: list[int]
    start: int
    back: int  # the jump back
    known: dict[str, Sum]  # what registers hold that the loop does not change
    steps: int = 0
    tile: tuple[int, int] = (0, 0)  # rows and columns of a thread
    sums: dict[tuple[int, int], int] = field(default_factory=dict)  # the register of each
    first: tuple[dict[int, int], dict[int, int]] = ({}, {})  # by side: registers of the first step's elements
    loads: dict[int, list[Load]] = field(default_factory=dict)  # by step, from 1 to `steps`: the next round's
    wait: Wait | None = None
    waits_if: dict[Sum, bool] = field(default_factory=dict)  # what must be so for a round to wait
    path: list[Instruction] = field(default_factory=list)  # the way through it, with the wait

    @property
    def end(self) -> int:
        return self.back + WORD

    @cached_property
    def live(self) -> Liveness:
        return liveness(self.instructions)

    @cached_property
    def hazards(self) -> list[Hazard]:
        """Of the whole kernel."""
        return hazards(self.instructions, self.words)

    @cached_property
    def code(self) -> dict[int, Instruction]:
        return by_offset(self.instructions)

    @property
    def counts(self) -> frozenset[str]:
        """The registers whose values are wanted after the loop, or the next time round."""
        return self.live.before[self.start] | self.live.before[self.end]

    @property
    def written(self) -> set[str]:
        return set().union(*(effects(i).writes for i in self.path))

    @cached_property
    def glue(self) -> list[Instruction]:
        """What is neither FFMA nor load nor wait: addresses, counters."""
        return [i for i in self.path if i.mnemonic not in ("FFMA", "LDS", "BRA", "SYNCS", "NOP")]

    @property
    def ways(self) -> list[dict[Sum, bool]]:
        """What may be so of the predicates on which the way through the loop depends."""
        other = {value: not true for value, true in self.waits_if.items()}
        return [self.waits_if, other] if other else [{}]

    def machine(self, looks: list[bool] | None = None) -> Machine:
        """After one round, with the wait."""
        return Machine(self.code, dict(self.known), looks or [], self.waits_if).run(self.start, self.back)


def recognise(kernel: str, instructions: list[Instruction], words: list[int], arch: str) -> MainLoop:
    """Raises Unknown, or SassError for an instruction that the tables do not know."""
    loop = main_loop(find_loops(instructions, arch))
    if loop is None:
        raise Unknown("it has no loop with FFMAs")
    start = loop.instructions[0].offset
    back = next((i for i in reversed(loop.instructions) if i.mnemonic == "BRA" and i.target == start), None)
    if back is None or not conditional(back) or back.offset < start or len(back.operands) != 1:
        raise Unknown("its main loop does not end in a conditional jump back to its beginning")
    found = MainLoop(kernel, instructions, words, start, back.offset, {})
    inside = range(start, found.end, WORD)
    if strange := set(inside) - loop.offsets:
        raise Unknown(f"the instruction at {min(strange):x} lies between those of its main loop")
    found.known = what_is_known(instructions, start, loop.offsets)
    skip = find_skip(found)
    machine = found.machine()
    found.path = machine.path
    read_sums(found, machine)
    read_wait(found, machine, sorted(loop.offsets - set(inside)), skip)
    return found


def what_is_known(instructions: list[Instruction], start: int, inside: frozenset[int]) -> dict[str, Sum]:
    """Of registers that the loop reads and does not change, how they follow from others of this kind."""
    code = by_offset(instructions)
    read = set().union(*(effects(code[at]).reads for at in inside))
    written = set().union(*(effects(code[at]).writes for at in inside))
    blocks = flow(instructions)
    writers: dict[str, list[int]] = {}
    for i in instructions:
        for register in effects(i).writes:
            writers.setdefault(register, []).append(i.offset)
    known: dict[str, Sum] = {}
    for register in sorted(read - written):
        for definition in map(code.__getitem__, writers.get(register, [])):
            done = effects(definition)
            if done.writes != {register} or done.reads & (written | known.keys()):
                continue
            value = evaluate(definition, initial)[0]
            plain = all(atom[0] == "in" for atom, _ in value.terms)
            if plain and done.reads and unchanged(blocks, definition, start, writers):
                known[register] = value
                break
    return known


# ---- Sums and fragments ----------------------------------------------------------------------------------


def nest(value: Sum, register: str) -> list[frozenset[Sum]]:
    """The factors of a sum, a pair for each step in turn; empty if it did not begin in this register."""
    pairs = []
    while (atom := value.atom) and atom[0] == "ffma":
        pairs.append(atom[1])
        value = atom[2]
    return pairs[::-1] if pairs and value == initial(register) else []


def read_sums(loop: MainLoop, machine: Machine) -> None:
    nests = {name: nest(value, name) for name, value in machine.registers.items()}
    nests = {int(name[1:]): pairs for name, pairs in nests.items() if pairs}
    products = sum(map(len, nests.values()))
    ffmas = sum(i.mnemonic == "FFMA" for i in loop.path)
    loop.steps = max(map(len, nests.values()), default=0)
    if not nests or {len(pairs) for pairs in nests.values()} != {loop.steps} or products != ffmas:
        raise Unknown(
            f"{products} of the {ffmas} FFMAs of its main loop go into sums that stay in a register"
        )
    if loop.steps < 4 or loop.steps % 2:
        raise Unknown(f"its main loop does {loop.steps} steps of k; it should do an even number, 4 or more")
    places = elements_of_first(loop, nests)
    loop.sums = {place: register for register, place in places.items()}
    for step in range(loop.steps):
        by_place = {places[register]: pairs[step] for register, pairs in nests.items()}
        sides = sides_of(by_place, step)
        if step == 0:
            row, column = ({n: register_of(value) for n, value in side.items()} for side in sides)
            loop.first = row, column
        else:
            loop.loads[step] = loads_of(loop, machine, sides, step)
    rows, columns = ({n: machine.get(f"R{register}") for n, register in side.items()} for side in loop.first)
    loop.loads[loop.steps] = loads_of(loop, machine, (rows, columns), loop.steps)
    used = {load.instruction.offset for loads in loop.loads.values() for load in loads}
    if extra := [i for i in loop.path if i.mnemonic == "LDS" and i.offset not in used]:
        raise Unknown(f"{extra[0].offset:x} {extra[0].text} loads what no sum wants")


def elements_of_first(loop: MainLoop, nests: dict[int, list[frozenset[Sum]]]) -> dict[int, tuple[int, int]]:
    """Row and column of each sum, by its register: from the factors of the first step, which are registers.

    Two factors are of one side if they go with the same others. Rows are the side with fewer.
    """
    pairs = {register: steps[0] for register, steps in nests.items()}
    factors = sorted({register_of(f) for pair in pairs.values() for f in pair})
    partner: dict[int, set[int]] = {f: set() for f in factors}
    for pair in pairs.values():
        numbers = [register_of(f) for f in pair]
        if len(numbers) != 2:
            raise Unknown("a product of a number with itself is among its FFMAs")
        partner[numbers[0]].add(numbers[1])
        partner[numbers[1]].add(numbers[0])
    one = sorted(f for f in factors if partner[f] == partner[factors[0]])
    other = sorted(partner[factors[0]])
    if sorted(one + other) != factors or len(one) * len(other) != len(pairs) or set(one) & set(other):
        raise Unknown("its sums are not all products of so many rows with so many columns")
    rows, columns = sorted((one, other), key=len)
    for side in (rows, columns):
        quads = {f // QUAD for f in side}
        if len(side) != QUAD * len(quads):
            raise Unknown(
                "its fragments do not lie in groups of four registers, as loads of 128 bits leave them"
            )
    loop.tile = len(rows), len(columns)
    number = {f: n for side in (rows, columns) for n, f in enumerate(side)}
    places = {}
    for register, pair in pairs.items():
        row, column = sorted((register_of(f) for f in pair), key=lambda f: f in columns)
        places[register] = number[row], number[column]
    return places


def register_of(value: Sum) -> int:
    atom = value.atom
    if not atom or atom[0] != "in" or not atom[1].startswith("R"):
        raise Unknown("its first step does not begin with what is in registers when the loop begins")
    return int(atom[1][1:])


def sides_of(
    pairs: dict[tuple[int, int], frozenset[Sum]], step: int
) -> tuple[dict[int, Sum], dict[int, Sum]]:
    """The factors of a step by row and by column: what all sums of a row have in common."""
    sides: tuple[dict[int, Sum], dict[int, Sum]] = ({}, {})
    for axis, side in enumerate(sides):
        for n in sorted({place[axis] for place in pairs}):
            common = frozenset.intersection(*(pair for place, pair in pairs.items() if place[axis] == n))
            if len(common) != 1:
                line = ("row", "column")[axis]
                raise Unknown(f"in step {step} the sums of {line} {n} share no factor")
            (side[n],) = common
    return sides


def loads_of(
    loop: MainLoop, machine: Machine, sides: tuple[dict[int, Sum], dict[int, Sum]], step: int
) -> list[Load]:
    """The loads of a step: rows before columns, by the first element."""
    epoch = len(machine.waits) if step == loop.steps else 0
    found = []
    for side, values in enumerate(sides):
        words: dict[Sum, dict[int, int]] = {}
        for element, value in values.items():
            atom: Atom = value.atom or ("nothing",)
            if atom[:2] != ("lds", 4 * QUAD):
                raise Unknown(f"an element of step {step} does not come by a load of 128 bits")
            _, _, address, word, when = atom
            if when != epoch:
                raise Unknown(f"a load of step {step} is on the wrong side of the wait for an mbarrier")
            words.setdefault(address, {})[word] = element
        for address, elements in words.items():
            if sorted(elements) != list(range(QUAD)):
                raise Unknown(f"a load of step {step} brings what the step does not use")
            order = tuple(elements[word] for word in range(QUAD))
            registers = [loop.first[side][element] for element in order]
            if registers != list(range(registers[0], registers[0] + QUAD)) or registers[0] % QUAD:
                raise Unknown(
                    f"the loads of step {step} bring the elements in another order than those of the first"
                )
            found.append(Load(machine.loads[address, epoch], side, order, address))
    return sorted(found, key=lambda load: (load.side, load.elements))


# ---- The wait --------------------------------------------------------------------------------------------


def find_skip(loop: MainLoop) -> Instruction | None:
    """A loop may wait in some rounds only. Finds the jump over the wait, and sets what must be so to wait."""
    try:
        loop.machine()
    except Undecided as undecided:
        ways = [
            (true, Machine(loop.code, dict(loop.known), [], {undecided.predicate: true}))
            for true in (True, False)
        ]
        waiting = [true for true, way in ways if way.run(loop.start, loop.back).waits]
        if len(waiting) == 1 and undecided.jump.offset in range(loop.start, loop.back):
            loop.waits_if = {undecided.predicate: waiting[0]}
            return undecided.jump
        raise
    return None


def read_wait(loop: MainLoop, machine: Machine, outside: list[int], skip: Instruction | None) -> None:
    """The wait for an mbarrier, if there is one; `outside`: the loop's instructions that do not lie in it."""
    looks = [i for i in loop.path if i.opcode == LOOK]
    jumps = tuple(i for i in loop.path if i.mnemonic == "BRA" and i is not skip)
    if len(machine.waits) != len(looks) or len(looks) > 1:
        raise Unknown(
            f"it looks {len(looks)} times at an mbarrier and waits {len(machine.waits)} times; once is known"
        )
    if not looks:
        if jumps or outside:
            raise Unknown("its main loop has a second way through it")
        return
    other = Machine(loop.code, dict(loop.known), [], loop.ways[-1]).run(loop.start, loop.back)
    written = loop.counts & loop.written if skip else set()
    differ = {name for name in written if other.get(name) != machine.get(name)}
    fragments = {f"R{n}" for side in loop.first for n in side.values()}
    if differ - fragments:
        raise Unknown(f"{min(differ - fragments)} changes only in the rounds that wait")
    place = [loop.code[at] for at in outside if loop.code[at].mnemonic in ("SYNCS", "BRA")]
    strange = [at for at in outside if loop.code[at].mnemonic not in ("SYNCS", "BRA", "YIELD", "NOP")]
    if strange or [i.mnemonic for i in place] != ["SYNCS", "BRA", "BRA"] or place[1].target not in outside:
        raise Unknown("the code that waits for the mbarrier is of another kind, or lies in the loop")
    loop.wait = Wait(looks[0], jumps, tuple(place), skip)
