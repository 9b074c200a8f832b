"""The comparison of two loops: what is the same is the same, and every kind of mistake is found."""

import re

import pytest
from conftest import code
from machine_code.meaning import Stretch, differences
from tools.machine_code.listing import parse_instruction

LOOK = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R8+UR4], R9"


# ---- Two loops -------------------------------------------------------------------------------------------

OLD = """
    LEA R3, R0, R7, 0x2
    LDS R4, [R3]
    IADD3 R0, R0, 0x1, RZ
    FFMA R1, R4, R5, R1
    ISETP.NE.AND P0, PT, R0, R2, PT
    @P0 BRA 0x0
    EXIT
"""
NEW = """
    LEA R6, R0, R7, 0x2
    NOP
    LDS R4, [R6]
    IADD3 R0, R0, 0x1, RZ
    IADD3 R6, R6, 0x4, RZ
    FFMA R1, R5, R4, R1
    ISETP.NE.AND P0, PT, R0, R2, PT
    @P0 BRA 0x20
    EXIT
"""
COUNTS = frozenset({"R0", "R1", "R2", "R5", "R7"})


def compared(new, counts=COUNTS, known=None, looks=()):
    listing = code(new)
    body, back = next((i.target, i.offset) for i in reversed(listing) if i.mnemonic == "BRA")
    old = Stretch(code(OLD), 0, 0, 0x50)
    return differences(old, Stretch(listing, 0, body, back), counts, known or {}, list(looks))


def test_the_same_with_a_carried_address():
    assert compared(OLD) == []
    assert compared(NEW) == []


@pytest.mark.parametrize(
    "was, becomes, words",
    [
        ("LDS R4, [R6]", "LDS R4, [R6+0x4]", "R1 is"),
        ("IADD3 R6, R6, 0x4, RZ", "IADD3 R6, R6, 0x8, RZ", "R6 is .* for the next time"),
        ("IADD3 R6, R6, 0x4, RZ", "NOP", "R6 is .* for the next time"),
        ("LEA R6, R0, R7, 0x2", "LEA R6, R0, R7, 0x3", "R1 is"),
        ("IADD3 R0, R0, 0x1, RZ", "IADD3 R0, R0, 0x2, RZ", "R0 is"),
        ("FFMA R1, R5, R4, R1", "FFMA R1, R5, R5, R1", "R1 is"),
        ("FFMA R1, R5, R4, R1", "FFMA R9, R5, R4, R1", "R1 is"),
        ("FFMA R1, R5, R4, R1", "NOP", "R1 is"),
        ("ISETP.NE.AND P0, PT, R0, R2, PT", "ISETP.LT.AND P0, PT, R0, R2, PT", "goes on if"),
        ("@P0 BRA 0x20", "@!P0 BRA 0x20", "goes on if"),
        ("LEA R6, R0, R7, 0x2\n    NOP", "LEA R6, R0, R7, 0x2\n    MOV R5, R7", "R5 is"),
        ("IADD3 R6, R6, 0x4, RZ", f"IADD3 R6, R6, 0x4, RZ\n{LOOK}\n@!P0 BRA 0x50", "it waits for"),
    ],
)
def test_mistakes(was, becomes, words):
    assert was in NEW
    wrong = compared(NEW.replace(was, becomes))
    assert wrong
    assert any(re.search(words, text) for text in wrong), wrong


# ---- The loop that the tool writes -----------------------------------------------------------------------


def changed_at(instructions, offset, text):
    return [parse_instruction(text, offset) if i.offset == offset else i for i in instructions]


def new_is_wrong(rewritten, offset, text):
    result, instructions, _ = rewritten
    old, new = result.old, result.new
    was = Stretch(old.instructions, old.start, old.start, old.back)
    now = Stretch(changed_at(instructions, offset, text), new.prologue, new.body, old.back)
    return differences(was, now, old.counts, old.known, [])


def test_it_is_the_same(rewritten):
    _, instructions, _ = rewritten
    first = instructions[0]
    assert new_is_wrong(rewritten, first.offset, first.text) == []


def test_any_wrong_register_in_it_is_found(rewritten):
    """In every 37th instruction, one register after the other replaced by its neighbour."""
    result, _, _ = rewritten
    new = result.new
    count = 0
    for at, (i, _, _) in list(new.lines.items())[::37]:
        if i.mnemonic in ("NOP", "BRA") or at > new.loop.back:
            continue
        for place, operand in enumerate(i.operands):
            if match := re.search(r"\bR(\d+)", operand):
                other = operand.replace(match[0], f"R{int(match[1]) ^ 1}")
                text = f"{i.opcode} {', '.join([*i.operands[:place], other, *i.operands[place + 1 :]])}"
                assert new_is_wrong(rewritten, at, text), f"{i.text} -> {text}"
                count += 1
    assert count > 60


def test_a_product_left_out_is_found(rewritten):
    result, _, _ = rewritten
    ffmas = [at for at, (i, _, _) in result.new.lines.items() if i.mnemonic == "FFMA"]
    for at in ffmas[::101]:
        assert new_is_wrong(rewritten, at, "NOP")


def test_a_load_before_the_wait_is_found(rewritten):
    """The jump that waits, and the first load behind it, in the wrong order."""
    result, instructions, _ = rewritten
    lines = result.new.lines
    wait = next(at for at, (i, _, _) in lines.items() if i.mnemonic == "BRA" and at < result.old.back)
    product, load = wait + 16, wait + 48
    assert lines[load][0].mnemonic == "LDS"
    moved = changed_at(instructions, load, lines[product][0].text)
    moved = changed_at(moved, product, lines[wait][0].text)
    moved = changed_at(moved, wait, lines[load][0].text)
    old, new = result.old, result.new
    was = Stretch(old.instructions, old.start, old.start, old.back)
    assert differences(was, Stretch(moved, new.prologue, new.body, old.back), old.counts, old.known, [])
