"""What a stretch of code does to the registers and which shared memory it reads, by carrying it out with
expressions.

Two loops are the same if from any state they leave the same behind in every register that counts, read the
same addresses on the same side of the wait for a barrier, and go on under the same condition. A sum of
products comes out as the nest of its FFMAs, in their order: the same nest is the same result, bit for bit.
"""

from dataclasses import dataclass, field
from functools import cached_property

from tools.machine_code.listing import Instruction, SassError

from machine_code.bits import WORD
from machine_code.effects import VARIABLE, effects, results
from machine_code.expressions import Sum, add, evaluate, initial, number, of_atom, operand_value
from machine_code.liveness import Liveness, liveness

LOOK = "SYNCS.PHASECHK.TRANS64.TRYWAIT"  # at an mbarrier: whether its phase is over
CONSTANTS = {"LDC", "ULDC", "S2R", "S2UR"}  # read what never changes ...
CHANGING = ("SR_CLOCK", "SR_GLOBALTIMER")  # ... apart from these
ENOUGH = 50_000  # instructions: the stretch does not end


class Undecided(SassError):
    """A jump depends on a predicate of which nothing is known."""

    def __init__(self, jump: Instruction, predicate: Sum):
        super().__init__(f"{jump.offset:x} {jump.text} makes a second way through the loop")
        self.jump, self.predicate = jump, predicate


@dataclass
class Machine:
    """One thread. `looks` says what each look at an mbarrier finds, one after the other; then always that its
    phase is over.

    assume: of predicates that the loop computes, by value, whether they are true; or one answer for all.
    epoch counts the waits that are over, on which depends what a load finds. trace is what was carried out,
    with the new values.
    """

    code: dict[int, Instruction]
    registers: dict[str, Sum] = field(default_factory=dict)
    looks: list[bool] = field(default_factory=list)
    assume: dict[Sum, bool] | bool = field(default_factory=dict)
    epoch: int = 0
    waits: list[tuple[Sum, Sum]] = field(default_factory=list)  # of each, the mbarrier and the parity
    trace: list[tuple[Instruction, dict[str, Sum]]] = field(default_factory=list)
    loads: dict[tuple[Sum, int], Instruction] = field(default_factory=dict)  # by address and epoch
    _seen: list[tuple[Sum, Sum]] = field(default_factory=list)  # of each look, likewise
    _relied_on: set[int] = field(default_factory=set)  # the looks that waits were

    @property
    def path(self) -> list[Instruction]:
        return [i for i, _ in self.trace]

    def get(self, register: str) -> Sum:
        return self.registers.get(register, initial(register))

    def source(self, text: str) -> Sum:
        return operand_value(text, self.get)

    def guard(self, i: Instruction) -> Sum:
        return self.source((i.predicate or "@PT").removeprefix("@"))

    def address(self, text: str) -> Sum:
        """Of "[R1+UR2+0x10]"."""
        parts = text.strip("[]").replace("+-", "+ -").split("+")
        return add(number(0), *(self.source(part.strip()) for part in parts))

    def run(self, start: int, stop: int) -> "Machine":
        """Carries out the code from `start` until the instruction at `stop` comes next. Raises SassError for
        an instruction that no main loop of ours has."""
        at, most = start, len(self.trace) + ENOUGH
        while at != stop:
            if at not in self.code or len(self.trace) > most:
                raise SassError(f"the code from {start:x} on does not come to {stop:x}")
            i = self.code[at]
            if i.mnemonic == "BRA":
                self.trace.append((i, {}))
                at = self.jump(i)
                continue
            guard = self.guard(i)
            carried_out = not i.predicate or self.truth(guard)
            new = {} if carried_out is False else self.execute(i)
            if carried_out is None:
                new = {name: of_atom("if", guard, value, self.get(name)) for name, value in new.items()}
            self.registers |= new
            self.trace.append((i, new))
            at += WORD
        return self

    def truth(self, predicate: Sum) -> bool | None:
        """Whether a predicate is true; None if that is not known."""
        match predicate.atom:
            case ("true",) | ("false",) as atom:
                return atom[0] == "true"
            case ("not", inner):
                found = self.truth(inner)
                return None if found is None else not found
            case ("look", _):
                return None
        return self.assume if isinstance(self.assume, bool) else self.assume.get(predicate)

    def jump(self, i: Instruction) -> int:
        """Where it goes on. A jump after a look at an mbarrier that was a success ends a wait."""
        guard = self.guard(i)
        taken = self.truth(guard)
        if i.target is None or len(i.operands) != 1:
            raise SassError(f"{i.offset:x} {i.text}: it is not known when this jumps, and where to")
        if taken is None:
            atom, inverted = guard.atom, False
            if atom and atom[0] == "not":
                atom, inverted = atom[1].atom, True
            if not atom or atom[0] != "look":
                raise Undecided(i, guard)
            taken = self.outcome(atom[1]) != inverted
        return i.target if taken else i.offset + WORD

    def outcome(self, look: int) -> bool:
        """What a look found, on which something now depends."""
        over = self.looks[look] if look < len(self.looks) else True
        if over and look not in self._relied_on:
            self._relied_on.add(look)
            self.waits.append(self._seen[look])
            self.epoch += 1
        return over

    def execute(self, i: Instruction) -> dict[str, Sum]:
        """The new values of registers."""
        if i.mnemonic in ("NOP", "YIELD"):
            return {}
        if i.opcode == LOOK:
            self._seen.append((self.address(i.operands[1]), self.source(i.operands[2])))
            return {i.operands[0]: of_atom("look", len(self._seen) - 1)}
        if i.mnemonic == "LDS" and i.bytes and i.operands[0] != "RZ":
            address, base = self.address(i.operands[1]), int(i.operands[0].removeprefix("R"))
            words = range(max(1, i.bytes // 4))
            self.loads[address, self.epoch] = i
            return {f"R{base + n}": of_atom("lds", i.bytes, address, n, self.epoch) for n in words}
        if i.opcode == "FFMA":
            x, y, addend = map(self.source, i.operands[1:])
            return {i.operands[0]: of_atom("ffma", frozenset((x, y)), addend)}
        variable = i.mnemonic in VARIABLE and i.mnemonic not in CONSTANTS
        if not results(i) or variable or i.operands[-1].startswith(CHANGING):
            raise SassError(f"{i.offset:x} {i.text} should not be in a main loop")
        names = [text.split(".")[0] for text in i.operands[: results(i)]]
        values = dict(zip(names, evaluate(i, self.get), strict=True))
        # Of a result in several registers only the first has a name in the text.
        writes = effects(i).writes
        rest = {name: of_atom("part", name, *values.values()) for name in writes - values.keys()}
        return {name: value for name, value in (values | rest).items() if name in writes}


def by_offset(instructions: list[Instruction]) -> dict[int, Instruction]:
    return {i.offset: i for i in instructions}


@dataclass
class Stretch:
    """A loop as the comparison sees it: what comes before it once, and its body, in offsets.

    `back` is the jump back; `prologue` is where it is entered: `body` if nothing comes before.
    """

    instructions: list[Instruction]
    prologue: int
    body: int
    back: int

    @cached_property
    def live(self) -> Liveness:
        return liveness(self.instructions)


def differences(
    old: Stretch,
    new: Stretch,
    counts: frozenset[str],
    known: dict[str, Sum],
    looks: list[bool],
    assume: dict[Sum, bool] | None = None,
) -> list[str]:
    """Where two loops are not the same, by induction over the times round; empty if they are.

    counts: the registers that are wanted afterwards or the next time; those that `new` carries from its
    prologue into its body are found. known: what is known about registers before. looks, assume: see Machine.
    """
    assume = assume or {}
    was = Machine(by_offset(old.instructions), dict(known), list(looks), assume).run(old.body, old.back)
    code = by_offset(new.instructions)
    before = Machine(code, dict(known)).run(new.prologue, new.body)
    own = {name: value for name, value in before.registers.items() if known.get(name) != value}
    carried = own.keys() & new.live.before[new.body]
    now = Machine(code, dict(before.registers), list(looks), assume).run(new.body, new.back)
    # What the prologue would make of the state after: the next time round begins with the same.
    again = Machine(code, dict(was.registers)).run(new.prologue, new.body)
    wrong = []
    for name in sorted(counts):
        if was.get(name) != now.get(name):
            wrong.append(f"{name} is {brief(now.get(name))} and should be {brief(was.get(name))}")
    for name in sorted(carried):
        if now.get(name) != again.get(name):
            wrong.append(f"{name} is {brief(now.get(name))} for the next time, not {brief(again.get(name))}")
    if was.waits != now.waits:
        wrong.append(f"it waits for {[*map(brief_pair, now.waits)]}, not {[*map(brief_pair, was.waits)]}")
    conditions = [machine.guard(machine.code[at]) for machine, at in ((was, old.back), (now, new.back))]
    if conditions[0] != conditions[1]:
        wrong.append(f"it goes on if {brief(conditions[1])}, not if {brief(conditions[0])}")
    return wrong


def brief(value: Sum) -> str:
    return f"{value}"[:200]


def brief_pair(pair: tuple[Sum, Sum]) -> str:
    return f"[{brief(pair[0])}] parity {brief(pair[1])}"
