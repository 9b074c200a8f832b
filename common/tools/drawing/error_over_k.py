"""Draws the largest error of several steps over the number of terms of a sum."""

import math
from collections.abc import Mapping, Sequence

from tools.drawing.picture import MARGIN, Sheet
from tools.drawing.svg import COLORS, PHONE, circle, element, line, text

HIGH, LEFT, RIGHT = 230, 48, 18  # the plot's height; beside it, the scale's numbers
LOOKS = ("here", "there", "soft", "mark", "ink")  # classes of curves, in the order of the steps
RULES = {"soft": "soft-rule", "ink": "strong"}  # looks whose lines change with the surroundings
Errors = Mapping[int, float]  # by K


def picture(curves: Mapping[str, Errors]) -> str:
    if len(curves) > len(LOOKS):
        raise ValueError(f"{len(curves)} curves; there are {len(LOOKS)} colours")
    ks = sorted({k for curve in curves.values() for k in curve})
    errors = [e for curve in curves.values() for e in curve.values()]
    low, high = math.floor(math.log10(min(errors))), math.ceil(math.log10(max(errors)))
    sheet = Sheet("Largest error, |c − exact| / (|A| · |B|), over K")
    for (name, _), look in zip(curves.items(), LOOKS, strict=False):
        sheet.explain(name, class_=look)
    top, wide = sheet.y + 18, PHONE - 2 * MARGIN - LEFT - RIGHT

    def at(k: int, error: float) -> tuple[float, float]:
        across = math.log2(k / ks[0]) / max(math.log2(ks[-1] / ks[0]), 1)
        return MARGIN + LEFT + across * wide, top + HIGH * (high - math.log10(error)) / (high - low)

    for power in range(low, high + 1):
        y = at(ks[0], 10.0**power)[1]
        sheet.body.append(line(MARGIN + LEFT, y, MARGIN + LEFT + wide, y, class_="rule"))
        sheet.body.append(text(MARGIN + LEFT - 6, y + 4, f"1e{power}", text_anchor="end"))
    sheet.body.append(text(MARGIN, top + HIGH + 18, "K ="))
    for n, k in enumerate(ks):
        if n % 2 == 0 or len(ks) < 8:
            sheet.body.append(text(at(k, 1)[0], top + HIGH + 18, str(k), text_anchor="middle"))
    for n, (curve, look) in enumerate(zip(curves.values(), LOOKS, strict=False)):
        points = [at(k, curve[k]) for k in sorted(curve)]
        path = "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in points)
        under = len(curves) - 1 - n  # curves drawn over this one: it stays visible where they coincide
        colour = {"class_": RULES[look]} if look in RULES else {"stroke": COLORS[look][1]}
        sheet.body.append(element("path", d=path, stroke_width=1.5 + under, **colour))
        sheet.body += [circle(x, y, 3 + under, class_=look) for x, y in points]
    sheet.y = top + HIGH + 24
    return sheet.document(describe(curves), MARGIN)


def describe(curves: Mapping[str, Errors]) -> str:
    """The picture in words, for those who cannot see it."""
    ends = (
        f"{name}: {curve[min(curve)]:.1e} at K = {min(curve)}, {curve[max(curve)]:.1e} at K = {max(curve)}"
        for name, curve in curves.items()
    )
    return f"The largest error over K. {'. '.join(ends)}."


def terms(least: int, most: int) -> Sequence[int]:
    """K, in factors of four."""
    return [4**n for n in range(20) if least <= 4**n <= most]
