"""Draws launches of the same product one behind the other: each after the end of the one before, and so that
they overlap."""

from tools.drawing.picture import MARGIN, Sheet
from tools.drawing.pipeline import arrow
from tools.drawing.svg import PHONE, line, rectangle, text
from tools.drawing.tiling import filled

SHOWN = 3  # launches
ROW = 24  # of a launch


def picture(n: int, apart_us: float, overlapping_us: float) -> str:
    """apart_us, overlapping_us: from the end of a launch to that of the next. What overlapping hides is drawn
    as the launch's beginning."""
    sheet = Sheet(f"Three products of {n} × {n} × {n}")
    hidden = apart_us - overlapping_us
    scale = (PHONE - 2 * MARGIN) / (SHOWN * apart_us)
    for title, every in (("one after the other", apart_us), ("overlapping", overlapping_us)):
        sheet.y += 10
        sheet.write(f"{title}: {every:.1f} µs each", font_weight="bold")
        top = sheet.y + 8
        for launch in range(SHOWN):
            left, y = MARGIN + launch * every * scale, top + launch % 2 * (ROW + 4)
            begins = rectangle(left, y, hidden * scale, ROW, **filled("there", 0.6))
            works = rectangle(left + hidden * scale, y, overlapping_us * scale, ROW, **filled("here", 0.6))
            sheet.body += [begins, works]
            sheet.over(left + (hidden + overlapping_us / 2) * scale, y + ROW - 7, f"launch {launch + 1}")
        sheet.y = top + 2 * ROW + 4
        ends = [MARGIN + (hidden + overlapping_us + launch * every) * scale for launch in (0, 1)]
        for end in ends:
            sheet.body.append(line(end, top, end, sheet.y + 14, class_="strong", stroke_dasharray="3 3"))
        sheet.body += arrow(ends[0] + 3, sheet.y + 10, ends[1] - 3, sheet.y + 10)
        sheet.body.append(text(ends[1] + 6, sheet.y + 15, f"{every:.1f} µs"))
        sheet.y += 16
    sheet.y += 4
    sheet.explain(
        "begins: blocks start, set up mbarriers, and wait in griddepcontrol.wait", **filled("there", 0.6)
    )
    sheet.explain("reads what other launches write, multiplies and stores", **filled("here", 0.6))
    return sheet.document(describe(n, apart_us, overlapping_us), MARGIN + 4)


def describe(n: int, apart_us: float, overlapping_us: float) -> str:
    """The picture in words, for those who cannot see it."""
    return (
        f"{SHOWN} products of {n} × {n} × {n}, a launch each. Where each launch waits for the end of the one "
        f"before, they end {apart_us:.1f} µs apart. Where launches overlap, {overlapping_us:.1f} µs: the "
        f"next one's beginning, {apart_us - overlapping_us:.1f} µs, runs beside the end of the one before."
    )
