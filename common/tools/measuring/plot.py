"""Draws the ladder: each step's fraction of cuBLAS's speed. The same records give the same SVG."""

from typing import Any

from tools.base import UsageError, span
from tools.drawing.svg import document, line, rectangle, text, trim

SIZES = (4096, 8192)
CLASSES = ("there", "here")  # the bars' colours
WIDTH, HEIGHT = 440, 470  # as wide as a phone
HALO = {"class_": "ink edge", "stroke_width": 2, "paint_order": "stroke"}  # where text crosses a line
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 86, 142


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
        text(LEFT, 22, title, size=15, font_weight="bold"),
        *legend(sizes, baseline),
        *bars(steps, sizes, shown),
    ]
    return document(WIDTH, HEIGHT, f"Each step's speed, in percent of {baseline}'s", said, body)


def legend(sizes: list[int], baseline: str) -> list[str]:
    body = [text(LEFT, 48, f"% of {baseline}'s speed", class_="soft")]
    for n, (size, class_) in enumerate(zip(sizes, CLASSES, strict=False)):
        body.append(rectangle(LEFT + 108 * n, 57, 13, 13, class_=class_))
        body.append(text(LEFT + 18 + 108 * n, 68, f"N = {size}"))
    return body


def bars(steps: list[str], sizes: list[int], percents: dict[tuple[str, int], float]) -> list[str]:
    bottom, slot = HEIGHT - BOTTOM, (WIDTH - LEFT - RIGHT) / len(steps)
    scale = (bottom - TOP) / max(100, *percents.values())
    scale *= 1 - 32 / (bottom - TOP)  # room for the figure above the highest bar
    width = min(0.9 * slot / len(sizes), 30)
    body, figures = [], []
    for tick in range(0, int((bottom - TOP) / scale), 20):
        y = bottom - tick * scale
        whole = {"class_": "strong", "stroke_dasharray": "5 4"} if tick == 100 else {"class_": "rule"}
        body.append(line(LEFT, y, WIDTH - RIGHT, y, **whole))
        body.append(text(LEFT - 6, y + 5, trim(tick), text_anchor="end", class_="soft"))
    for n, step in enumerate(steps):
        middle = LEFT + (n + 0.5) * slot
        for k, (size, class_) in enumerate(zip(sizes, CLASSES, strict=False)):
            if (percent := percents.get((step, size))) is not None:
                x, top = middle + (k - len(sizes) / 2) * width, bottom - percent * scale
                body.append(rectangle(x, top, width, bottom - top, class_=class_))
                figure = f"{percent:.0f}" if percent >= 10 else f"{percent:.1f}"
                high = min(width, 13)  # of the figure, which must not cover its neighbour
                figures.append(upright(figure, x + width / 2 + 0.36 * high, top - 4, 90, size=high, **HALO))
        body.append(upright(step.replace("_", " "), middle + 6, bottom + 12, 60, text_anchor="end"))
    return body + figures


def upright(words: str, x: float, y: float, degrees: int, **attributes: Any) -> str:
    return text(x, y, words, transform=f"rotate(-{degrees} {trim(x)} {trim(y)})", **attributes)
