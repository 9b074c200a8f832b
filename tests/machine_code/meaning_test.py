"""The comparison of two loops: what is the same is the same, and every kind of mistake is found."""

import re

import pytest
from conftest import code
from machine_code.expressions import add, initial, number, times
from machine_code.meaning import Machine, Stretch, Undecided, by_offset, differences
from tools.machine_code.listing import SassError, parse_instruction

LOOK = "SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R8+UR4], R9"


def run(text, stop, **options):
    return Machine(by_offset(code(text)), **options).run(0, stop)


# ---- One loop --------------------------------------------------------------------------------------------


def test_a_machine():
    m = run("LDS.64 R4, [R1+0x10]\nIADD3 R2, R2, 0x1, RZ\nFFMA R0, R4, R5, R0\nFFMA R0, R3, R4, R0", 0x40)
    assert m.get("R2") == add(initial("R2"), number(1))
    inner = m.get("R0").atom[2]
    address = add(initial("R1"), number(0x10))
    words = [add(number(0), m.get(f"R{n}")) for n in (4, 5)]
    assert [w.atom for w in words] == [("lds", 8, address, n, 0) for n in (0, 1)]
    assert inner.atom == ("ffma", frozenset(words), initial("R0"))
    assert m.get("R9") == initial("R9")
    assert [i.mnemonic for i in m.path] == ["LDS", "IADD3", "FFMA", "FFMA"]


def test_the_order_of_factors_does_not_count_and_that_of_sums_does():
    def total(text):
        return run(text, 0x20).get("R0")

    first = total("FFMA R0, R1, R2, R0\nFFMA R0, R3, R4, R0")
    assert total("FFMA R0, R2, R1, R0\nFFMA R0, R4, R3, R0") == first
    assert total("FFMA R0, R3, R4, R0\nFFMA R0, R1, R2, R0") != first


def test_under_a_predicate():
    m = run("@P1 MOV R0, R2\n@!P1 MOV R3, R2", 0x20)
    assert m.get("R0") not in (initial("R0"), initial("R2"))
    assert m.get("R0") != m.get("R3")


WAIT = f"{LOOK}\n@!P0 BRA 0x40\nLDS R0, [R1]\nEXIT\n{LOOK}\n@!P0 BRA 0x40\nBRA 0x20"


def test_a_wait():
    """However often it looks, it waits once, for the same; and what comes behind is another time."""
    for looks in ([], [False], [False, False, False]):
        m = run(WAIT, 0x30, looks=looks)
        assert m.waits == [(add(initial("R8"), initial("UR4")), initial("R9"))]
        assert m.epoch == 1
        assert m.get("R0").atom[-1] == 1
    before = run(f"LDS R0, [R1]\n{LOOK}\n@!P0 BRA 0x10", 0x30)
    assert before.get("R0").atom[-1] == 0
    assert run(f"{LOOK}\nLDS R0, [R1]", 0x20).get("R0").atom[-1] == 0  # looked, and not relied on it


SKIPPED = f"@P1 BRA 0x30\n{LOOK}\n@!P0 BRA 0x10\nLDS R0, [R1]"
GUARDED = f"@!P1 {LOOK}\n@!P0 BRA 0x0\nNOP\nLDS R0, [R1]"


def test_a_wait_in_some_rounds_only():
    """Either way is gone by what is assumed of the predicate."""
    for text in (SKIPPED, GUARDED.replace("P0", "P1")):
        waits = run(text, 0x40, assume={initial("P1"): False})
        assert len(waits.waits) == waits.epoch == 1
        assert waits.get("R0").atom[-1] == 1
        passes = run(text, 0x40, assume={initial("P1"): True})
        assert passes.waits == []
        assert passes.get("R0").atom[-1] == 0
    with pytest.raises(Undecided, match="0 @P1 BRA 0x30 makes a second way"):
        run(SKIPPED, 0x40)
    assert run(SKIPPED, 0x40, assume=True).epoch == 0


@pytest.mark.parametrize(
    "text, words",
    [
        ("STS [R0], R1", "should not be in a main loop"),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "should not be in a main loop"),
        ("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R8+URZ], RZ", "should not be in a main loop"),
        ("S2R R0, SR_CLOCKLO", "should not be in a main loop"),
        ("@P0 BRA 0x0", "makes a second way"),
        ("@P0 BRA P1, 0x0", "not known when this jumps"),
        ("LDS RZ, [R1]", "should not be in a main loop"),
        ("BRA 0x0", "does not come to 20"),
        ("BRX R0 -0x10", "BRX reads and writes is not known"),
    ],
)
def test_what_no_main_loop_has(text, words):
    with pytest.raises(SassError, match=words):
        run(f"{text}\nNOP\nNOP", 0x20)


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


def test_a_register_that_does_not_count_may_differ():
    changed = NEW.replace("NOP", "MOV R9, R7")
    assert compared(changed) == []
    assert compared(changed, COUNTS | {"R9"}) != []


def test_what_is_known():
    """That R7 is R8 + 0x10, which the old loop uses and the new one does not."""
    other = NEW.replace("LEA R6, R0, R7, 0x2", "LEA R6, R0, R8, 0x2").replace("[R6]", "[R6+0x10]")
    assert compared(other) != []
    assert compared(other, known={"R7": add(initial("R8"), number(0x10))}) == []
    assert compared(other, known={"R7": add(initial("R8"), times(number(0x10), 2))}) != []


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
