"""Expressions against arithmetic: what an expression says a register holds is what instructions compute."""

import random

from conftest import code
from machine_code.expressions import (
    add,
    evaluate,
    initial,
    masked,
    minus,
    number,
    shifted_right,
    times,
)  # fmt: skip

WORD = (1 << 32) - 1


def value_of(expression, registers):
    """An expression's value, by the registers' values at the start."""
    total = expression.constant
    for atom, factor in expression.terms:
        match atom:
            case ("in", name):
                part = registers[name]
            case ("and", inner, mask):
                part = value_of(inner, registers) & mask
            case ("shr", inner, bits):
                part = value_of(inner, registers) >> bits
            case _:
                raise AssertionError(atom)
        total += part * factor
    return total & WORD


def compute(i, registers):
    """What the hardware does, for the instructions of the test below."""
    count = 1
    a, *rest = (int(o, 16) if "0x" in o else -registers.get(o[1:], 0) if o[0] == "-" else registers.get(o, 0)
                for o in i.operands[count:] if o not in ("!PT", "PT"))  # fmt: skip
    match i.opcode.removeprefix("U"):
        case "IADD3":
            return a + rest[0] + rest[1]
        case "LEA":
            return (a << rest[1]) + rest[0]
        case "SHF.L.U32":
            return a << rest[0]
        case "SHF.R.U32.HI":
            return rest[1] >> rest[0]
        case "LOP3.LUT":
            return a & rest[0]
        case "IMAD":
            return a * rest[0] + rest[1]
        case "MOV":
            return a


def test_random_programs():
    """Programs of integer instructions, carried out on numbers and on expressions."""
    choose = random.Random(1)
    names = [f"R{n}" for n in range(6)]
    for _ in range(400):
        lines = []
        for _ in range(8):
            d, a, b = (choose.choice(names) for _ in range(3))
            n, mask = (
                choose.randrange(32),
                choose.choice([0xFFFF, 0x1FFFE, 0xFE00, 0x7F, 0x80000001, WORD, 0]),
            )
            lines.append(
                choose.choice(
                    [
                        f"IADD3 {d}, {a}, {hex(choose.getrandbits(32))}, {b}",
                        f"IADD3 {d}, -{a}, {b}, RZ",
                        f"LEA {d}, {a}, {b}, {n:#x}",
                        f"SHF.L.U32 {d}, {a}, {n:#x}, RZ",
                        f"SHF.R.U32.HI {d}, RZ, {n:#x}, {a}",
                        f"LOP3.LUT {d}, {a}, {mask:#x}, RZ, 0xc0, !PT",
                        f"IMAD {d}, {a}, {choose.randrange(100):#x}, {b}",
                        f"MOV {d}, {a}",
                    ]
                )
            )
        start = {name: choose.getrandbits(32) for name in names}
        numbers, symbols = dict(start), {name: initial(name) for name in names}
        for i in code("\n".join(lines)):
            to = i.operands[0]
            new = evaluate(i, symbols.__getitem__)[0]
            numbers[to] = compute(i, numbers) & WORD
            symbols[to] = new
            assert value_of(new, start) == numbers[to], "\n".join(lines)


def test_addresses_that_are_the_same_look_the_same():
    x = initial("R1")
    assert masked(times(x, 2), 0x1FFFE) == times(masked(x, 0xFFFF), 2)
    assert times(masked(x, 1), 1 << 31) == times(x, 1 << 31)
    assert masked(masked(x, 0xFF), 0x3C) == masked(x, 0x3C)
    assert masked(add(x, number(0x12345)), 0xFF) == masked(add(x, number(0x45)), 0xFF)
    assert minus(add(x, number(5)), add(number(3), x)) == number(2)
    assert add(x, times(x, -1)) == number(0)
    assert shifted_right(number(0x80000000), 31) == number(1)
    assert masked(number(0xABCD), 0xFF) == number(0xCD)


def test_what_is_different_looks_different():
    x = initial("R1")
    assert masked(x, 0xFFFF) != x
    assert times(masked(x, 1), 1 << 30) != times(x, 1 << 30)
    assert masked(times(x, 2), 0x1FFFF) != masked(x, 0x1FFFF)
    assert shifted_right(x, 1) != x
    assert add(x, number(1)) != x
    assert initial("R2") != x
