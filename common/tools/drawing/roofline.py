"""The roofline: what each step reaches, against what the arithmetic and the DRAM allow, as an SVG."""

import math
from itertools import product
from typing import Any, NamedTuple

from tools.drawing.svg import FONT, PHONE, Plot, Scale, circle, document, line, rectangle, text, trim

HEIGHT = 480
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 66, 56
NUMBER = 9.2  # width of a digit
NEAR = 30  # closer than this, two points' names get into each other's way
TOUCHING = 11
# Where a name may stand, seen from its point, in sixteenths of a turn from the right on; the best first.
DIRECTIONS = (0, 8, 4, 12, 2, 6, 14, 10, 1, 7, 9, 15, 3, 5, 11, 13)


class Point(NamedTuple):
    """A step's kernel: operations to a byte of DRAM traffic, and speed."""

    step: str
    flops_per_byte: float
    tflops: float


class Box(NamedTuple):
    """A place on the picture that is taken."""

    x: float  # the middle
    y: float
    width: float
    height: float

    def overlaps(self, other: "Box") -> bool:
        near_x = abs(self.x - other.x) * 2 < self.width + other.width
        return near_x and abs(self.y - other.y) * 2 < self.height + other.height

    def gap(self, other: "Box") -> float:
        """From its edge to the other's middle."""
        beside, below = abs(other.x - self.x) - self.width / 2, abs(other.y - self.y) - self.height / 2
        return math.hypot(max(0.0, beside), max(0.0, below))


def roof(flops_per_byte: float, peak_tflops: float, tb_per_s: float) -> float:
    """The speed that is possible at best, in TFLOP/s."""
    return min(peak_tflops, flops_per_byte * tb_per_s)


def svg(points: list[Point], marked: str, peak_tflops: float, tb_per_s: float, device: str) -> str:
    """The picture with all points, that of the step `marked` standing out. Where many stand close together,
    they get their names in an enlarged part of the picture."""
    plot = whole_plot(points, peak_tflops, tb_per_s)
    group = crowd(plot, points)
    others = [p for p in points if p not in group]
    others_said = "; small: the steps before" if len(points) > 1 else ""
    body = [
        text(LEFT, 22, device, size=15, font_weight="bold"),
        circle(LEFT + 7, 42, 7, class_="here"),
        text(LEFT + 20, 47, marked.replace("_", " ") + others_said),
        *plot.grid(plot.x.ticks(multiples=(1,)), plot.y.ticks()),
        text((LEFT + plot.right) / 2, HEIGHT - 14, "FLOP per byte of DRAM traffic", **MIDDLE, class_="soft"),
        text(LEFT + 6, TOP + 12, "TFLOP/s", class_="soft"),
        *roofs(plot, peak_tflops, tb_per_s),
        *(inset(plot, group, marked) if group else []),
        *dots(plot, group, marked),
        *named_dots(plot, others, marked, plot.y(peak_tflops)),
    ]
    steps = [
        f"{p.step}: {p.flops_per_byte:.0f} FLOP per byte, {p.tflops:.2f} TFLOP/s"
        + (" (this step)" if p.step == marked else "")
        for p in points
    ]
    description = f"Roofs: {peak_tflops:.1f} TFLOP/s and {tb_per_s:.1f} TB/s. {'; '.join(steps)}."
    return document(PHONE, HEIGHT, f"Roofline of {device}", description, body)


def whole_plot(points: list[Point], peak_tflops: float, tb_per_s: float) -> Plot:
    """The axes on which all points and both roofs have room."""
    x_low = min(1.0, *(p.flops_per_byte / 1.5 for p in points))
    x_high = max(100 * peak_tflops / tb_per_s, *(p.flops_per_byte * 2 for p in points))
    y_low = min(0.4, *(p.tflops / 1.3 for p in points))
    y_high = max(peak_tflops, *(p.tflops for p in points)) * 1.4
    return Plot(Scale(x_low, x_high, LEFT, PHONE - RIGHT), Scale(y_low, y_high, HEIGHT - BOTTOM, TOP))


def roofs(plot: Plot, peak_tflops: float, tb_per_s: float) -> list[str]:
    ridge = peak_tflops / tb_per_s
    start = max(plot.x.low, plot.y.low / tb_per_s)
    corners = [(start, start * tb_per_s), (ridge, peak_tflops), (plot.x.high, peak_tflops)]
    # Along the slope, in its middle.
    middle = math.sqrt(start * ridge)
    x, y = plot.place(middle, middle * tb_per_s)
    right, up = plot.place(2 * middle, 2 * middle * tb_per_s)
    turn = f"rotate({trim(math.degrees(math.atan2(up - y, right - x)))} {trim(x)} {trim(y)})"
    peak = plot.right - 4, plot.y(peak_tflops) - 7
    return [
        plot.curve(corners, class_="strong", stroke_width=2.5),
        text(*peak, f"FP32 peak {peak_tflops:.1f}", text_anchor="end"),
        text(x, y - 7, f"DRAM {tb_per_s:.1f} TB/s", transform=turn, **MIDDLE),
    ]


# ---- Points that stand close together --------------------------------------------------------------------


def crowd(plot: Plot, points: list[Point]) -> list[Point]:
    """The points that stand so close together that their names need more room: the largest group in which
    each has another near it, if it has three or more and some of them touch. Empty without such a group."""

    def distance(p: Point, q: Point) -> float:
        return math.dist(plot.place(*p[1:]), plot.place(*q[1:]))

    groups: list[list[Point]] = []
    for point in points:
        near = [g for g in groups if any(distance(point, p) < NEAR for p in g)]
        groups = [g for g in groups if g not in near] + [[point, *(p for g in near for p in g)]]
    largest = max(groups, key=len)
    touch = any(distance(p, q) < TOUCHING for n, p in enumerate(largest) for q in largest[:n])
    return [p for p in points if p in largest] if len(largest) >= 3 and touch else []


def inset_plot(plot: Plot, group: list[Point]) -> Plot:
    """Larger axes for a crowd, in the lower right corner, which lies far below the roofs."""

    def scale(figures: list[float], start: float, end: float) -> Scale:
        low, high = min(figures), max(figures)
        room = max((high / low) ** 0.18, 1.02)
        return Scale(low / room, high * room, start, end)

    right, bottom = plot.right - 8, plot.bottom - 28
    x = scale([p.flops_per_byte for p in group], right - 156, right)
    return Plot(x, scale([p.tflops for p in group], bottom, bottom - 150))


def inset(plot: Plot, group: list[Point], marked: str) -> list[str]:
    """The crowd once more, enlarged, and a frame that says where it is from."""
    part = inset_plot(plot, group)
    xs, ys = zip(*(plot.place(*p[1:]) for p in group), strict=True)
    left, right, top, bottom = min(xs) - 9, max(xs) + 9, min(ys) - 9, max(ys) + 9
    wide, high = part.right - part.left, part.bottom - part.top
    return [
        line(left, bottom, part.left, part.top, class_="soft-rule"),
        line(right, bottom, part.right, part.top, class_="soft-rule"),
        rectangle(left, top, right - left, bottom - top, class_="soft-rule", fill="none", rx=3),
        rectangle(part.left - 30, part.top, wide + 30, high + 22, class_="paper"),
        rectangle(part.left, part.top, wide, high, class_="paper soft-rule", rx=3),
        *part.grid(part.x.even_ticks(), part.y.even_ticks(), below=16),
        *named_dots(part, group, marked, part.top),
    ]


# ---- Points and their names ------------------------------------------------------------------------------

MIDDLE: dict[str, Any] = {"text_anchor": "middle"}


def radius(step: str, marked: str) -> float:
    return 7.0 if step == marked else 4.5


def dots(plot: Plot, points: list[Point], marked: str) -> list[str]:
    """The points without names; the marked one below the others."""
    return [
        circle(
            *plot.place(*p[1:]),
            radius(p.step, marked),
            class_="here edge" if p.step == marked else "there edge",
        )
        for p in sorted(points, key=lambda p: p.step != marked)
    ]


def named_dots(plot: Plot, points: list[Point], marked: str, top: float) -> list[str]:
    """The points, each with its step's number at the best free place below `top`."""
    boxes = {p: Box(*plot.place(*p[1:]), *[2 * radius(p.step, marked)] * 2) for p in points}
    taken = [Box((plot.left + plot.right) / 2, top, plot.right - plot.left, 4)]
    leaders, names = [], []
    # The marked one chooses first, then the others from the top.
    for p in sorted(points, key=lambda p: (p.step != marked, boxes[p].y, p.step)):
        number, dot = p.step.partition("_")[0], boxes[p]
        others = [box for other, box in boxes.items() if other != p]
        name, led = free_place(plot, dot, NUMBER * len(number), taken, others, top)
        taken.append(name)
        if led:
            leaders.append(line(dot.x, dot.y, name.x, name.y, class_="soft-rule"))
            taken += along(dot, name)
        # On paper, so that the grid's lines end at it.
        names.append(rectangle(name.x - name.width / 2, name.y - 8, name.width, 16, class_="paper"))
        weight = "bold" if p.step == marked else None
        names.append(text(name.x, name.y + 5, number, **MIDDLE, font_weight=weight))
    return [*leaders, *names, *dots(plot, points, marked)]


def along(dot: Box, name: Box) -> list[Box]:
    """A line from a point to a name, as a chain of small boxes. It ends at the name."""
    steps = max(2, round(math.dist(dot[:2], name[:2]) / 2))
    parts = (n / steps for n in range(steps + 1))
    chain = [Box(dot.x + (name.x - dot.x) * p, dot.y + (name.y - dot.y) * p, 2, 2) for p in parts]
    return [part for part in chain if not part.overlaps(name)]


def free_place(
    plot: Plot, dot: Box, width: float, taken: list[Box], others: list[Box], top: float
) -> tuple[Box, bool]:
    """Where a point's name can stand, and whether a line leads there: the nearest place below `top` where
    nothing is. Beside the point, if none of the other points is nearly as close to the name; else at the end
    of a line that runs through nothing, either, or, if others cover a part of the point, through nothing
    outside of it."""
    for covered, distance, sixteenth in product((False, True), range(1, 17), DIRECTIONS):
        angle = math.tau * sixteenth / 16
        reach = dot.width / 2 + (12 if distance == 1 else 8 + 8 * distance)
        x, y = dot.x + (reach + width / 2 - 5) * math.cos(angle), dot.y + reach * math.sin(angle)
        name = Box(x, y, width, FONT)
        inside = (
            plot.left < x - width / 2 and x + width / 2 < plot.right and top < y - 8 and y + 8 < plot.bottom
        )
        if not inside or any(name.overlaps(other) for other in (*taken, *others, dot)):
            continue
        if distance == 1 and all(name.gap(other) > 1.5 * name.gap(dot) for other in others):
            return name, False
        parts = [part for part in along(dot, name) if not (covered and part.overlaps(dot))]
        if distance > 1 and not any(part.overlaps(other) for part in parts for other in (*taken, *others)):
            return name, True
    return Box(dot.x, dot.y - 14, width, FONT), False
