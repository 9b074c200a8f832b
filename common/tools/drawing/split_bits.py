"""Draws a float that is split into two FP16 numbers: which of its bits each of them holds."""

from dataclasses import dataclass
from fractions import Fraction

from tools.drawing.picture import MARGIN, Sheet
from tools.drawing.svg import PHONE, rectangle, text
from tools.drawing.tiling import filled

FLOAT_BITS, FP16_BITS = 24, 11  # of a significand, its leading 1 included
ROW, HEIGHT, NAMES = 44, 22, 34  # from row to row; of a cell; the width of the rows' names


@dataclass(frozen=True)
class Number:
    """value = ± 0.bits × 2^(exponent + 1): the exponent is that of the leading 1."""

    value: Fraction
    exponent: int
    bits: str

    @property
    def last(self) -> int:
        """The exponent of the last bit that is not 0."""
        return self.exponent - len(self.bits.rstrip("0")) + 1


def rounded(value: Fraction, bits: int) -> Number:
    """To the nearest number of so many bits, ties to even; its exponent is not limited."""
    if value == 0:
        return Number(value, 0, "0" * bits)
    exponent = 0
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - bits + 1)
    whole = round(abs(value) / unit)  # ties to even
    if whole == 2**bits:
        return rounded(whole * unit * (1 if value > 0 else -1), bits)
    return Number(whole * unit * (1 if value > 0 else -1), exponent, f"{whole:0{bits}b}")


def parts(x: float, bits: int = FP16_BITS) -> tuple[Number, Number, Number]:
    """x as a float, hi and lo."""
    whole = rounded(Fraction(x), FLOAT_BITS)
    hi = rounded(whole.value, bits)
    return whole, hi, rounded(whole.value - hi.value, bits)


def lost(x: float) -> Fraction:
    whole, hi, lo = parts(x)
    return whole.value - hi.value - lo.value


def picture(said: str) -> str:
    x = float(Fraction(said))
    whole, hi, lo = parts(x)
    sheet = Sheet(f"{said} as a float, and as two FP16 numbers")
    wide = (PHONE - 2 * MARGIN - NAMES) / (FLOAT_BITS + 2)
    top = sheet.y + 20
    for row, (name, number, color) in enumerate(
        [("x", whole, "there"), ("hi", hi, "here"), ("lo", lo, "here")]
    ):
        y = top + row * ROW
        sheet.body.append(text(MARGIN, y + 16, ("−" if number.value < 0 else "") + name))
        for i, bit in enumerate(number.bits):
            column = whole.exponent - number.exponent + i
            box = MARGIN + NAMES + column * wide, y, wide - 1.5, HEIGHT
            look = filled(color, 0.55) if bit == "1" else {"class_": "empty"}
            sheet.body.append(rectangle(*box, **look))
            sheet.body.append(text(box[0] + wide / 2 - 0.75, y + 16, bit, 12, text_anchor="middle"))
    sheet.y = top + 2 * ROW + HEIGHT + 24
    sheet.body.append(text(MARGIN, sheet.y, ending(x)))
    return sheet.document(describe(said), MARGIN)


def ending(x: float) -> str:
    rest = lost(x)
    if rest == 0:
        return "hi + lo = x: nothing is lost."
    power = rounded(rest / Fraction(x), FLOAT_BITS).exponent
    return f"hi + lo differs from x by a little over 2^{power} of it."


def describe(said: str) -> str:
    """The picture in words, for those who cannot see it."""
    whole, hi, lo = parts(float(Fraction(said)))
    sign = "minus " if lo.value < 0 else ""
    after = hi.exponent - FP16_BITS + 1 - lo.exponent
    return (
        f"{said} as a float has the significand {whole.bits}. hi has its first bits, rounded: {hi.bits}. lo, "
        f"{sign}{lo.bits}, begins {after} places behind hi's last bit. {ending(float(Fraction(said)))}"
    )
