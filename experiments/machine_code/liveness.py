"""Which registers hold something that is still wanted, at each instruction of a kernel.

Errs on the safe side: a register that is live by this may in truth be free, never the other way round. For
that, a return goes back behind every call, and an instruction under a predicate ends a life only for uses
under the same one.
"""

from dataclasses import dataclass, field

from tools.machine_code.listing import Instruction
from tools.machine_code.loops import Block, basic_blocks

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


def step_back(live: Live, i: Instruction) -> Live:
    """What is live before an instruction, from what is live after it."""
    done, guard = effects(i), i.predicate if conditional(i) else ALWAYS
    assert guard
    new = dict(live)
    for register in done.writes & live.keys():
        new[register] = live[register] - {guard} if guard != ALWAYS else frozenset()
        if not new[register]:
            del new[register]
    if changed := {f"{mark}{name}" for name in done.writes if "P" in name for mark in ("@", "@!")}:
        # A predicate that gets its value here was another one before.
        for register, guards in new.items():
            if guards & changed:
                new[register] = guards - changed | {ALWAYS}
    for register in done.reads:
        own = ALWAYS if guard.lstrip("@!") == register else guard
        new[register] = new.get(register, frozenset()) | {own}
    return new


def liveness(instructions: list[Instruction]) -> Liveness:
    """Of all instructions of a kernel. Raises SassError for one that effects.py does not know."""
    blocks = flow(instructions)
    entry: list[Live] = [{} for _ in blocks]
    before: list[list[int]] = [[] for _ in blocks]  # the blocks that each can follow
    for k, block in enumerate(blocks):
        for n in block.next:
            before[n].append(k)
    result = Liveness()
    todo = set(range(len(blocks)))  # those of which something may have changed since they were looked at
    while todo:
        todo.remove(k := max(todo))
        live: Live = {}
        for n in blocks[k].next:
            for register, guards in entry[n].items():
                live[register] = live.get(register, frozenset()) | guards
        for i in reversed(blocks[k].instructions):
            result.after[i.offset] = frozenset(live)
            live = step_back(live, i)
            result.before[i.offset] = frozenset(live)
        if live != entry[k]:
            entry[k] = live
            todo.update(before[k])
    return result


def unchanged(blocks: list[Block], definition: Instruction, offset: int) -> bool:
    """Whether at this offset, whichever way one comes, a register holds what an instruction would write now.
    blocks: the kernel's flow().

    That is so if it was carried out, and since then nothing has changed its results or its sources.
    """
    done = effects(definition)
    if conditional(definition) or done.reads & done.writes:
        return False
    entry: list[bool | None] = [None] * len(blocks)  # None: not reached so far
    entry[0] = False
    todo = [0]
    found = True
    while todo:
        k = todo.pop()
        holds = entry[k]
        for i in blocks[k].instructions:
            if i.offset == offset and not holds:
                found = False
            if i.offset == definition.offset:
                holds = True
            elif effects(i).writes & (done.writes | done.reads):
                holds = False
        for n in blocks[k].next:
            if entry[n] is None or (entry[n] and not holds):
                entry[n] = bool(holds)
                todo.append(n)
    return found
