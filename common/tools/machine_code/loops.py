"""Finds the main loop of a kernel and says what fills its issue slots.

A kernel multiplies on tensor cores (HGMMA of a warpgroup, HMMA of a warp), or else with FFMAs: PRODUCTS.
Where a loop has both, the tensor cores multiply, and the FFMAs do something else, such as rounding.

What an FFMA reads stands in register_reads.py. Of these reads no more than QUEUE stand at a bank at a time:
of the models in experiments/register_banks this one, "bank 2", is the nearest to what FFMAs took on an H200.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

from tools.base import EVIDENCE, read_json
from tools.machine_code.control_flow import Block, basic_blocks, reach, targets_of_ways_back
from tools.machine_code.listing import Instruction, NotMeasured, SassError, count, matches
from tools.machine_code.register_reads import REGISTER, RegisterReads, read_by, register_reads

TENSOR_CORES = ("HGMMA", "HMMA")
PRODUCTS = (*TENSOR_CORES, "FFMA")  # what multiplies: of those in a loop the first
QUEUE = 2  # reads that may stand at a bank of registers: the one that is being done and one that waits

MMA_RECORD = EVIDENCE / "tensor_core_arithmetic.json"
MEASURED = {"HMMA.1688.F32.TF32": "tf32", "HMMA.16816.F32.BF16": "bf16"}  # the types' names there


@dataclass
class Loop:
    """A loop. `instructions` are those of the usual way through it, in the order of execution.

    Where the way forks, the usual one has the most products (on tensor cores before FFMAs), of those it moves
    the most bytes, and of those it is the shortest: the tiles inside the matrix, not those at its edge. The
    rest is in `aside`.
    """

    arch: str
    instructions: list[Instruction]
    aside: list[Instruction]  # in the loop, but executed rarely
    offsets: frozenset[int]  # of all its instructions
    outer: "Loop | None" = None  # the next loop around it

    def count(self, pattern: str) -> int:
        """Instructions that match, e.g. "LDS", "LDS.128", "LDG.E.128"; see listing.matches."""
        if pattern not in self._counts:
            self._counts[pattern] = count(self.instructions, pattern)
        return self._counts[pattern]

    @cached_property
    def _counts(self) -> dict[str, int]:
        return {}

    @cached_property
    def products(self) -> str:
        """The name of the instructions that multiply, one of PRODUCTS; empty if there are none."""
        return next((name for name in PRODUCTS if self.count(name)), "")

    @property
    def on_tensor_cores(self) -> bool:
        return self.products in TENSOR_CORES

    @property
    def ffma(self) -> int:
        return self.count("FFMA")

    @property
    def hmma(self) -> int:
        return self.count("HMMA")

    @property
    def hgmma(self) -> int:
        return self.count("HGMMA")

    def share(self, pattern: str) -> float:
        """Of the issue slots, the part that these instructions take."""
        return self.count(pattern) / len(self.instructions)

    def per_ffma(self, pattern: str) -> float:
        return self.count(pattern) / self.ffma

    def per_hmma(self, pattern: str) -> float:
        return self.count(pattern) / self.hmma

    @property
    def instructions_per_hmma(self) -> float:
        """Issue slots of a scheduler for an HMMA, its own among them."""
        return len(self.instructions) / self.hmma

    def _only_ffma(self) -> None:
        if self.on_tensor_cores:
            raise SassError(f"the model of register banks is of loops of FFMAs, not {self.products}s")

    @property
    def mix(self) -> dict[str, int]:
        """How many of each opcode, the most frequent first: memory instructions by width."""
        named = (i.opcode if i.bytes else i.mnemonic for i in self.instructions if not i.never)
        return dict(Counter(named).most_common())

    def leads(self, pattern: str) -> list[int]:
        """How many instructions before its first use each of these loads stands: 1 if just before it. The
        loop is taken to go round: what is used after the jump back counts. Loads that nothing uses do not."""
        way = self.instructions
        leads = []
        for n, load in enumerate(way):
            if not matches(load, pattern) or not (to := REGISTER.fullmatch(load.operands[0])):
                continue
            loaded = {int(to[1]) + word for word in range(max(1, (load.bytes or 4) // 4))}
            for distance in range(1, len(way)):
                if loaded & read_by(way[(n + distance) % len(way)]):
                    leads.append(distance)
                    break
        return leads

    def lead(self, pattern: str) -> float:
        """The average of leads(). It hides the few that stand just before their use."""
        if not (leads := self.leads(pattern)):
            raise SassError(f"the loop uses nothing that {pattern} loads")
        return sum(leads) / len(leads)

    def gaps(self, pattern: str) -> list[int]:
        """How many other instructions stand between each of these and the next one, in the order of
        execution. The loop is taken to go round: the last gap ends at the first of them."""
        way = self.instructions
        at = [n for n, instruction in enumerate(way) if matches(instruction, pattern)]
        return [after - n - 1 for n, after in pairwise([*at, *(n + len(way) for n in at[:1])])]

    @cached_property
    def registers_read(self) -> RegisterReads:
        return register_reads(self.instructions)

    @property
    def reuse_share(self) -> float:
        """Of the registers that the FFMAs take as operands, the part that comes from the reuse cache."""
        self._only_ffma()
        reads = self.registers_read
        return reads.cached / max(1, reads.operands)

    @property
    def bank_conflicts(self) -> int:
        """Cycles that the FFMAs lose to busy register banks, in one warp's way through the loop."""
        return self.predicted_cycles - max(self.ffma * ffma_cycles(self.arch), len(self.instructions))

    @cached_property
    def predicted_cycles(self) -> int:
        """Of one scheduler, for one warp's way through the loop, if nothing but registers ever has to be
        waited for. Every instruction takes a cycle to issue. An FFMA starts when with its own reads no more
        than QUEUE stand at either bank, or none but its own if these are more.
        """
        self._only_ffma()
        width, cycle, lanes_free = ffma_cycles(self.arch), 0, 0
        bank_free, passes = [0, 0], [0]
        for _ in range(3):  # in the third what stood before the loop no longer counts
            ffmas = iter(self.registers_read.from_banks)
            for i in self.instructions:
                if i.mnemonic == "FFMA":
                    reads = next(ffmas)
                    room = (f + n - max(QUEUE, n) for f, n in zip(bank_free, reads, strict=True) if n)
                    cycle = max(cycle, lanes_free, *room)
                    lanes_free = cycle + width
                    bank_free = [max(f, cycle) + n if n else f for f, n in zip(bank_free, reads, strict=True)]
                cycle += 1
            passes.append(max(cycle, lanes_free))
        return max(passes[-1] - passes[-2], self.ffma * width, len(self.instructions))

    @property
    def pipe_cycles(self) -> float:
        """Cycles that one warp's way through the loop occupies what multiplies in its scheduler: the tensor
        core, or the FFMA lanes. NotMeasured if nothing is known of such instructions of tensor cores."""
        if not self.on_tensor_cores:
            return self.ffma * ffma_cycles(self.arch)
        total = 0.0
        for i in (i for i in self.instructions if matches(i, self.products)):
            key = compute_capability(self.arch), MEASURED.get(i.opcode, "")
            if key not in mma_cycles():
                raise NotMeasured(f"how long {i.opcode} takes on {self.arch} was not measured")
            total += mma_cycles()[key]
        return total

    @property
    def issue_bound(self) -> float:
        """Of the pace at which the products can go, what the issue slots leave: no order of registers makes
        it faster."""
        return self.pipe_cycles / max(self.pipe_cycles, len(self.instructions))

    @property
    def predicted_tflops_fraction(self) -> float:
        """Of the FFMA peak, what the issue slots and, by the static model, the register banks leave. No
        bound: another warp's instructions may come between two that clash."""
        return self.ffma * ffma_cycles(self.arch) / self.predicted_cycles


@cache
def mma_cycles() -> dict[tuple[int, str], float]:
    """By compute capability (90 for 9.0) and type ("tf32"): a scheduler's cycles for a warp's mma, where
    enough independent ones are under way, as experiments/tensor_core_arithmetic measured them. Empty without
    a record."""
    record: dict[str, Any] = read_json(MMA_RECORD) if MMA_RECORD.exists() else {"pass": False}
    rates: dict[tuple[int, str], float] = {}
    for rate in record["rates"] if record["pass"] else []:
        key = record["compute_capability"], rate["type"]
        rates[key] = min(rate["cycles_per_mma_and_scheduler"], rates.get(key, float("inf")))
    return rates


def compute_capability(arch: str) -> int:
    """80 for "sm_80", 90 for "sm_90a"."""
    return int(re.sub(r"\D", "", arch))


def ffma_cycles(arch: str) -> int:
    """Cycles a warp's FFMA occupies the lanes of its scheduler: 16 lanes up to 8.0, 32 from 8.6 on."""
    return 2 if compute_capability(arch) <= 80 else 1


Weight = list[int]  # how many of each of PRODUCTS, bytes moved, minus the length
Way = tuple[Weight, list[int]]  # the blocks


def usual_way(blocks: list[Block], header: int, body: set[int]) -> list[int]:
    """The blocks on the usual way from the loop's header back to it; see Loop."""
    inside = {k: [n for n in blocks[k].next if n in body and n != header] for k in body}
    best: dict[int, Way | None] = {header: None}  # None until it is known: not round an inner loop
    todo = [(header, iter(inside[header]))]  # depth first; too deep, in some kernels, for a function
    while todo:
        k, rest = todo[-1]
        if (n := next((n for n in rest if n not in best), None)) is not None:
            best[n] = None
            todo.append((n, iter(inside[n])))
            continue
        todo.pop()
        ways = [best[n] for n in inside[k]]
        ways += [([0] * (len(PRODUCTS) + 2), [])] if header in blocks[k].next else []
        own = blocks[k].instructions
        moved = sum(i.bytes or 0 for i in own if not i.never)
        here = [*(count(own, name) for name in PRODUCTS), moved, -len(own)]
        if known := [way for way in ways if way]:
            weight, way = max(known, key=lambda way: way[0])
            best[k] = [a + b for a, b in zip(here, weight, strict=True)], [k, *way]
    found = best[header]
    assert found is not None  # a loop leads back
    return found[1]


def find_loops(instructions: list[Instruction], arch: str) -> list[Loop]:
    """All loops, the innermost before those around them."""
    blocks = basic_blocks(instructions)
    after = [block.next for block in blocks]
    before: list[list[int]] = [[] for _ in blocks]
    for k, following in enumerate(after):
        for n in following:
            before[n].append(k)
    live = reach([0], after)
    bodies: dict[int, set[int]] = {}
    for header in live & targets_of_ways_back(after):
        # A loop goes back from blocks that no way reaches but through its header.
        ends = live & {*before[header]} - reach([0], after, without=header)
        if ends:
            bodies[header] = live & reach(ends, before, without=header) | {header}
    loops: list[tuple[set[int], Loop]] = []
    for header, body in sorted(bodies.items(), key=lambda item: (len(item[1]), item[0])):
        way = usual_way(blocks, header, body)
        usual = [i for k in way for i in blocks[k].instructions]
        aside = [i for k in sorted(body - set(way)) for i in blocks[k].instructions]
        loop = Loop(arch, usual, aside, frozenset(i.offset for i in usual + aside))
        for inner_body, inner in loops:
            if inner.outer is None and inner_body < body:
                inner.outer = loop
        loops.append((body, loop))
    return [loop for _, loop in loops]


def main_loop(loops: list[Loop]) -> Loop | None:
    """Of the loops that multiply with the first of PRODUCTS that there is, and have no such loop inside, the
    one with the most of them."""
    for name in PRODUCTS:
        counts = {id(loop): n for loop in loops if (n := loop.count(name))}
        around = {id(loop.outer) for loop in loops if id(loop) in counts}
        innermost = [loop for loop in loops if id(loop) in counts and id(loop) not in around]
        if innermost:
            return max(innermost, key=lambda loop: counts[id(loop)])
    return None
