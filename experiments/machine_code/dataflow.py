"""The instructions of a loop between FFMAs and loads, as a graph, and what of it the new loop needs.

The compiler computes the addresses of a time round at its beginning, and those of the first step of the next
time once more before its end. If both can be proved to be the same, the new loop carries them over: it
computes only the next ones, into the registers of those that are no longer wanted. What the present ones
would have taken is then done once, before the loop.
"""

from dataclasses import dataclass, field, replace

from tools.machine_code.listing import Instruction

from machine_code.effects import effects, results
from machine_code.expressions import OPPOSITE, Sum, evaluate, initial, minus, number, of_atom
from machine_code.liveness import conditional
from machine_code.meaning import Machine
from machine_code.recognise import Load, MainLoop, Unknown


@dataclass(eq=False)
class Node:
    """An instruction that computes, on the usual way through the loop."""

    instruction: Instruction
    # By register who wrote it; or the register, if it is as it was when the round began.
    sources: dict[str, "Node | str"]
    values: dict[str, Sum]  # of what it writes

    @property
    def result(self) -> str:
        return self.instruction.operands[0]

    @property
    def value(self) -> Sum:
        return self.values[self.result]

    @property
    def key(self) -> tuple[str, Sum]:
        """Nodes with the same key compute the same: kind of register and value."""
        return self.result.rstrip("0123456789"), self.value

    def cone(self) -> list["Node"]:
        """It and all that it depends on, in the order of the code."""
        found: dict[int, Node] = {}
        todo = [self]
        while todo:
            node = todo.pop()
            if node.instruction.offset not in found:
                found[node.instruction.offset] = node
                todo += [source for source in node.sources.values() if isinstance(source, Node)]
        return [found[at] for at in sorted(found)]


@dataclass
class Carried:
    """One side's address register, which lives from one time round to the next.

    node: computes it for the next round. before: computes what it is at first, but for `plus`. offsets: of
    the loads that use it, by their place; those of the next round's first step are among them.
    """

    node: Node
    before: Node
    plus: int
    others: list[str]  # the other registers of the address, which do not change
    offsets: dict[int, int]


@dataclass
class Dataflow:
    nodes: list[Node]
    users: dict[int, dict[str, Node | str]]  # of loads, looks and jumps, by offset: who wrote what they read
    last: dict[str, Node | Instruction]  # who wrote a register last
    invariant: list[Node] = field(default_factory=list)  # always the same: computed before the loop
    needed: list[Node] = field(default_factory=list)  # computed in the loop
    carried: dict[int, Carried] = field(default_factory=dict)  # by side
    skip: Node | None = None  # computes whether a round need not wait


def dataflow(loop: MainLoop, carry: tuple[int, ...] = (0, 1)) -> Dataflow:
    """carry: the sides whose addresses may be carried over. Raises Unknown for what a new loop cannot do."""
    flow = read_graph(loop)
    drop_idle_masks(flow)
    share(loop, flow)
    for side in carry:
        if found := carried_address(loop, flow, side):
            flow.carried[side] = found
    if loop.wait and loop.wait.skip:
        flow.skip = skip_node(loop.wait.skip, flow)
    choose(loop, flow)
    return flow


def read_graph(loop: MainLoop) -> Dataflow:
    flow = Dataflow([], {}, {})
    glue = {i.offset for i in loop.glue}
    for i, values in [*loop.machine().trace, (loop.code[loop.back], {})]:
        done = effects(i)
        sources: dict[str, Node | str] = {}
        for register in done.reads:
            writer = flow.last.get(register)
            if i.mnemonic not in ("FFMA", "BRA") and isinstance(writer, Instruction):
                raise Unknown(f"{i.offset:x} {i.text} reads a sum or a fragment")
            sources[register] = writer if isinstance(writer, Node) else register
        node: Node | Instruction = i
        if i.offset in glue:
            node = Node(i, sources, values)
            if len(done.writes) > 1:
                raise Unknown(f"{i.offset:x} {i.text} writes two registers, which is not provided for")
            flow.nodes.append(node)
        elif i.mnemonic != "FFMA":
            flow.users[i.offset] = sources
        flow.last |= dict.fromkeys(done.writes, node)
    return flow


# ---- Addresses -------------------------------------------------------------------------------------------


def split_address(text: str) -> tuple[list[str], int]:
    """The registers and the offset of "[R1+UR2+0x10]"."""
    parts = text.strip("[]").replace("+-", "+ -").split("+")
    names = [part for part in parts if part.strip()[0] in "RU"]
    offsets = [int(part.replace(" ", ""), 16) for part in parts if part.strip()[0] not in "RU"]
    return names, sum(offsets)


def moving_part(loop: MainLoop, flow: Dataflow, load: Load) -> tuple[Node, list[str]] | None:
    """Of an address, the one register that the loop computes, by its node; and those that do not change."""
    names, _ = split_address(load.instruction.operands[1])
    sources = flow.users[load.instruction.offset]
    nodes = [node for name in names if isinstance(node := sources.get(name), Node)]
    others = [name for name in names if not isinstance(sources.get(name), Node)]
    if len(nodes) != 1 or set(others) & loop.written:
        return None
    return nodes[0], others


def carried_address(loop: MainLoop, flow: Dataflow, side: int) -> Carried | None:
    """If all loads of a side can use one register that is carried over; None if that cannot be shown."""
    now = [load for step in range(1, loop.steps) for load in loop.loads[step] if load.side == side]
    following = [load for load in loop.loads[loop.steps] if load.side == side]
    parts = [moving_part(loop, flow, load) for load in following]
    present = moving_part(loop, flow, now[0])
    if present is None or None in parts or len({(part[0], *part[1]) for part in parts if part}) != 1:
        return None
    node, others = parts[0]
    first_text = following[0].instruction.operands[1]
    # A round later: where this round's loads then read, against what this round computed for the next.
    after = loop.machine()
    assume = next(iter(loop.waits_if.values()), False)
    later = Machine(loop.code, dict(after.registers), [], assume).run(loop.start, loop.back)
    addresses = {i.offset: address for (address, _), i in later.loads.items()}
    offsets = {load.instruction.offset: split_address(load.instruction.operands[1])[1] for load in following}
    base = split_address(first_text)[1]
    for load in now:
        distance = minus(addresses[load.instruction.offset], following[0].address).number
        if distance is None:
            return None
        offsets[load.instruction.offset] = signed(distance + base)
    fixed = [loop.machine().get(name) for name in others]
    wanted = minus(now[0].address, number(offsets[now[0].instruction.offset]))
    for value in fixed:
        wanted = minus(wanted, value)
    before = present[0]
    plus = minus(wanted, before.value).number
    same_kind = before.result.startswith("UR") == node.result.startswith("UR")
    if plus is None or not same_kind or any(not fits(offset) for offset in offsets.values()):
        return None
    return Carried(node, before, signed(plus), others, offsets)


def signed(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def fits(offset: int) -> bool:
    return -(1 << 23) <= offset < 1 << 23


# ---- What the new loop computes --------------------------------------------------------------------------


def roots(loop: MainLoop, flow: Dataflow) -> list[Node]:
    """What must be computed in any case: for after the loop, for the loads, the wait and the jump back."""
    found: list[Node | str | Instruction] = []
    kept = {f"R{n}" for n in (*loop.sums.values(), *loop.first[0].values(), *loop.first[1].values())}
    for register in sorted(loop.counts & flow.last.keys() - kept):
        writer = flow.last[register]
        if not isinstance(writer, Node):
            raise Unknown(
                f"{register} is wanted after the loop, and {writer.offset:x} {writer.text} wrote it last"
            )
        found.append(writer)
    for loads in loop.loads.values():
        for load in loads:
            if load.side not in flow.carried:
                found += flow.users[load.instruction.offset].values()
    found += [carried.node for carried in flow.carried.values()]
    if loop.wait:
        found += flow.users[loop.wait.look.offset].values()
        found += [flow.skip] if flow.skip else []
    found += flow.users[loop.back].values() if loop.back in flow.users else []
    return [node for node in found if isinstance(node, Node)]


def drop_idle_masks(flow: Dataflow) -> None:
    """Leaves out a mask (a & b) where what follows is the same without it, as a shift loses these bits."""
    for node in flow.nodes:
        for register, mask in node.sources.items():
            if isinstance(mask, Node) and mask.instruction.opcode in ("LOP3.LUT", "ULOP3.LUT"):
                (source, *more) = mask.sources.items()
                before = source[1].value if isinstance(source[1], Node) else initial(source[1])
                values = {
                    name: of.value if isinstance(of, Node) else initial(of)
                    for name, of in node.sources.items()
                }
                same = evaluate(node.instruction, (values | {register: before}).get)
                if not more and same == [node.values[node.result]]:
                    node.sources[register] = source[1]


def share(loop: MainLoop, flow: Dataflow) -> None:
    """What is computed twice is computed once; in the register in which it is wanted afterwards, if it is."""
    first: dict[tuple[str, Sum], Node] = {}
    homes: set[int] = set()
    for node in flow.nodes:
        node.sources = {name: shared(of, first) for name, of in node.sources.items()}
        wanted = node.result in loop.counts and flow.last[node.result] is node
        known = first.setdefault(node.key, node)
        if known is not node and wanted:
            if known.instruction.offset in homes or conditional(node.instruction):
                continue  # wanted in two registers: computed in both
            flow.last[node.result] = known
        if wanted:
            homes.add(known.instruction.offset)
    for at, sources in flow.users.items():
        flow.users[at] = {name: shared(of, first) for name, of in sources.items()}


def shared(of: Node | str, first: dict[tuple[str, Sum], Node]) -> Node | str:
    return first.get(of.key, of) if isinstance(of, Node) else of


def skip_node(jump: Instruction, flow: Dataflow) -> Node:
    """A predicate of its own for the look at the mbarrier: true if the round need not wait."""
    (of,) = flow.users[jump.offset].values()
    if not isinstance(of, Node):
        raise Unknown(f"{jump.offset:x} {jump.text} depends on what is computed before the loop")
    i, values = of.instruction, of.values
    if (jump.predicate or "").startswith("@!"):  # the opposite, then
        swap = OPPOSITE | {b: a for a, b in OPPOSITE.items()}
        name, comparison, *rest = i.opcode.split(".")
        if name != "ISETP" or comparison not in swap or i.operands[-1] != "PT":
            raise Unknown(
                f"{jump.offset:x} {jump.text} depends on {i.text}, whose opposite is not known here"
            )
        i = replace(i, opcode=".".join([name, swap[comparison], *rest]))
        values = {of.result: of_atom("not", of.value)}
    return Node(replace(i, offset=jump.offset), of.sources, values)


def choose(loop: MainLoop, flow: Dataflow) -> None:
    """Sorts what is needed into what never changes and what is computed in every round."""
    needed = {node.instruction.offset: node for root in roots(loop, flow) for node in root.cone()}
    invariant: set[int] = set()
    used = [*(node.sources for node in needed.values()), *flow.users.values()]
    begin = {of for sources in used for of in sources.values() if isinstance(of, str)}
    for at in sorted(needed):
        node = needed[at]
        fixed = all(
            (source.instruction.offset in invariant)
            if isinstance(source, Node)
            else source not in loop.written
            for source in node.sources.values()
        )
        predicate = not node.result.lstrip("U").startswith("R") or results(node.instruction) > 1
        # It may stand before the loop unless somebody wants what its register held when the loop began.
        if fixed and not predicate and not begin & node.values.keys():
            invariant.add(at)
    flow.invariant = [needed[at] for at in sorted(invariant)]
    flow.needed = [needed[at] for at in sorted(needed.keys() - invariant)]
