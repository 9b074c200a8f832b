"""How many cycles FFMAs take, by competing models. Each is a pair of answers:

What does the reuse cache hold? An operand that is marked .reuse,
  next   for the next instruction, in the same place;
  bank   until an operand of the same bank is read in the same place: there is an entry for each place and
         bank. It stays on if it is marked there again.

What do reads from the banks cost? A bank delivers one register a cycle.
  sum    an FFMA that wants a bank k times takes k cycles, and nothing overlaps;
  1 2 .. reads wait in queues of this length: an instruction starts, at most one a cycle, when no bank has
         more reads to do than that, its own among them. One with more reads by itself waits until the bank
         has nothing else to do.
  any    the queue is as long as need be: what counts is the reads of each bank in all.

"bank, 2" is the model of tools.machine_code.loops. On an H200 it is the nearest; the record is
docs/evidence/h200/register_banks.json.
"""

from collections.abc import Iterable, Mapping

from tools.machine_code.listing import Instruction
from tools.machine_code.register_reads import source_registers

Reads = list[tuple[int, int]]  # of the even and of the odd bank, by instruction
SUM, ANY = 0, 10**9
ROUNDS = 4


def reads(code: list[Instruction], by_bank: bool) -> Reads:
    """What the FFMAs of a loop read from the banks, when it has gone round once; nothing for the others."""
    cache: dict[tuple[int, int], int] = {}
    found: Reads = []
    for _ in range(2):
        found = []
        for i in code:
            fresh, kept = set(), dict(cache) if by_bank else {}
            for place, (register, marked) in source_registers(i).items():
                key = place, register % 2 * by_bank
                if cache.get(key) != register:
                    fresh.add(register)
                kept.pop(key, None)
                if marked:
                    kept[key] = register
            cache = kept
            odd = sum(register % 2 for register in fresh)
            found.append((len(fresh) - odd, odd) if i.mnemonic == "FFMA" else (0, 0))
    return found


def cycles(wanted: Reads, queue: int) -> float:
    """Of a scheduler, for a round of a loop."""
    if queue == SUM:
        return sum(max(1, *both) for both in wanted)
    if queue == ANY:
        return max(len(wanted), *map(sum, zip(*wanted, strict=True)))
    now, even, odd, ends = 0, 0, 0, []  # even, odd: when a bank has nothing more to do
    for _ in range(ROUNDS):
        for of_even, of_odd in wanted:
            # The first cycle in which a bank's queue has room for its reads.
            if of_even:
                now = max(now, even + of_even - max(queue, of_even))
            if of_odd:
                now = max(now, odd + of_odd - max(queue, of_odd))
            if of_even:
                even = max(even, now) + of_even
            if of_odd:
                odd = max(odd, now) + of_odd
            now += 1
        ends.append(now)
    return (ends[-1] - ends[0]) / (ROUNDS - 1)


# By name: whether the cache has entries for each bank, and the length of the queue.
MODELS = {
    f"{cache} {'sum' if queue == SUM else 'any' if queue == ANY else queue}": (cache == "bank", queue)
    for cache in ("next", "bank")
    for queue in (SUM, 1, 2, 3, 4, 8, ANY)
}


def predict(code: list[Instruction], others: int = 0) -> dict[str, float]:
    """Cycles per FFMA of a loop, by each model. `others`: further instructions, of a cycle each."""
    wanted = {by_bank: reads(code, by_bank) for by_bank in (False, True)}
    ffmas = sum(i.mnemonic == "FFMA" for i in code)
    return {
        name: (cycles(wanted[by_bank], queue) + others) / ffmas for name, (by_bank, queue) in MODELS.items()
    }


def errors(measured: Mapping[str, float], predicted: Mapping[str, float]) -> tuple[float, str]:
    """The root of the mean square of the relative errors, and for which pattern the error is largest."""
    relative = {name: predicted[name] / value - 1 for name, value in measured.items()}
    return root_mean_square(relative.values()), max(relative, key=lambda name: abs(relative[name]))


def root_mean_square(values: Iterable[float]) -> float:
    squares = [value * value for value in values]
    return (sum(squares) / len(squares)) ** 0.5
