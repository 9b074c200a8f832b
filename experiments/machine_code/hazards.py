"""Looks for hazards in machine code: the check that takes the hardware's place.

The hardware does not look whether a register is ready; the control words say when to go on (control.py). This
goes through a whole kernel, along all ways at once, and finds instructions that come too early:

  - one that reads a register whose new value is still on its way: not enough cycles after an instruction of
    fixed latency, or no wait for the counter of a load;
  - one that overwrites a register which is still to be read or to be written by an earlier instruction;
  - one that waits for a counter before it has gone up, one cycle after the instruction that raises it.

It knows nothing of how a loop was made: it reads what nvdisasm says and the bits of the control words.
Kernels as ptxas makes them have no hazards by this model (tests/machine_code), and with a wait or a stall
taken out they have.

Loads of one kind come back in the order in which they were asked for, and so do the reads of their operands.
ptxas relies on that and lets a later one's counter stand for all before it; so does this.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from tools.machine_code.listing import Instruction

from machine_code.bits import WORD
from machine_code.control import NO_BARRIER, Control, cycles
from machine_code.effects import VARIABLE, effects, names
from machine_code.liveness import flow

# Of these the reads of operands are in order, whichever of them it is: they go through one queue.
QUEUE = names("LD LDG LDGSTS LDL LDS LDSM RED REDG SHFL ST STG STL STS ATOM ATOMG ATOMS")
# One unit, in order: what comes out last has come out after all before it.
CONVERSIONS = {"MUFU", "F2I", "I2F"}
OLD = 64  # cycles after which a result of fixed latency is there in any case
RAISED = 2  # cycles after which a counter has gone up

# Cycles from the start of an instruction of fixed latency to the first that may use its result. Measured: the
# least that ptxas leaves, in all kernels of this project (tests/machine_code holds it to that).
GUARD, ARITHMETIC, MEMORY = "a predicate or a jump", "an operand", "an address or datum"
LOOKS_AT_PREDICATES = names("ISETP FSETP DSETP SEL FSEL P2R IADD3 LEA IMAD UIADD3 USEL UISETP")


def use(register: str, i: Instruction) -> str:
    """How an instruction uses a register."""
    if register.lstrip("U").startswith("P"):
        guard = (i.predicate or "").lstrip("@!") == register
        return ARITHMETIC if i.mnemonic in LOOKS_AT_PREDICATES and not guard else GUARD
    return MEMORY if i.mnemonic in VARIABLE else ARITHMETIC


def least(producer: Instruction, register: str, consumer: Instruction) -> int:
    """What ptxas leaves at least."""
    kind = use(register, consumer)
    if register.startswith("P"):
        return {GUARD: 13, ARITHMETIC: 2 if consumer.mnemonic == "P2R" else 4}[kind]
    if register.startswith("U"):
        if producer.mnemonic == "R2UR":
            return 13
        if producer.mnemonic in ("ULDC", "UMOV", "VOTEU"):
            return 2
        return 4 if consumer.mnemonic.startswith("U") else 6
    name = producer.mnemonic
    if name in ("HFMA2", "DADD", "DMUL", "DFMA"):
        return 6
    if "IMAD" in (name, consumer.mnemonic):
        return 2
    return 4


def enough(producer: Instruction, register: str, consumer: Instruction) -> int:
    """What is enough for all of them: what we leave."""
    if register.startswith("U") and consumer.mnemonic.startswith("U") and producer.mnemonic != "R2UR":
        return 6
    if register.startswith("U") or use(register, consumer) == GUARD:
        return 13
    return 10 if producer.mnemonic in ("HFMA2", "DADD", "DMUL", "DFMA") else 6


@dataclass(frozen=True)
class Hazard:
    offset: int
    text: str

    def __str__(self) -> str:
        return f"{self.offset:x}: {self.text}"


# By register and the instruction that it belongs to, the counters any of which says that it is done.
UnderWay = dict[str, dict[int, frozenset[int]]]


@dataclass
class State:
    """What is under way, at a point of the program."""

    now: int = 0  # cycles
    young: dict[str, dict[int, int]] = field(default_factory=dict)  # results of fixed latency: their start
    writing: UnderWay = field(default_factory=dict)
    reading: UnderWay = field(default_factory=dict)
    raised: dict[int, int] = field(default_factory=dict)  # when a counter went up

    def copy(self) -> "State":
        """The same, at cycle 0, without what is no longer young."""
        young = {
            register: kept
            for register, starts in self.young.items()
            if (kept := {at: start - self.now for at, start in starts.items() if self.now - start < OLD})
        }
        raised = {counter: up - self.now for counter, up in self.raised.items() if self.now - up < RAISED}
        writing, reading = (
            {register: dict(of) for register, of in under_way.items() if of}
            for under_way in (self.writing, self.reading)
        )
        return State(0, young, writing, reading, raised)

    def join(self, other: "State") -> bool:
        """Adds what is under way on another way here, both at cycle 0; whether that was new."""
        before = self.copy()
        for register, starts in other.young.items():
            mine = self.young.setdefault(register, {})
            for at, start in starts.items():
                mine[at] = max(start, mine.get(at, start))
        for own, theirs in ((self.writing, other.writing), (self.reading, other.reading)):
            for register, of in theirs.items():
                known = own.setdefault(register, {})
                for at, counters in of.items():
                    known[at] = counters & known.get(at, counters)
        for counter, up in other.raised.items():
            self.raised[counter] = max(up, self.raised.get(counter, up))
        return self != before


class Walk:
    """Of a kernel's instructions. strict: offsets between which enough is asked for, not just the least."""

    def __init__(self, instructions: list[Instruction], words: list[int], strict: Collection[int] = ()):
        self.by_offset = {i.offset: i for i in instructions}
        self.control = {i.offset: Control.of(words[i.offset // WORD]) for i in instructions}
        self.strict = frozenset(strict)
        self.blocks = flow(instructions)

    def run(self) -> list[Hazard]:
        entry: list[State | None] = [None] * len(self.blocks)
        entry[0] = State()
        found: list[list[Hazard]] = [[] for _ in self.blocks]  # as each was gone through last
        todo = {0}
        while todo:
            todo.remove(k := min(todo))
            state = entry[k].copy()
            found[k] = [hazard for i in self.blocks[k].instructions for hazard in self.step(state, i)]
            state = state.copy()
            for n in self.blocks[k].next:
                if entry[n] is None:
                    entry[n] = state.copy()
                elif not entry[n].join(state):
                    continue
                todo.add(n)
        return list(dict.fromkeys(hazard for of_block in found for hazard in of_block))

    def step(self, state: State, i: Instruction) -> list[Hazard]:
        """Carries out an instruction; what is wrong with it."""
        control, done = self.control[i.offset], effects(i)
        wrong = [
            f"waits for counter {n} before it goes up"
            for n in sorted(control.waits & state.raised.keys())
            if state.now - state.raised[n] < RAISED
        ]
        for of in (*state.writing.values(), *state.reading.values()) if control.waits else ():
            for at in [at for at, counters in of.items() if counters & control.waits]:
                del of[at]
        wrong += self.too_early(state, i)
        wrong += [
            f"overwrites {register}, which {self.by_offset[at].text} at {at:x} still {what}"
            for what, under_way in (("reads", state.reading), ("writes", state.writing))
            for register in done.writes & under_way.keys()
            for at in under_way[register]
            if not self.in_order(i, self.by_offset[at], what)
        ]
        self.start(state, i)
        state.now += cycles(control)
        return [Hazard(i.offset, f"{i.text} {what}") for what in wrong]

    @staticmethod
    def in_order(later: Instruction, earlier: Instruction, what: str) -> bool:
        """Whether the later one's part comes after the earlier one's in any case."""
        both = {later.mnemonic, earlier.mnemonic}
        queued = both <= CONVERSIONS or (what == "reads" and both <= QUEUE)
        return queued or (len(both) == 1 and both <= VARIABLE)

    def too_early(self, state: State, i: Instruction) -> list[str]:
        reads = effects(i).reads
        wrong = [
            f"reads {register} {age} cycles after {self.by_offset[at].text} at {at:x}, {most} are needed"
            for register in reads & state.young.keys()
            for at, start in state.young[register].items()
            if (age := state.now - start) < (most := self.distance(at, register, i))
        ]
        return wrong + [
            f"reads {register} without a wait for {self.by_offset[at].text} at {at:x}"
            for register in reads & state.writing.keys()
            for at in state.writing[register]
        ]

    def distance(self, producer: int, register: str, consumer: Instruction) -> int:
        rule = enough if producer in self.strict and consumer.offset in self.strict else least
        return rule(self.by_offset[producer], register, consumer)

    def start(self, state: State, i: Instruction) -> None:
        control, done = self.control[i.offset], effects(i)
        written = {control.write_barrier} - {NO_BARRIER}
        read = {control.read_barrier} - {NO_BARRIER} | written
        fixed = i.mnemonic not in VARIABLE and not written and not read
        for register in done.writes:
            state.young[register] = {i.offset: state.now} if fixed else {}
        if fixed:
            return
        # In order: what is done with this one is done with those of its kind before it.
        for what, under_way, counters in (
            ("writes", state.writing, written),
            ("reads", state.reading, read),
        ):
            for of in under_way.values() if counters else ():
                for at, known in of.items():
                    if self.in_order(i, self.by_offset[at], what):
                        of[at] = known | counters
        for register in done.writes:
            state.writing.setdefault(register, {})[i.offset] = frozenset(written)
        for register in done.reads:
            if register.startswith("R"):  # the others are read at once
                state.reading.setdefault(register, {})[i.offset] = frozenset(read)
        for counter in read:
            state.raised[counter] = state.now


def hazards(instructions: list[Instruction], words: list[int], strict: Collection[int] = ()) -> list[Hazard]:
    """Of a whole kernel; between instructions at the offsets in `strict` more distance is asked for."""
    return Walk(instructions, words, strict).run()
