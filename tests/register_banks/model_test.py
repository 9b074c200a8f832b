"""The models: by hand, against each other, and against the project's own count of the steps' loops."""

from functools import cache
from itertools import pairwise

import pytest
from register_banks.model import ANY, SUM, cycles, reads
from register_banks.patterns import PATTERNS, in_notation
from tools.machine_code.loops import QUEUE, Loop
from tools.machine_code.register_reads import source_registers

POOL = [n for n in range(2, 124) if n not in (62, 63, 64, 65)]
NEXT, BANK = False, True


@cache
def wanted(name, by_bank):
    return reads(in_notation(PATTERNS[name], POOL, 1024), by_bank)


@cache
def per_ffma(name, by_bank, queue):
    return cycles(wanted(name, by_bank), queue) / 1024


@pytest.mark.parametrize(
    "name, by_bank, expected",  # for the queues sum, 1, 2, 4, any
    [
        ("ideal", NEXT, (1, 1, 1, 1, 1)),
        ("clash", NEXT, (2, 2, 2, 2, 2)),
        ("clash_turns_1", NEXT, (2, 1, 1, 1, 1)),
        ("clash_turns_2", NEXT, (2, 1.5, 1.5, 1, 1)),
        ("clash_every_4", NEXT, (1.25, 1.25, 1.25, 1.25, 1.25)),
        ("clash_turns_1_of_4", NEXT, (1.25, 1.25, 1, 1, 1)),
        ("three_eeo", NEXT, (2, 2, 2, 2, 2)),
        ("three_eeo_ooe", NEXT, (2, 2, 1.5, 1.5, 1.5)),
        ("three_eee", NEXT, (3, 3, 3, 3, 3)),
        ("three_eee_ooo", NEXT, (3, 1.5, 1.5, 1.5, 1.5)),
        ("no_marks", NEXT, (2, 2, 2, 2, 2)),
        ("reuse_2", NEXT, (1.5, 1.5, 1.25, 1.25, 1.25)),
        ("cache_other_place", BANK, (2, 2, 2, 2, 2)),
        ("cache_other_bank_between", NEXT, (2, 2, 1.5, 1.5, 1.5)),
        ("cache_other_bank_between", BANK, (1, 1, 1, 1, 1)),
        ("cache_other_bank_7_between", NEXT, (1.25, 1.25, 1.125, 1.125, 1.125)),
        ("cache_other_bank_7_between", BANK, (1, 1, 1, 1, 1)),
        ("cache_same_bank_between", BANK, (2, 2, 2, 2, 2)),
        ("cache_unmarked_between", BANK, (2, 2, 2, 2, 2)),
    ],
)
def test_by_hand(name, by_bank, expected):
    assert tuple(per_ffma(name, by_bank, queue) for queue in (SUM, 1, 2, 4, ANY)) == pytest.approx(
        expected, rel=5e-3
    )


@pytest.mark.parametrize("name", PATTERNS)
def test_a_longer_queue_and_a_larger_cache_cost_nothing(name):
    for by_bank in (NEXT, BANK):
        times = [per_ffma(name, by_bank, queue) for queue in (SUM, 1, 2, 3, 4, 8, ANY)]
        assert all(longer <= shorter + 5e-3 for shorter, longer in pairwise(times))
    assert per_ffma(name, BANK, 2) <= per_ffma(name, NEXT, 2) + 5e-3


def test_a_queue_by_hand():
    """They start in cycles 0, 2 (before that more than two reads would wait), 3, 4; the next round in 5."""
    assert cycles([(2, 0), (2, 0), (0, 2), (0, 0)], 2) == 5
    assert cycles([(2, 0), (2, 0), (0, 2), (0, 0)], 3) == 4
    assert cycles([(0, 0)] * 3, 1) == cycles([(1, 1)] * 3, 1) == 3
    assert cycles([(2, 0), (2, 0), (0, 2), (0, 0)], SUM) == 7


# ---- The steps -------------------------------------------------------------------------------------------


def test_bank_2_is_the_projects(loops):
    for name, loop in loops.items():
        assert cycles(reads(loop.instructions, BANK), QUEUE) == loop.predicted_cycles, name
        assert cycles(reads(loop.instructions, NEXT), 1) > loop.predicted_cycles, name


def test_what_ptxas_marks_is_read_by_bank(loops):
    """Of the marks in the steps' loops nearly all are of use if the cache has an entry for each place and
    bank; many are not if it keeps them for the next instruction only. So ptxas reckons with the former."""
    marks = found_by_bank = found_next = 0
    for loop in loops.values():
        for n, i in enumerate(loop.instructions):
            for place, (register, marked) in source_registers(i).items():
                if marked and i.mnemonic == "FFMA":
                    marks += 1
                    found_by_bank += next_in_place(loop, n, place, register) == register
                    following = loop.instructions[(n + 1) % len(loop.instructions)]
                    found_next += source_registers(following).get(place, (None,))[0] == register
    assert found_by_bank > 0.995 * marks
    assert found_next < 0.95 * marks


def next_in_place(loop: Loop, n, place, register):
    """The next register of the same bank that is read in this place."""
    for following in [*loop.instructions[n + 1 :], *loop.instructions[: n + 1]]:
        found = source_registers(following).get(place)
        if found and found[0] % 2 == register % 2:
            return found[0]
    return None
