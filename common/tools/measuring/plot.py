"""Draws the ladder: each step's fraction of cuBLAS's speed. The same records give the same SVG."""

from typing import Any

from tools.base import UsageError, span
from tools.drawing.svg import PHONE, document, line, rectangle, text, trim

SIZES = (4096, 8192)
CLASSES = ("there", "here")  # the bars' colours
LEFT, RIGHT, TOP, ROW, BAR = 162, 78, 84, 23, 8  # of the bars, at least; of a step; of one of its bars
LETTER = 7.6  # a wide one of a step's name
COLUMN = 36  # of a size's figures


def svg(records: list[dict[str, Any]]) -> str:
    """The plot at 4096 and 8192, or at the two largest sizes there are. UsageError without a cuBLAS ratio."""
    percents = {
        (r["step"], r["m"]): 100 * r["ratio_to_cublas"]
        for r in records
        if r["m"] == r["n"] == r["k"] and r["batch"] == 1 and r["pass"] and r.get("ratio_to_cublas")
    }
    if not percents:
        raise UsageError("no fraction of cuBLAS to draw: no square size was measured on a GPU")
    measured = sorted({size for _, size in percents})
    sizes = [size for size in SIZES if size in measured] or measured[-2:]
    shown = {(step, size): percent for (step, size), percent in sorted(percents.items()) if size in sizes}
    steps = sorted({step for step, _ in shown})
    title = f"{records[0]['device']}, {span(str(r['date'])[:10] for r in records)}"
    baseline = str(records[0].get("baseline") or "cuBLAS").removesuffix(" FP32")
    said = "; ".join(f"{step} {percent:.1f} % at {size}" for (step, size), percent in shown.items())
    body = [
        text(8, 22, title, size=15, font_weight="bold"),
        *legend(sizes, baseline),
        *bars(steps, sizes, shown),
    ]
    return document(
        PHONE, TOP + ROW * len(steps) + 26, f"Each step's speed, in percent of {baseline}'s", said, body
    )


def legend(sizes: list[int], baseline: str) -> list[str]:
    body = [text(8, 46, f"% of {baseline}'s speed", class_="soft")]
    for n, (size, class_) in enumerate(zip(sizes, CLASSES, strict=False)):
        body.append(rectangle(8 + 108 * n, 56, 13, 13, class_=class_))
        body.append(text(26 + 108 * n, 67, f"N = {size}"))
    return body


def bars(steps: list[str], sizes: list[int], percents: dict[tuple[str, int], float]) -> list[str]:
    """A row for each step: its name, a bar for each size, and the figures. So a phone shows all steps."""
    bottom, body = TOP + ROW * len(steps), []
    left = max(LEFT, 8 + LETTER * max(map(len, steps)))
    scale = (PHONE - left - RIGHT) / max(100, *percents.values())
    for tick in range(0, int((PHONE - left - RIGHT) / scale) + 1, 50):
        x = left + tick * scale
        whole = {"class_": "strong", "stroke_dasharray": "5 4"} if tick == 100 else {"class_": "rule"}
        body.append(line(x, TOP, x, bottom, **whole))
        body.append(text(x, bottom + 17, trim(tick), text_anchor="middle", class_="soft"))
    for n, step in enumerate(steps):
        middle = TOP + (n + 0.5) * ROW
        body.append(text(8, middle + 5, step.replace("_", " ")))
        for k, (size, class_) in enumerate(zip(sizes, CLASSES, strict=False)):
            if (percent := percents.get((step, size))) is not None:
                y, x = middle + (k - len(sizes) / 2) * BAR, PHONE - 8 - COLUMN * (len(sizes) - 1 - k)
                body.append(rectangle(left, y, percent * scale, BAR, class_=class_))
                figure = f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}"
                body.append(text(x, middle + 5, figure, text_anchor="end"))
    return body
