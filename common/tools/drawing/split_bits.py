"""Draws a float that is split into two FP16 numbers: which of its bits each of them holds."""

from dataclasses import dataclass
from fractions import Fraction

from tools.drawing.picture import MARGIN, Sheet
from tools.drawing.svg import PHONE, rectangle, text
from tools.drawing.tiling import filled

FLOAT_BITS, FP16_BITS = 24, 11  # of a significand, its leading 1 included
LEAST_FP16 = Fraction(1, 2**24)
RAISED = 11  # exponent of the factor by which step 45 stores lo
ROW, HEIGHT, NAMES = 44, 22, 34  # from row to row; of a cell; the width of the rows' names


@dataclass(frozen=True)
class Number:
    """value = ± 0.bits × 2^(exponent + 1): the exponent is that of the leading 1."""

    value: Fraction
    exponent: int
    bits: str


def rounded(value: Fraction, bits: int, least_unit: Fraction = Fraction(0)) -> Number:
    """To the nearest number of so many bits, or multiple of the least unit, ties to even."""
    if value == 0:
        return Number(value, 0, "")
    exponent = 0
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit, full = Fraction(2) ** (exponent - bits + 1), bits
    if unit < least_unit:
        bits -= round(least_unit / unit).bit_length() - 1
        unit = least_unit
    whole = round(abs(value) / unit)  # ties to even
    if whole == 0:
        return Number(Fraction(0), 0, "")
    if whole >= 2 ** max(bits, 0):  # rounded up to the next power of two
        return rounded(whole * unit * (1 if value > 0 else -1), full, least_unit)
    return Number(whole * unit * (1 if value > 0 else -1), exponent, f"{whole:0{bits}b}")


def parts(x: float, unscaled: bool = False) -> tuple[Number, Number, Number]:
    """x as a float, hi and lo; unscaled: as they are in memory, where 2^-24 is the least FP16 number."""
    unit = LEAST_FP16 if unscaled else Fraction(0)
    whole = rounded(Fraction(x), FLOAT_BITS)
    hi = rounded(whole.value, FP16_BITS, unit)
    return whole, hi, rounded(whole.value - hi.value, FP16_BITS, unit)


def raised_low(x: float) -> Number:
    """lo as step 45 stores it, 2^11 times as large; its bits are shown where lo's are."""
    whole, hi, _ = parts(x, unscaled=True)
    raised = rounded((whole.value - hi.value) * 2**RAISED, FP16_BITS, LEAST_FP16)
    return Number(raised.value / 2**RAISED, raised.exponent - RAISED, raised.bits)


def picture(said: str, unscaled: bool = False, raised: bool = False) -> str:
    numbers = parts(float(Fraction(said)), unscaled)
    whole, hi, lo = numbers
    rows = [("x", whole, "there"), ("hi", hi, "here"), ("lo", lo, "here")]
    if raised:
        rows.append(("lo·2¹¹", raised_low(float(Fraction(said))), "here"))
    sheet = Sheet(f"{said} as a float, and as two FP16 numbers")
    names = NAMES + (20 if raised else 0)
    wide = (PHONE - 2 * MARGIN - names) / (FLOAT_BITS + 2)
    top = sheet.y + 20
    for row, (name, number, color) in enumerate(rows):
        y = top + row * ROW
        sheet.body.append(text(MARGIN, y + 16, ("−" if number.value < 0 else "") + name))
        for i, bit in enumerate(number.bits):
            column = whole.exponent - number.exponent + i
            box = MARGIN + names + column * wide, y, wide - 1.5, HEIGHT
            look = filled(color, 0.55) if bit == "1" else {"class_": "empty"}
            sheet.body.append(rectangle(*box, **look))
            sheet.body.append(text(box[0] + wide / 2 - 0.75, y + 16, bit, text_anchor="middle"))
    sheet.y = top + (len(rows) - 1) * ROW + HEIGHT + 24
    sheet.body.append(text(MARGIN, sheet.y, ending(numbers)))
    if raised:
        sheet.write(f"With the last row: {ending((whole, hi, rows[-1][1]))}")
    return sheet.document(describe(said, unscaled, raised), MARGIN)


def raised_digits(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def ending(numbers: tuple[Number, Number, Number]) -> str:
    whole, hi, lo = numbers
    rest = abs(whole.value - hi.value - lo.value)
    if rest == 0:
        return "hi + lo = x: nothing is lost."
    power = rounded(rest / whole.value, FLOAT_BITS).exponent
    return f"Lost: between 2{raised_digits(power)} and 2{raised_digits(power + 1)} of x."


def describe(said: str, unscaled: bool = False, raised: bool = False) -> str:
    """The picture in words, for those who cannot see it."""
    whole, hi, lo = numbers = parts(float(Fraction(said)), unscaled)
    if raised:
        more = raised_low(float(Fraction(said)))
        return (
            f"{describe(said, unscaled)} Stored 2^{RAISED} times as large, lo is {more.bits}. "
            f"{ending((whole, hi, more))}"
        )
    sign = "minus " if lo.value < 0 else ""
    return (
        f"{said} as a float has the significand {whole.bits}. hi has its first bits, rounded: {hi.bits}. "
        f"lo is {sign}{lo.bits or 'zero'}, and begins further down. {ending(numbers)}"
    )
