"""The new loop: where each instruction stands, in which registers, which counters it raises and waits for.

sums        stay where the compiler put them; so nothing outside of the loop changes.
fragments   two sets of registers in turn: the first step's is the compiler's, the other one is new. While a
            step computes from one set, the loads for the next step fill the other.
FFMAs       in an order that suits the operand cache and the register banks (products.py).
loads       evenly in the first part of a step, so that they neither queue up nor are waited for.
counters    two for each set of fragments, one for the look at the mbarrier, and one for address registers
            that must have been read before they change.
the rest    ("glue") in the gaps behind the loads, in the compiler's order, far from what it depends on.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tools.machine_code.listing import Instruction, parse_instruction

from machine_code.bits import WORD
from machine_code.control import BARRIERS, NO_BARRIER, Control
from machine_code.dataflow import Carried, Dataflow, Node, dataflow, split_address
from machine_code.effects import VARIABLE, effects, results
from machine_code.meaning import LOOK
from machine_code.plan import Line, NewLoop, Plan
from machine_code.pool import Pool, register_file, rename
from machine_code.products import SET_COUNTERS, Products
from machine_code.recognise import QUAD, Load, MainLoop, Unknown

LOOK_COUNTER, READ_COUNTER = 4, 5
ALL_COUNTERS = sum(1 << n for n in BARRIERS)
# Cycles until a result may be used: more than ptxas leaves, and the same for all that writes it.
NEAR, FAR = 6, 13
JUMP_STALL = 5  # as ptxas has it
YIELD = 4  # a stall from which on another warp should have its turn

Sources = dict[str, Node | str]  # by register, who wrote it


class NoRoom(Unknown):
    """The new loop is longer than the old one."""


def new_loop(loop: MainLoop, registers: int, plan: Plan) -> NewLoop:
    """registers: that a thread has so far. Raises Unknown if the loop cannot be written by this plan."""
    reason = None
    for carry in [(0, 1), (1,), (0,), ()] if plan.carry else [()]:
        flow, pool = dataflow(loop, carry), Pool(loop, registers)
        try:
            return Builder(loop, plan, flow, pool, Products(loop, plan)).build()
        except NoRoom as error:  # what is carried over takes a longer prologue
            reason = reason or error
    raise reason or Unknown("it has no plan")


@dataclass
class Builder:
    """Places are counted in FFMAs of a round; a gap is what comes behind the FFMA with its number."""

    loop: MainLoop
    plan: Plan
    flow: Dataflow
    pool: Pool
    products: Products
    names: dict[int, str] = field(default_factory=dict)  # the register of each node's result, by offset
    gaps: dict[int, Line] = field(default_factory=dict)  # what stands in them
    placed: dict[int, int] = field(default_factory=dict)  # the gap of each instruction of glue, by offset
    look_name: str = ""  # the predicate that says whether the phase of the mbarrier is over

    def build(self) -> NewLoop:
        self.assign()
        self.products.choose_inner()
        self.place_glue()
        self.place_loads()
        prologue, body = self.prologue(), self.body()
        room = (self.loop.end - self.loop.start) // WORD
        spare = room - len(prologue) - len(body)
        if spare < 0:
            raise NoRoom(f"the new loop has {-spare} instructions more than there is room for")
        filler = [Line("NOP", Control(), "room left over") for _ in range(spare)]
        lines = dict(zip(range(self.loop.start, self.loop.end, WORD), filler + prologue + body, strict=True))
        places = {line.label: at for at, line in lines.items() if line.label}
        lines |= self.aside()
        done = {
            at: (line.instruction(at, places), line.control, line.why) for at, line in sorted(lines.items())
        }
        entry = self.loop.start + spare * WORD
        looks = [i for i, _, _ in done.values() if i.opcode == LOOK]
        return NewLoop(self.loop, done, entry, places["body"], self.pool.needed, looks)

    @property
    def last_step(self) -> int:
        """Where the last step begins."""
        return (self.loop.steps - 1) * self.products.step

    # ---- Registers -----------------------------------------------------------------------------------------

    def assign(self) -> None:
        """Gives a register to each element of the second set and to each result."""
        for load in self.loop.loads[1]:
            self.products.second[load.side, load.elements] = self.pool.quad()
        homes = {
            of.instruction.offset: register
            for register, of in self.flow.last.items()
            if register in self.loop.counts and isinstance(of, Node)
        }
        for node in (*self.flow.invariant, *self.flow.needed):
            offset = node.instruction.offset
            if offset in homes and any(c.node is node for c in self.flow.carried.values()):
                raise Unknown(f"{homes[offset]} is an address, and wanted after the loop, too")
            self.names[offset] = homes.get(offset) or self.pool.one(register_file(node.result))
        if self.loop.wait:
            skip = self.flow.skip
            self.look_name = self.name(skip) if skip else self.pool.one("P")
            self.names[self.loop.wait.look.offset] = self.look_name

    def name(self, of: Node | str) -> str:
        return self.names[of.instruction.offset] if isinstance(of, Node) else of

    def text(self, node: Node, names: dict[int, str]) -> str:
        """A node's instruction with the registers that its operands have, by offset of who writes them."""
        i, count = node.instruction, results(node.instruction)
        sources = {
            register: names[of.instruction.offset] if isinstance(of, Node) else of
            for register, of in node.sources.items()
        }
        result = {node.result: names[i.offset]}
        operands = [rename(text, result if n < count else sources) for n, text in enumerate(i.operands)]
        predicate = f"{rename(i.predicate, sources)} " if i.predicate else ""
        return f"{predicate}{i.opcode} {', '.join(operands)}"

    def look_text(self, guard: str = "") -> str:
        assert self.loop.wait
        look = self.loop.wait.look
        names = {register: self.name(of) for register, of in self.flow.users[look.offset].items()}
        operands = [rename(text, names) for text in look.operands[1:]]
        return f"{guard}{look.opcode} {', '.join([self.look_name, *operands])}"

    # ---- Glue ----------------------------------------------------------------------------------------------

    def ready(self, i: Instruction, sources: Sources) -> int:
        """The first gap at which an instruction can read all of these."""
        return max(
            [
                self.placed[of.instruction.offset] + latency(of.instruction, self.name(of), i)
                for of in sources.values()
                if isinstance(of, Node) and of.instruction.offset in self.placed
            ],
            default=0,
        )

    def place_glue(self) -> None:
        """In the compiler's order, each as early as it can be."""
        items = {node.instruction.offset: node for node in self.flow.needed}
        order: dict[int, float] = {i.offset: n for n, i in enumerate(self.loop.path)}
        readers: dict[str, int] = {}  # of a register as the round began: the last gap where it is read
        urgent = self.urgent()
        looks = []
        if self.loop.wait:
            looks = [self.loop.wait.look.offset]
            if self.flow.skip:  # whether the round waits is known before the look now
                order[looks[0]] = max(order[looks[0]], order[self.flow.skip.instruction.offset] + 0.5)
        for offset in sorted([*items, *looks], key=lambda offset: order[offset]):
            node, i = items.get(offset), self.loop.code[offset]
            sources = node.sources if node else self.flow.users[offset]
            if node is None and self.flow.skip:
                sources = sources | {"skip": self.flow.skip}
            start = max(self.ready(i, sources), self.not_before(node, readers))
            gap = next(self.early_gaps(start) if offset in urgent else self.free_gaps(start), None)
            if gap is None or gap > self.not_after(node):
                raise Unknown(f"there is no room for {i.offset:x} {i.text}")
            self.gaps[gap] = self.glue_line(node, sources)
            self.placed[offset] = gap
            for of in sources.values():
                if isinstance(of, str):
                    readers[of] = max(gap, readers.get(of, gap))

    def not_before(self, node: Node | None, readers: dict[str, int]) -> int:
        """The first gap that an instruction may have, apart from when its operands are ready."""
        if node is None:
            return (self.loop.steps - self.plan.look) * self.products.step
        start = readers.get(self.name(node), -1) + 1
        if self.is_address(node):  # the last loads that want the old one stand in the step before the last
            start = max(start, self.last_step - self.products.step + self.plan.address)
        return start

    def not_after(self, node: Node | None) -> int:
        """The last gap, so that what follows need not wait: the loads of the last step, or a jump."""
        if node is None:
            return self.last_step - NEAR
        if self.is_address(node):
            return self.last_step + self.plan.first - NEAR
        return self.last_step + self.products.step - FAR

    def is_address(self, node: Node) -> bool:
        """Whether its register holds the address of loads until it is written."""
        if any(carried.node is node for carried in self.flow.carried.values()):
            return True
        return self.name(node) in {
            of
            for step in range(1, self.loop.steps)
            for load in self.loop.loads[step]
            if load.side not in self.flow.carried
            for of in self.flow.users[load.instruction.offset].values()
        }

    def free_gaps(self, start: int) -> Iterator[int]:
        """The gaps for glue from `start` on."""
        for step in range(self.loop.steps):
            for n in range(self.plan.glue, self.products.step - 1, self.plan.glue_spacing):
                gap = step * self.products.step + n
                if gap >= start and gap not in self.gaps:
                    yield gap

    def early_gaps(self, start: int) -> Iterator[int]:
        """For what the first loads of a round need: any gap of the first step."""
        yield from (gap for gap in range(start, self.products.step) if gap not in self.gaps)

    def urgent(self) -> set[int]:
        """The nodes on which the addresses of the first loads depend, where these are not carried over."""
        found: set[int] = set()
        for load in self.loop.loads[1]:
            if load.side not in self.flow.carried:
                for of in self.flow.users[load.instruction.offset].values():
                    if isinstance(of, Node):
                        found |= {node.instruction.offset for node in of.cone()}
        return found

    def glue_line(self, node: Node | None, sources: Sources) -> Line:
        slow = any(isinstance(of, Node) and of.instruction.mnemonic in VARIABLE for of in sources.values())
        wait = 1 << READ_COUNTER if slow or (node and self.is_address(node)) else 0
        if node is None:
            guard = f"@!{self.look_name} " if self.flow.skip else ""
            control = Control(write_barrier=LOOK_COUNTER, wait=wait)
            return Line(self.look_text(guard), control, "look at the mbarrier")
        counter = READ_COUNTER if node.instruction.mnemonic in VARIABLE else NO_BARRIER
        why = "as the compiler has it"
        if node is self.flow.skip:
            why = "whether the round need not wait"
        elif self.is_address(node):
            why = "the address for the next round"
        return Line(self.text(node, self.names), Control(write_barrier=counter, wait=wait), why)

    # ---- Loads ---------------------------------------------------------------------------------------------

    def place_loads(self) -> None:
        for step in range(1, self.loop.steps + 1):
            begin = (step - 1) * self.products.step
            # Before an address register changes, and before the loop is left, these must have read theirs.
            read = READ_COUNTER if step >= self.loop.steps - 1 else NO_BARRIER
            inner = self.products.inner
            loads = sorted(self.loop.loads[step], key=lambda load: (load.side != inner, load.elements))
            for n, load in enumerate(loads):
                gap = begin + self.plan.first + n * self.plan.spacing
                if load.side not in self.flow.carried:
                    i = load.instruction
                    gap = max(gap, self.ready(i, self.flow.users[i.offset]))
                while gap in self.gaps:
                    gap += 1
                if gap >= begin + self.products.step:
                    raise Unknown("its loads do not fit into a step")
                control = Control(write_barrier=self.products.counter(load, step), read_barrier=read)
                what = f"step {step}" if step < self.loop.steps else "the next round's first step"
                elements = f"{('rows', 'columns')[load.side]} {load.elements[0]} to {load.elements[-1]}"
                self.gaps[gap] = Line(self.load_text(load, step), control, f"for {what}: {elements}")

    def load_text(self, load: Load, step: int) -> str:
        base = self.products.fragment(load.side, load.elements[0], step)
        if carried := self.flow.carried.get(load.side):
            names = [self.name(carried.node), *carried.others]
            offset = carried.offsets[load.instruction.offset]
        else:
            sources = self.flow.users[load.instruction.offset]
            registers, offset = split_address(load.instruction.operands[1])
            names = [self.name(sources[name]) for name in registers]
        names.sort(key=lambda name: name.startswith("U"))
        number = f"+{offset:#x}" if offset else ""
        return f"LDS.128 R{base}, [{'+'.join(names)}{number}]"

    # ---- The whole -----------------------------------------------------------------------------------------

    def prologue(self) -> list[Line]:
        """What is done once when the loop is entered, after all loads that were started have come."""
        names = {node.instruction.offset: self.name(node) for node in self.flow.invariant}
        todo = {node.instruction.offset: node for node in self.flow.invariant}
        copies: list[Carried] = []
        for carried in self.flow.carried.values():
            todo |= {node.instruction.offset: node for node in carried.before.cone()}
            at = carried.before.instruction.offset
            if carried.plus == 0 and at not in names:
                names[at] = self.name(carried.node)
            else:
                copies.append(carried)
        # For what is wanted only here there are the registers of the second set, which still are empty.
        scratch = iter([f"R{base + n}" for base in self.products.second.values() for n in range(QUAD)])
        lines: list[Line] = []
        for at, node in sorted(todo.items()):
            if at not in names:
                kind = register_file(node.result)
                names[at] = next(scratch) if kind == "R" else self.pool.one(kind)
            what = "what never changes" if node in self.flow.invariant else "the first addresses"
            lines.append(once(self.text(node, names), what))
        for carried in copies:
            source, to = names[carried.before.instruction.offset], self.name(carried.node)
            add, zero = ("UIADD3", "URZ") if register_file(to) == "UR" else ("IADD3", "RZ")
            lines.append(once(f"{add} {to}, {source}, {carried.plus:#x}, {zero}", "the first addresses"))
        slow = [n for n, line in enumerate(lines) if line.control.write_barrier == READ_COUNTER]
        if not lines or slow:
            lines.append(Line("NOP", Control(), "the loop may begin"))
        for n, line in enumerate(lines):
            wait = ALL_COUNTERS if n == 0 else 1 << READ_COUNTER if slow and n > slow[0] else 0
            line.control = replace(line.control, wait=wait)
        space(lines, 0 if self.urgent() else self.plan.first + 1)
        return lines

    def body(self) -> list[Line]:
        """A round, up to the jump back."""
        lines: list[Line] = []
        products = [line for step in range(self.loop.steps) for line in self.products.lines(step)]
        for n, product in enumerate(products):
            if n == self.last_step:
                lines += self.wait_jump()
                product.label = "go_on"
            lines.append(product)
            if n in self.gaps:
                lines.append(self.gaps[n])
        back = self.loop.code[self.loop.back]
        stall = Control.of(self.loop.words[self.loop.back // WORD]).stall
        fragments = sum(1 << counter for counter in SET_COUNTERS[0]) if self.plan.settle else 0
        control = Control(stall, wait=1 << READ_COUNTER | fragments)
        names = {register: self.name(of) for register, of in self.flow.users[back.offset].items()}
        predicate = rename(back.predicate or "", names)
        lines.append(Line(f"{predicate} BRA {{body}}", control, "the next round"))
        lines[0].label = "body"
        return lines

    def wait_jump(self) -> list[Line]:
        """The jump aside if the look was in vain; before the first load from what is waited for."""
        wait = self.loop.wait
        if wait is None:
            return []
        control = Control(JUMP_STALL, wait=1 << LOOK_COUNTER)
        text = f"@!{self.look_name} BRA {wait.aside[1].target:#x}"
        return [Line(text, control, "not there yet: look again, aside")]

    def aside(self) -> dict[int, Line]:
        """By offset, the code outside of the loop that looks at the mbarrier until its phase is over."""
        wait = self.loop.wait
        if wait is None:
            return {}
        look, again, back = wait.aside
        waiting = Control(JUMP_STALL, wait=1 << LOOK_COUNTER)
        return {
            look.offset: Line(self.look_text(), Control(2, write_barrier=LOOK_COUNTER), "look again"),
            again.offset: Line(f"@!{self.look_name} BRA {again.target:#x}", waiting, "until it is there"),
            back.offset: Line("BRA {go_on}", Control(JUMP_STALL), "back into the loop"),
        }


def latency(producer: Instruction, register: str, consumer: Instruction) -> int:
    """The cycles after which an instruction may read what another one wrote."""
    uniform = register.startswith("UR") and consumer.mnemonic.startswith("U") and producer.mnemonic != "R2UR"
    return NEAR if uniform or register_file(register) == "R" else FAR


def once(text: str, why: str) -> Line:
    """A line of the prologue."""
    counter = READ_COUNTER if parse_instruction(text).mnemonic in VARIABLE else NO_BARRIER
    return Line(text, Control(write_barrier=counter), f"once: {why}")


def space(lines: list[Line], after: int) -> None:
    """Sets the stalls of lines that follow one another, so that each finds what it reads.

    So does what comes `after` cycles behind the last.
    """
    written: dict[str, tuple[int, Instruction]] = {}  # by register: in which cycle, and by what
    starts: list[int] = []
    for line in lines:
        i = parse_instruction(line.text)
        least = starts[-1] + 1 if starts else 0
        if starts and line.control.wait:  # the counter must have gone up
            least += 1
        read = [(name, *written[name]) for name in effects(i).reads & written.keys()]
        starts.append(max([least, *(cycle + latency(by, name, i) for name, cycle, by in read)]))
        written |= dict.fromkeys(effects(i).writes, (starts[-1], i))
    slow = [cycle + (FAR if "U" in name else NEAR) for name, (cycle, _) in written.items()]
    end = max([starts[-1] + 1, *(cycle - after for cycle in slow)])
    for line, start, following in zip(lines, starts, [*starts[1:], end], strict=True):
        stall = following - start
        line.control = replace(line.control, stall=stall, stay=int(stall < YIELD))
