"""The patterns are what their names say, and no register is written while another use counts on it."""

import pytest
from register_banks.model import reads
from register_banks.patterns import LARGE_PATTERNS, PATTERNS, ffma, in_notation, replay
from tools.machine_code.listing import SassError, parse_instruction
from tools.machine_code.loops import Loop
from tools.machine_code.register_reads import source_registers

POOL = [n for n in range(2, 124) if n not in (62, 63, 64, 65)]
COUNT = 1024

NOTATIONS = PATTERNS | LARGE_PATTERNS


def sources(code):
    return [[r for r, _ in source_registers(i).values()] for i in code]


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
