"""Bits: control words, and the table of instructions against what ptxas wrote."""

import pytest
from conftest import code, fp32_kernels
from machine_code import encoding
from machine_code.bits import Field, words_of
from machine_code.control import ALL_PLACES, PLACES, Control, cycles
from machine_code.encoding import NotExpressible, encode, verify
from tools.machine_code.listing import parse_instruction


def test_fields():
    field = Field(5, 3)
    assert field.put(0, 5) == 5 << 5
    assert field.put((1 << 128) - 1, 0) == (1 << 128) - 1 - (7 << 5)
    assert field.get(field.put(0, -1)) == 7
    for value in (8, -5):
        with pytest.raises(ValueError, match="3 bits"):
            field.put(0, value)
    assert words_of(bytes([1]) + bytes(15) + bytes(15) + bytes([2])) == [1, 2 << 120]


def test_the_places_of_a_control_word_fill_it():
    covered = sum(((1 << place.width) - 1) << place.low for place in PLACES.values())
    assert covered == ((1 << ALL_PLACES.width) - 1) << ALL_PLACES.low
    assert sum(place.width for place in PLACES.values()) == ALL_PLACES.width


def test_control_words_survive_both_ways(source):
    for word in source.words:
        control = Control.of(word)
        assert control.put(word) == word
        assert Control.of(control.put(0)) == control
    assert len({Control.of(word) for word in source.words}) > 20


def test_a_control_word_is_what_it_says():
    control = Control(stall=4, stay=0, write_barrier=2, read_barrier=7, wait=0b100010, reuse=0b01)
    assert control.waits == {1, 5}
    assert str(control) == "stall  4 yield write 2 read - wait 15    "
    assert cycles(control) == 4
    with pytest.raises(ValueError, match="16 does not fit"):
        Control(stall=16).put(0)


# ---- The table -------------------------------------------------------------------------------------------


def test_every_row_is_named_once():
    names = [row.name for row in encoding.ROWS]
    assert len(names) == len(set(names))


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


@pytest.mark.parametrize(
    "text",
    [
        "FFMA.FTZ R1, R2, R3, R4",
        "FFMA R1, R2, 1, R4",
        "FFMA R1, |R2|, R3, R4",
        "IADD3 R1, R2, R3",
        "LDS.128 R4, [R2+UR4+R6]",
        "LDS.128 R4, [0x10]",
        "LOP3.LUT R1, R2, R3, R4, 0x1c0, !PT",
        "MOV R1, R300",
        "S2R R1, SR_CLOCKLO",
        "BRA 0x10, 0x20, 0x30",
    ],
)
def test_what_is_not_in_the_table_is_not_encoded(text):
    with pytest.raises(NotExpressible):
        encode(parse_instruction(text), Control())


def test_jumps_count_from_the_instruction_after():
    forward, back = code("BRA 0x40\nBRA 0x0")
    low, high = encoding.JUMP_LOW, encoding.JUMP_HIGH
    word = encode(forward, Control())
    assert (low.get(word), high.get(word)) == (0x30 // 4, 0)
    word = encode(back, Control())
    distance = low.get(word) | high.get(word) << 8
    assert distance - (1 << 56) == -0x20 // 4
