"""Bits: control words, and the table of instructions against what ptxas wrote."""

import pytest
from conftest import code, fp32_kernels
from machine_code import encoding
from machine_code.control import Control
from machine_code.encoding import encode, verify
from tools.machine_code.listing import parse_instruction


def test_control_words_survive_both_ways(source):
    for word in source.words:
        control = Control.of(word)
        assert control.put(word) == word
        assert Control.of(control.put(0)) == control
    assert len({Control.of(word) for word in source.words}) > 20


# ---- The table -------------------------------------------------------------------------------------------


def test_the_kernel_comes_out_as_ptxas_wrote_it(source):
    count, wrong = verify(source.instructions, source.words)
    assert wrong == []
    assert count > 0.6 * len(source.instructions)
    loop = {
        i.opcode for i in source.instructions if i.mnemonic in ("FFMA", "LDS", "SYNCS", "BRA", "LOP3", "SHF")
    }
    assert {"FFMA", "LDS.128", "SYNCS.PHASECHK.TRANS64.TRYWAIT", "BRA"} <= loop & encoding.BY_NAME.keys()


def test_the_steps_come_out_as_ptxas_wrote_them():
    """All kernels of the steps' programs that are for the architecture, the harness's own among them."""
    total = expressed = 0
    for program, cubin, kernel, instructions in fp32_kernels():
        count, wrong = verify(instructions, cubin.words(kernel))
        assert wrong == [], f"{program} {kernel}"
        total, expressed = total + len(instructions), expressed + count
    if not total:
        pytest.skip("no program has machine code that the tool knows")
    assert expressed > total / 2


def test_a_wrong_row_is_noticed(source, monkeypatch):
    row = encoding.BY_NAME["FFMA"]
    monkeypatch.setitem(encoding.BY_NAME, "FFMA", encoding.Row(row.name, row.operation, "dcba"))
    _, wrong = verify(source.instructions, source.words)
    assert len(wrong) > 1000
    assert "FFMA" in wrong[0]


@pytest.mark.parametrize(
    "text, bits",
    [  # from listings of ptxas 13.0
        ("FFMA R141, R96, R112, R141", 0x000000000000008D00000070608D7223),
        ("@!P2 IADD3 R9, R9, -R13, RZ", 0x07FFE0FF8000000D0909A210),
        ("IADD3 R9, -R9, RZ, RZ", 0x07FFE1FF000000FF09097210),
        ("LDS.128 R104, [R15+UR7+0x10000]", 0x08000C00010000070F687984),
        ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R94+UR7+0x30000], R93", 0x080001470300005D5E0075A7),
        ("LEA R18, P0, R22, UR8, 0x2", 0x0F8010FF0000000816127C11),
        ("UIADD3 UR6, -UR6, 0x100000, URZ", 0x0FFFE13F0010000006067890),
        ("IMAD.U32 R4, RZ, RZ, UR5", None),
    ],
)
def test_examples(text, bits):
    instruction = parse_instruction(text)
    word = encode(instruction, Control(0, 0, 0, 0, 0, 0))
    if bits is not None:
        assert f"{word:x}" == f"{bits:x}"
    assert encode(instruction, Control(stall=3)) == Control(stall=3).put(word)


def test_jumps_count_from_the_instruction_after():
    forward, back = code("BRA 0x40\nBRA 0x0")
    low, high = encoding.JUMP_LOW, encoding.JUMP_HIGH
    word = encode(forward, Control())
    assert (low.get(word), high.get(word)) == (0x30 // 4, 0)
    word = encode(back, Control())
    distance = low.get(word) | high.get(word) << 8
    assert distance - (1 << 56) == -0x20 // 4
