"""The patterns are what their names say, and no register is written while another use counts on it."""

import pytest
from register_banks.model import reads
from register_banks.patterns import LARGE_PATTERNS, PATTERNS, Registers, ffma, in_notation, replay
from tools.machine_code.listing import SassError, parse_instruction
from tools.machine_code.loops import Loop, source_registers

POOL = [n for n in range(2, 124) if n not in (62, 63, 64, 65)]
COUNT = 1024

# By hand: for each FFMA of a period the banks of a, b, c and, where it is not that of c, of d. "*" is a mark.
BANKS = {
    "ideal": "oe*e",
    "clash": "ee*e",
    "clash_turns_1": "ee*e oe*o",
    "clash_turns_2": "ee*e ee*e oe*o oe*o",
    "clash_turns_4": "ee*e " * 4 + "oe*o " * 4,
    "clash_turns_8": "ee*e " * 8 + "oe*o " * 8,
    "clash_every_2": "ee*e oe*e",
    "clash_every_4": "ee*e oe*e oe*e oe*e",
    "clash_every_8": "ee*e " + "oe*e " * 7,
    "clash_turns_1_of_4": "ee*e oe*e oe*e oe*e oe*o oe*e oe*e oe*e",
    "clash_b_c": "e*ee",
    "clash_a_b": "eee*>o",
    "clash_remainders_0_0": "eo*e",
    "clash_remainders_0_2": "eo*e",
    "three_eeo": "eeo",
    "three_eeo_ooe": "eeo ooe",
    "three_eee": "eee",
    "three_eee_ooo": "eee ooo",
    "result_even": "oe*e>e",
    "result_odd": "oe*e>o",
    "no_marks": "oee",
    "reuse_2": "oe*e eeo eo*o ooe",
    "reuse_4": "oe*e ee*o oe*e eeo oo*e eo*o oo*e eoo",
    "cache_other_place": "e*eo ee*o",
    "cache_other_bank_between": "e*oe o*eo",
    "cache_other_bank_7_between": "e*oe " + "o*eo " * 7,
    "cache_same_bank_between": "e*oe e*oe",
    "cache_unmarked_between": "e*oe eoe",
    "ideal_large": "oe*e",
}
NOTATIONS = PATTERNS | LARGE_PATTERNS


def banks(i):
    text = "".join("eo"[r % 2] + "*" * marked for r, marked in source_registers(i).values())
    d, c = int(i.operands[0][1:]), source_registers(i)[2][0]
    return text if d == c else f"{text}>{'eo'[d % 2]}"


def sources(code):
    return [[r for r, _ in source_registers(i).values()] for i in code]


def in_cache(code):
    """The places of each FFMA whose register the one before it marked."""
    before = [{}] + [{p: r for p, (r, marked) in source_registers(i).items() if marked} for i in code[:-1]]
    return [
        {p for p, (r, _) in source_registers(i).items() if kept.get(p) == r}
        for i, kept in zip(code, before, strict=True)
    ]


def test_every_pattern_is_in_the_table():
    assert NOTATIONS.keys() == BANKS.keys()


@pytest.mark.parametrize("name", NOTATIONS)
def test_banks_and_marks(name):
    expected = BANKS[name].split()
    assert COUNT % len(expected) == 0
    assert [banks(i) for i in in_notation(NOTATIONS[name], POOL, COUNT)] == expected * (
        COUNT // len(expected)
    )


@pytest.mark.parametrize("name", NOTATIONS)
def test_registers_keep_what_they_hold(name):
    check_registers(in_notation(NOTATIONS[name], POOL, COUNT))


def check_registers(code):
    """Factors never change, so that sums stay small; nothing that is marked is ever written; no sum is read
    soon after it was written."""
    written = {int(i.operands[0][1:]) for i in code}
    assert not written & {r for a, b, _ in sources(code) for r in (a, b)}
    assert not written & {r for i in code for r, marked in source_registers(i).values() if marked}
    twice = [*code, *code]
    last = {}
    for n, i in enumerate(twice):
        c = sources([i])[0][2]
        assert n - last.get(c, -100) >= 6
        last[int(i.operands[0][1:])] = n


def test_which_operands_are_fresh():
    """Whose registers are new each time, and which are the same."""
    ideal = in_notation(PATTERNS["ideal"], POOL, 64)
    assert len({b for _, b, _ in sources(ideal)}) == 1
    assert all(places == {1} for places in in_cache(ideal)[1:])
    for name in ("three_eeo", "three_eee", "three_eee_ooo", "no_marks", "cache_other_place"):
        assert not any(in_cache(in_notation(PATTERNS[name], POOL, 64))), name
    assert len({b for _, b, _ in sources(in_notation(PATTERNS["no_marks"], POOL, 64))}) == 1
    for name, kept in (("reuse_2", 2), ("reuse_4", 4)):
        code = in_notation(PATTERNS[name], POOL, 64)
        assert [bool(places) for places in in_cache(code)] == ([False] + [True] * (kept - 1)) * (64 // kept)


def test_remainders():
    for name, remainders in (("0_0", {0}), ("0_2", {2})):
        code = in_notation(PATTERNS[f"clash_remainders_{name}"], POOL, 64)
        assert {a % 4 for a, _, _ in sources(code)} == {0}
        assert {c % 4 for _, _, c in sources(code)} == remainders


def test_the_cache_patterns_come_back_to_the_same_register():
    """Every second FFMA, or every eighth, with the same element in the same place, or the other one."""
    for name, period in (
        ("other_bank_between", 2),
        ("other_bank_7_between", 8),
        ("same_bank_between", 2),
        ("unmarked_between", 2),
    ):
        a = [row[0] for row in sources(in_notation(PATTERNS[f"cache_{name}"], POOL, 64))]
        assert a[::period] == [a[0]] * (64 // period)
        assert a[0] not in a[1:period]
    other = sources(in_notation(PATTERNS["cache_other_place"], POOL, 64))
    assert {row[n % 2] for n, row in enumerate(other)} == {other[0][0]}
    assert all(row[1 - n % 2] != other[0][0] for n, row in enumerate(other))


def test_too_few_registers():
    with pytest.raises(SassError, match="too few registers"):
        Registers(list(range(40))).register("E", is_sum=True)


# ---- Replays ---------------------------------------------------------------------------------------------


def loop_of(*texts):
    return Loop("sm_90a", [parse_instruction(text, 16 * n) for n, text in enumerate(texts)], [], frozenset())


def test_a_replay_by_hand():
    loop = loop_of(
        "LDS.128 R4, [R1]",
        "FFMA R40, R4.reuse, R9, R40",
        "IADD3 R1, R1, 0x10, RZ",
        "FFMA R5, R4, R11, R41",  # into a register that a load will fill
        "FFMA R43, R5, R11.reuse, R40",
    )
    pool = [8, 12, 13, 16, 17, 21, 22, 23, 25, 27, 29, 31]
    own = {4: 8, 5: 13, 9: 17, 11: 23, 40: 12, 41: 21, 43: 27}
    expected = [
        ffma(own[40], [(own[4], True), (own[9], False), (own[40], False)]),
        ffma(25, [(own[4], False), (own[11], False), (own[41], False)]),
        ffma(own[43], [(own[5], False), (own[11], True), (own[40], False)]),
    ]
    assert replay(loop, pool, 7) == [*expected, *expected, expected[0]]


def test_what_cannot_be_replayed():
    with pytest.raises(SassError, match="no registers"):
        replay(loop_of("FFMA R1, R2, 0.5, R1"), POOL, 4)
    with pytest.raises(SassError, match="no registers"):
        replay(loop_of("FFMA R1, R2, -R3, R1"), POOL, 4)
    with pytest.raises(SassError, match="by remainder"):
        replay(loop_of("FFMA R1, R2, R3, R1"), [4, 5, 6], 4)
    with pytest.raises(SassError, match="no register to write to"):
        replay(loop_of("FFMA R1, R2, R3, R1"), [1, 2, 3], 4)


def test_replays_are_the_steps_ffmas(loops):
    """The same remainders by 4, the same marks, equal registers where they were equal."""
    pool = list(range(248))
    for name, loop in loops.items():
        ffmas = [i for i in loop.instructions if i.mnemonic == "FFMA"]
        code = replay(loop, pool, len(ffmas))
        of_step, ours = ([source_registers(i) for i in some] for some in (ffmas, code))
        pairs = {
            (old[place][0], new[place][0])
            for old, new in zip(of_step, ours, strict=True)
            for place in range(3)
        }
        assert len({old for old, _ in pairs}) == len({new for _, new in pairs}) == len(pairs), name
        assert all(old % 4 == new % 4 for old, new in pairs), name
        assert [[m for _, m in row.values()] for row in of_step] == [
            [m for _, m in row.values()] for row in ours
        ]
        assert [int(i.operands[0][1:]) % 2 for i in ffmas] == [int(i.operands[0][1:]) % 2 for i in code]
        assert reads(ffmas, True) == reads(code, True), name
        inputs = {r for row in sources(code) for r in row[:2]}
        assert not inputs & {int(i.operands[0][1:]) for i in code}, name
