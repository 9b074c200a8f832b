"""Which registers hold something that is still wanted, at each instruction of a kernel.

Errs on the safe side: a register that is live by this may in truth be free, never the other way round. For
that, a return goes back behind every call, and an instruction under a predicate ends a life only for uses
under the same one.
"""

from dataclasses import dataclass, field

from tools.machine_code.control_flow import Block, basic_blocks
from tools.machine_code.listing import Instruction

from machine_code.effects import effects

Registers = frozenset[str]


def conditional(i: Instruction) -> bool:
    """Whether it may do nothing."""
    return i.predicate not in (None, "@PT", "@UPT")


def flow(instructions: list[Instruction]) -> list[Block]:
    """The blocks, and what can follow each: as basic_blocks has them, and behind calls for returns."""
    blocks = basic_blocks(instructions)
    after_calls = [k + 1 for k, block in enumerate(blocks[:-1]) if block.instructions[-1].mnemonic == "CALL"]
    for block in blocks:
        if block.instructions and block.instructions[-1].mnemonic == "RET":
            block.next = sorted({*block.next, *after_calls})
    return blocks


@dataclass
class Liveness:
    """before[offset] and after[offset]: what is live there."""

    before: dict[int, Registers] = field(default_factory=dict)
    after: dict[int, Registers] = field(default_factory=dict)


ALWAYS = "@PT"
Live = dict[str, frozenset[str]]  # by register, the predicates under which it is wanted: "@P1", "@!P1"


def step_back(live: Live, i: Instruction) -> None:
    """Makes what is live before an instruction of what is live after it."""
    done, guard = effects(i), i.predicate if conditional(i) else ALWAYS
    assert guard
    for register in done.writes:
        guards = live.pop(register, frozenset())
        if guard != ALWAYS and (kept := guards - {guard}):
            live[register] = kept
    if done.guards:
        # A predicate that gets its value here was another one before.
        for register, guards in live.items():
            if guards & done.guards:
                live[register] = guards - done.guards | {ALWAYS}
    wanted, predicate = frozenset([guard]), guard.lstrip("@!")
    for register in done.reads:
        own = wanted if predicate != register else frozenset([ALWAYS])
        live[register] = live[register] | own if register in live else own


def liveness(instructions: list[Instruction]) -> Liveness:
    """Of all instructions of a kernel. Raises SassError for one that effects.py does not know."""
    blocks = flow(instructions)
    entry: list[Live] = [{} for _ in blocks]
    before: list[list[int]] = [[] for _ in blocks]  # the blocks that each can follow
    for k, block in enumerate(blocks):
        for n in block.next:
            before[n].append(k)
    todo = set(range(len(blocks)))  # those of which something may have changed since they were looked at
    while todo:
        todo.remove(k := max(todo))
        live = live_after(blocks[k], entry)
        for i in reversed(blocks[k].instructions):
            step_back(live, i)
        if live != entry[k]:
            entry[k] = live
            todo.update(before[k])
    result = Liveness()
    for block in blocks:
        live = live_after(block, entry)
        names = frozenset(live)
        for i in reversed(block.instructions):
            result.after[i.offset] = names
            step_back(live, i)
            result.before[i.offset] = names = frozenset(live)
    return result


def live_after(block: Block, entry: list[Live]) -> Live:
    """What is live after a block, from what is live before each."""
    live: Live = {}
    for n in block.next:
        for register, guards in entry[n].items():
            live[register] = live.get(register, frozenset()) | guards
    return live


def unchanged(
    blocks: list[Block], definition: Instruction, offset: int, writers: dict[str, list[int]]
) -> bool:
    """Whether at this offset, whichever way one comes, a register holds what an instruction would write now.
    blocks: the kernel's flow(). writers: by register, where it is written.

    That is so if it was carried out, and since then nothing has changed its results or its sources.
    """
    done = effects(definition)
    if conditional(definition) or done.reads & done.writes:
        return False
    changes = {at for register in done.reads | done.writes for at in writers.get(register, [])}
    places = changes | {offset, definition.offset}
    events = [[i.offset for i in block.instructions if i.offset in places] for block in blocks]
    entry: list[bool | None] = [None] * len(blocks)  # None: not reached so far
    entry[0] = False
    todo = [0]
    while todo:
        k = todo.pop()
        holds = entry[k]
        for at in events[k]:
            if at == offset and not holds:
                return False
            if at == definition.offset:
                holds = True
            elif at in changes:
                holds = False
        for n in blocks[k].next:
            if entry[n] is None or (entry[n] and not holds):
                entry[n] = bool(holds)
                todo.append(n)
    return True
