"""The roofline: what each step reaches, against what the arithmetic and the DRAM allow, as an SVG."""

import math
from itertools import product
from typing import Any, NamedTuple

from tools.drawing.svg import FONT, PHONE, circle, document, element, line, rectangle, text, trim

HEIGHT = 480
LEFT, RIGHT, TOP, BOTTOM = 44, PHONE - 14, 66, HEIGHT - 56  # of the plot
NAME = 20.0  # width of a step's number
ASIDE = 30.0  # from a point's middle to that of its number
MIDDLE: dict[str, Any] = {"text_anchor": "middle"}


class Point(NamedTuple):
    """A step's kernel: operations to a byte of DRAM traffic, and speed."""

    step: str
    flops_per_byte: float
    tflops: float


class Plot(NamedTuple):
    """Two logarithmic axes, by the lowest and the highest figure of each."""

    x: tuple[float, float]
    y: tuple[float, float]

    def place(self, x: float, y: float) -> tuple[float, float]:
        right, up = (
            math.log(n / low) / math.log(high / low) for n, (low, high) in ((x, self.x), (y, self.y))
        )
        return LEFT + (RIGHT - LEFT) * right, BOTTOM + (TOP - BOTTOM) * up

    def grid(self) -> list[str]:
        """A thin line for 1, 10, 100 ... FLOP per byte and for 1, 2, 5, 10, ... TFLOP/s, with its figure."""
        body = []
        for multiple, exponent in product((1, 2, 5), range(-3, 6)):
            tick = multiple * 10.0**exponent
            x, y = self.place(tick, tick)
            if multiple == 1 and self.x[0] <= tick <= self.x[1]:
                body.append(line(x, TOP, x, BOTTOM, class_="rule"))
                body.append(text(x, BOTTOM + 18, trim(tick), **MIDDLE, class_="soft"))
            if self.y[0] <= tick <= self.y[1]:
                body.append(line(LEFT, y, RIGHT, y, class_="rule"))
                body.append(text(LEFT - 5, y + 5, trim(tick), text_anchor="end", class_="soft"))
        return body


def roof(flops_per_byte: float, peak_tflops: float, tb_per_s: float) -> float:
    """The speed that is possible at best, in TFLOP/s."""
    return min(peak_tflops, flops_per_byte * tb_per_s)


def svg(points: list[Point], marked: str, peak_tflops: float, tb_per_s: float, device: str) -> str:
    """The picture with all points, that of the step `marked` standing out."""
    plot = whole_plot(points, peak_tflops, tb_per_s)
    others_said = "; small: the steps before" if len(points) > 1 else ""
    body = [
        text(LEFT, 22, device, size=15, font_weight="bold"),
        circle(LEFT + 7, 42, 7, class_="here"),
        text(LEFT + 20, 47, marked.replace("_", " ") + others_said),
        *plot.grid(),
        text((LEFT + RIGHT) / 2, HEIGHT - 14, "FLOP per byte of DRAM traffic", **MIDDLE, class_="soft"),
        text(LEFT + 6, TOP + 12, "TFLOP/s", class_="soft"),
        *roofs(plot, peak_tflops, tb_per_s),
        *named_dots(plot, points, marked),
    ]
    steps = [f"{p.step}: {p.flops_per_byte:.0f} FLOP per byte, {p.tflops:.2f} TFLOP/s" for p in points]
    description = (
        f"Roofs: {peak_tflops:.1f} TFLOP/s and {tb_per_s:.1f} TB/s. {'; '.join(steps)}. Marked: {marked}."
    )
    return document(PHONE, HEIGHT, f"Roofline of {device}", description, body)


def whole_plot(points: list[Point], peak_tflops: float, tb_per_s: float) -> Plot:
    """The axes on which all points and both roofs have room."""
    x_low = min(1.0, *(p.flops_per_byte / 1.5 for p in points))
    x_high = max(100 * peak_tflops / tb_per_s, *(p.flops_per_byte * 2 for p in points))
    y_low = min(0.4, *(p.tflops / 1.3 for p in points))
    y_high = max(peak_tflops, *(p.tflops for p in points)) * 1.4
    return Plot((x_low, x_high), (y_low, y_high))


def roofs(plot: Plot, peak_tflops: float, tb_per_s: float) -> list[str]:
    ridge = peak_tflops / tb_per_s
    start = max(plot.x[0], plot.y[0] / tb_per_s)
    corners = [(start, start * tb_per_s), (ridge, peak_tflops), (plot.x[1], peak_tflops)]
    # Along the slope, in its middle.
    middle = math.sqrt(start * ridge)
    x, y = plot.place(middle, middle * tb_per_s)
    right, up = plot.place(2 * middle, 2 * middle * tb_per_s)
    turn = f"rotate({trim(math.degrees(math.atan2(up - y, right - x)))} {trim(x)} {trim(y)})"
    path = " L".join(" ".join(map(trim, plot.place(*corner))) for corner in corners)
    peak = RIGHT - 4, plot.place(1, peak_tflops)[1] - 7
    return [
        element("path", d=f"M{path}", class_="strong", stroke_width=2.5),
        text(*peak, f"FP32 peak {peak_tflops:.1f}", text_anchor="end"),
        text(x, y - 7, f"DRAM {tb_per_s:.1f} TB/s", transform=turn, **MIDDLE),
    ]


def named_dots(plot: Plot, points: list[Point], marked: str) -> list[str]:
    """The points, each with its step's number at the right, or at the left if points stand there. Numbers
    that would cover something move down; taken from the top, they keep the points' order."""
    dots, leaders, names = [], [], []
    places = {p: plot.place(*p[1:]) for p in points}
    taken = [(*place, 18.0) for place in places.values()]  # x, y and width
    for p, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        crowded = any(10 < a - x < 70 and abs(b - y) < 20 for a, b in places.values())
        at_x, at_y = x - ASIDE if crowded else x + ASIDE, y
        while any(abs(at_x - a) * 2 < NAME + wide and abs(at_y - b) < FONT + 1 for a, b, wide in taken):
            at_y += 1
        taken.append((at_x, at_y, NAME))
        here = p.step == marked
        dots.append(circle(x, y, 7 if here else 4.5, class_="here edge" if here else "there edge"))
        leaders.append(line(x, y, at_x, at_y, class_="soft-rule"))
        # On paper, so that lines end at it.
        names.append(rectangle(at_x - NAME / 2, at_y - 8, NAME, 16, class_="paper"))
        weight = "bold" if here else None
        names.append(text(at_x, at_y + 5, p.step.partition("_")[0], **MIDDLE, font_weight=weight))
    return [*leaders, *names, *dots]
