"""Which registers are live: by hand-made listings, and against nvdisasm's own analysis."""

import re

import pytest
from conftest import code
from machine_code.effects import effects
from machine_code.liveness import liveness
from tools.machine_code.binary import run_tool
from tools.machine_code.listing import parse_instruction

LOOP = """
    MOV R0, 0x8
    MOV R2, RZ
    FFMA R2, R4, R5, R2
    IADD3 R0, R0, -0x1, RZ
    ISETP.NE.AND P0, PT, R0, RZ, PT
    @P0 BRA 0x20
    STG.E desc[UR4][R6.64], R2
    EXIT
"""


@pytest.mark.parametrize(
    "text, reads, writes",
    [
        ("FFMA R1, R2.reuse, R3, R1", "R1 R2 R3", "R1"),
        ("@!P3 FFMA R1, R2, R3, R4", "P3 R2 R3 R4", "R1"),
        ("LDS.128 R4, [R8+UR2+0x10]", "R8 UR2", "R4 R5 R6 R7"),
        ("STG.E.64 desc[UR4][R6.64+0x8], R2", "R2 R3 R6 R7 UR4 UR5", ""),
        ("LDG.E R3, desc[UR4][R6.64]", "R6 R7 UR4 UR5", "R3"),
        ("IMAD.WIDE R18, R21, 0x4, R18", "R18 R19 R21", "R18 R19"),
        ("IADD3 R4, P0, P1, R5, R6, RZ", "R5 R6", "R4 P0 P1"),
        ("IADD3.X R4, R5, R6, RZ, P0, !PT", "P0 R5 R6", "R4"),
        ("ISETP.GE.AND.EX P0, PT, R1, R2, PT, P3", "P3 R1 R2", "P0"),
        ("LOP3.LUT P0, R9, R2, 0x3, RZ, 0xc0, !PT", "R2", "P0 R9"),
        ("SEL R9, R9, R4, !P0", "P0 R4 R9", "R9"),
        ("UISETP.NE.AND UP0, UPT, UR5, 0x2, UPT", "UR5", "UP0"),
        ("VOTEU.ALL UP0, P0", "P0", "UP0"),
        ("SHFL.IDX PT, R0, R1, RZ, 0x1f", "R1", "R0"),
        ("ATOMG.E.ADD.STRONG.GPU PT, R15, desc[UR16][R18.64], R3", "R18 R19 R3 UR16 UR17", "R15"),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R94+UR7+0x30000], R93", "R93 R94 UR7", "P0"),
        ("CS2R R4, SRZ", "", "R4 R5"),
        ("CS2R.32 R4, SR_CLOCKLO", "", "R4"),
        ("@!PT LDS R4, [R5]", "", ""),
        ("MOV RZ, R3", "R3", ""),
        ("BRA 0x10", "", ""),
        ("@P1 BRA P2, 0x10", "P1 P2", ""),
    ],
)
def test_reads_and_writes(text, reads, writes):
    done = effects(parse_instruction(text))
    assert done.reads == set(reads.split())
    assert done.writes == set(writes.split())


def test_round_a_loop():
    live = liveness(code(LOOP))
    outside = {"R4", "R5", "R6", "R7", "UR4", "UR5"}
    assert live.before[0x00] == outside
    assert live.before[0x20] == outside | {"R0", "R2"}
    assert live.before[0x50] == outside | {"R0", "R2", "P0"}
    assert live.after[0x50] == outside | {"R0", "R2"}
    assert live.before[0x60] == {"R2", "R6", "R7", "UR4", "UR5"}
    assert live.after[0x70] == set()


def test_a_predicate_ends_a_life_only_for_itself():
    same = code("@P0 MOV R1, R2\n@P0 MOV R3, R1\nSTG.E desc[UR4][R6.64], R3\nEXIT")
    assert "R1" not in liveness(same).before[0]
    assert "R3" in liveness(same).before[0]  # kept where P0 is false
    other = code("@P0 MOV R1, R2\n@!P0 MOV R3, R1\nEXIT")
    assert "R1" in liveness(other).before[0]
    changed = code("@P0 MOV R1, R2\nISETP.NE.AND P0, PT, R4, RZ, PT\n@P0 MOV R3, R1\nEXIT")
    assert "R1" in liveness(changed).before[0]


def test_against_nvdisasm(source):
    """Both count the same at every instruction, but for R1, which nvdisasm keeps for the stack."""
    text = run_tool("nvdisasm", "--life-range-mode", "count", "--print-code", source.path)
    lines = re.findall(
        r"^\s+/\*([0-9a-f]{4,})\*/.*// \|\s*(\d*)\s*\|\s*(\d*)\s*\|\s*(\d*)", text, re.MULTILINE
    )
    theirs = {int(at, 16): [int(n or 0) for n in numbers] for at, *numbers in lines}
    live = liveness(source.instructions)
    for i in source.instructions[1:]:
        ours = live.before[i.offset] | effects(i).writes
        counts = [len({r for r in ours if re.fullmatch(rf"{kind}\d+", r)}) for kind in ("R", "P", "UR")]
        counts[0] += 1  # R1
        if i.offset in theirs:  # not the filler at the end
            assert counts == theirs[i.offset], f"{i.offset:x} {i.text}"
    assert len(theirs) > 1500
