"""Draws which parts of a C a guard lets pass, and which it refuses and why."""

from typing import Any

from tools.drawing.picture import MARGIN, Sheet
from tools.drawing.svg import COLORS, PHONE, rectangle, text
from tools.drawing.tiling import filled

LOOKS = ("there", "here", "mark", "soft")  # of the ways, in the order in which they are first met
WIDE, HIGH = 40.0, 30.0  # a part


def picture(parts: dict[str, Any]) -> str:
    ways = parts["ways"]
    looks = dict(zip(dict.fromkeys(way for row in ways for way in row), LOOKS, strict=False))
    counts = {way: sum(row.count(way) for row in ways) for way in looks}
    sheet = Sheet("Parts of C by the way they are computed")
    for way, look in looks.items():
        why = "by FP16 products" if look == LOOKS[0] else f"in FP32: {way}"
        sheet.explain(f"{counts[way]} {why}", style=f"fill:{COLORS[look][1]}", fill_opacity=0.7)
    left, top = PHONE - MARGIN - len(ways[0]) * WIDE, sheet.y + 20 + 18 * len(parts["cols"])
    for n, (col, says) in enumerate(parts["cols"].items()):
        right, y = left + (int(col) + 1) * WIDE, top - 8 - 18 * (len(parts["cols"]) - 1 - n)
        sheet.body.append(text(right, y, f"a column {says}", text_anchor="end"))
    for row, says in parts["rows"].items():
        y = top + (int(row) + 0.5) * HIGH
        for line, words in enumerate(["a row", says]):
            sheet.body.append(text(left - 8, y - 3 + 16 * line, words, text_anchor="end"))
    for row, of_row in enumerate(ways):
        for col, way in enumerate(of_row):
            box = left + col * WIDE, top + row * HIGH, WIDE - 2, HIGH - 2
            sheet.body.append(rectangle(*box, **filled(looks[way], 0.7)))
    sheet.y = top + len(ways) * HIGH
    return sheet.document(describe(parts), MARGIN)


def describe(parts: dict[str, Any]) -> str:
    """The picture in words, for those who cannot see it."""
    rows = (f"In part row {row} a row {says}." for row, says in parts["rows"].items())
    cols = (f"In part column {col} a column {says}." for col, says in parts["cols"].items())
    ways = "; ".join(", ".join(row) for row in parts["ways"])
    return f"Parts of C, row by row: {ways}. {' '.join([*rows, *cols])}"
