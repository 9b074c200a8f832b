"""Which instructions of a kernel follow which: its basic blocks, and the ways between them."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from tools.machine_code.listing import Instruction


@dataclass
class Block:
    """Instructions that are executed one after the other."""

    instructions: list[Instruction]
    next: list[int] = field(default_factory=list)  # numbers of the blocks that can follow


def basic_blocks(instructions: list[Instruction]) -> list[Block]:
    by_offset: dict[int | None, int] = {i.offset: n for n, i in enumerate(instructions)}
    jumps: dict[int, list[int | None]] = {}  # number of an instruction that ends a block -> what can follow
    meeting_points: dict[str, int | None] = {}  # BSSY B0, X ... BSYNC B0 goes on at X
    for n, i in enumerate(instructions):
        target = by_offset.get(i.target)
        falls_through = i.predicate not in (None, "@PT", "@UPT")
        match i.mnemonic:
            case "BSSY":
                meeting_points[i.operands[0]] = target
            case "BRA" | "JMP":  # a second operand is a predicate
                jumps[n] = [n + 1, target] if falls_through or len(i.operands) > 1 else [target]
            case "CALL" if target is not None:  # also a jump: what it calls is in the kernel
                jumps[n] = [n + 1, target]
            case "BSYNC" if i.operands and meeting_points.get(i.operands[0]) is not None:
                jumps[n] = [*[n + 1] * falls_through, meeting_points[i.operands[0]]]
            case "EXIT" | "RET" | "BRX" | "KILL":
                jumps[n] = [*[n + 1] * falls_through]
    starts = {
        0,
        *(n + 1 for n in jumps),
        *(n for targets in jumps.values() for n in targets if n is not None),
    }
    bounds = [*sorted(n for n in starts if n < len(instructions)), len(instructions)]
    number = {start: k for k, start in enumerate(bounds[:-1])}
    blocks = []
    for start, end in pairwise(bounds):
        follow = jumps.get(end - 1, [end])
        blocks.append(Block(instructions[start:end], sorted({number[n] for n in follow if n in number})))
    return blocks


def reach(starts: Iterable[int], edges: list[list[int]], without: int | None = None) -> set[int]:
    """The blocks that ways from `starts` lead to, no way passing `without`."""
    found: set[int] = set()
    todo = list(starts)
    while todo:
        if (k := todo.pop()) not in found and k != without:
            found.add(k)
            todo += edges[k]
    return found


def targets_of_ways_back(edges: list[list[int]]) -> set[int]:
    """Where, depth first, an edge leads to a block on the way to its own: among them all headers of loops."""
    found: set[int] = set()
    on_the_way, seen = {0}, {0}
    todo = [(0, iter(edges[0]))] if edges else []
    while todo:
        k, rest = todo[-1]
        if (n := next(rest, None)) is None:
            on_the_way.remove(k)
            todo.pop()
        elif n in on_the_way:
            found.add(n)
        elif n not in seen:
            seen.add(n)
            on_the_way.add(n)
            todo.append((n, iter(edges[n])))
    return found
