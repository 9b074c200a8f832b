"""The roofline: what each step reaches, against what the arithmetic and the DRAM allow, as an SVG."""

import math
from dataclasses import dataclass

from tools.drawing.svg import FONT, PHONE, document, element, line, rectangle, text, trim

HEIGHT = 480
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 66, 56
NUMBER = 9.2  # width of a digit
NEAR = 30  # closer than this, two points' names get into each other's way
TOUCHING = 11


@dataclass(frozen=True)
class Point:
    """A step's kernel: operations to a byte of DRAM traffic, and speed."""

    step: str
    flops_per_byte: float
    tflops: float


@dataclass(frozen=True)
class Box:
    """A place on the picture that is taken."""

    x: float  # the middle
    y: float
    width: float
    height: float

    def overlaps(self, other: "Box") -> bool:
        near_x = abs(self.x - other.x) * 2 < self.width + other.width
        return near_x and abs(self.y - other.y) * 2 < self.height + other.height


def roof(flops_per_byte: float, peak_tflops: float, tb_per_s: float) -> float:
    """The speed that is possible at best, in TFLOP/s."""
    return min(peak_tflops, flops_per_byte * tb_per_s)


def ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20, ... within the range."""
    found = []
    for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        found += [m * 10.0**exponent for m in (1, 2, 5) if low <= m * 10.0**exponent <= high]
    return found


class Plot:
    """Axes, both logarithmic: from figures to places."""

    def __init__(
        self,
        ranges: tuple[float, float, float, float],
        left: float = LEFT,
        top: float = TOP,
        right: float = PHONE - RIGHT,
        bottom: float = HEIGHT - BOTTOM,
    ):
        self.x_low, self.x_high, self.y_low, self.y_high = ranges
        self.left, self.top, self.right, self.bottom = left, top, right, bottom

    def x(self, value: float) -> float:
        part = math.log(value / self.x_low) / math.log(self.x_high / self.x_low)
        return self.left + (self.right - self.left) * part

    def y(self, value: float) -> float:
        part = math.log(value / self.y_low) / math.log(self.y_high / self.y_low)
        return self.bottom - (self.bottom - self.top) * part

    def place(self, point: Point) -> tuple[float, float]:
        return self.x(point.flops_per_byte), self.y(point.tflops)


def whole_plot(points: list[Point], peak_tflops: float, tb_per_s: float) -> Plot:
    """The axes on which all points and both roofs have room."""
    return Plot(
        (
            min(1.0, *(p.flops_per_byte / 1.5 for p in points)),
            max(100 * peak_tflops / tb_per_s, *(p.flops_per_byte * 2 for p in points)),
            min(0.4, *(p.tflops / 1.3 for p in points)),
            max(peak_tflops, *(p.tflops for p in points)) * 1.4,
        )
    )


def crowd(plot: Plot, points: list[Point]) -> list[Point]:
    """The points that stand so close together that their names need more room: the largest group in which
    each has another near it, if it has three or more and some of them touch. Empty without such a group."""
    groups: list[list[Point]] = []
    for point in points:
        place = plot.place(point)
        near = [g for g in groups if any(math.dist(place, plot.place(p)) < NEAR for p in g)]
        groups = [g for g in groups if g not in near] + [[point, *(p for g in near for p in g)]]
    largest = max(groups, key=len)
    places = [plot.place(p) for p in largest]
    touch = any(math.dist(a, b) < TOUCHING for n, a in enumerate(places) for b in places[:n])
    return [p for p in points if p in largest] if len(largest) >= 3 and touch else []


def inset_plot(plot: Plot, group: list[Point]) -> Plot:
    """Larger axes for a crowd, in the lower right corner, which lies far below the roofs."""
    right, bottom = plot.right - 8, plot.bottom - 28
    left, top = right - 156, bottom - 150

    def range_of(values: list[float]) -> tuple[float, float]:
        low, high = min(values), max(values)
        room = max((high / low) ** 0.18, 1.02)
        return low / room, high * room

    x_low, x_high = range_of([p.flops_per_byte for p in group])
    y_low, y_high = range_of([p.tflops for p in group])
    return Plot((x_low, x_high, y_low, y_high), left, top, right, bottom)


def svg(points: list[Point], marked: str, peak_tflops: float, tb_per_s: float, device: str) -> str:
    """The picture with all points, that of the step `marked` standing out. Where many stand close together,
    they get their names in an enlarged part of the picture."""
    plot = whole_plot(points, peak_tflops, tb_per_s)
    body = [text(LEFT, 22, device, size=15, font_weight="bold")]
    body.append(element("circle", cx=LEFT + 7.0, cy=42.0, r=7.0, class_="here"))
    body.append(text(LEFT + 20, 47, f"{marked.replace('_', ' ')}; small: the steps before"))
    body += axes(plot)
    body += roofs(plot, peak_tflops, tb_per_s)
    group = crowd(plot, points)
    if group:
        body += inset(plot, group, marked)
    others = [p for p in points if p not in group]
    body += dots(plot, group, marked)
    body += point_marks(plot, others, marked, plot.y(peak_tflops))
    description = describe(points, marked, peak_tflops, tb_per_s)
    return document(PHONE, HEIGHT, f"Roofline of {device}", description, body)


def inset(plot: Plot, group: list[Point], marked: str) -> list[str]:
    """The crowd once more, enlarged, and a frame that says where it is from."""
    part = inset_plot(plot, group)
    xs, ys = zip(*map(plot.place, group), strict=True)
    left, right, top, bottom = min(xs) - 9, max(xs) + 9, min(ys) - 9, max(ys) + 9
    wide, high = part.right - part.left, part.bottom - part.top
    body = [
        line(left, bottom, part.left, part.top, class_="soft-rule"),
        line(right, bottom, part.right, part.top, class_="soft-rule"),
        rectangle(left, top, right - left, bottom - top, class_="soft-rule", fill="none", rx=3),
        rectangle(part.left - 30, part.top, wide + 30, high + 22, class_="paper"),
        rectangle(
            part.left,
            part.top,
            part.right - part.left,
            part.bottom - part.top,
            class_="paper soft-rule",
            rx=3,
        ),
    ]
    for tick in even_ticks(part.x_low, part.x_high):
        body.append(line(part.x(tick), part.top, part.x(tick), part.bottom, class_="rule"))
        place = part.x(tick), part.bottom + 16
        body.append(text(*place, trim(tick), text_anchor="middle", class_="soft"))
    for tick in even_ticks(part.y_low, part.y_high):
        body.append(line(part.left, part.y(tick), part.right, part.y(tick), class_="rule"))
        body.append(text(part.left - 5, part.y(tick) + 5, trim(tick), text_anchor="end", class_="soft"))
    return body + point_marks(part, group, marked, part.top)


def even_ticks(low: float, high: float) -> list[float]:
    """Two to four multiples of one round number within the range."""
    for exponent in range(math.floor(math.log10(high - low)) - 1, 10):
        for m in (1, 2, 5):
            step = m * 10.0**exponent
            found = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
            if len(found) <= 4:
                return found
    return []


def axes(plot: Plot) -> list[str]:
    body = []
    for tick in ticks(plot.x_low, plot.x_high):
        if round(math.log10(tick), 6).is_integer():
            place = plot.x(tick)
            body.append(line(place, TOP, place, plot.bottom, class_="rule"))
            body.append(text(place, plot.bottom + 18, trim(tick), text_anchor="middle", class_="soft"))
    for tick in ticks(plot.y_low, plot.y_high):
        body.append(line(LEFT, plot.y(tick), plot.right, plot.y(tick), class_="rule"))
        body.append(text(LEFT - 5, plot.y(tick) + 5, trim(tick), text_anchor="end", class_="soft"))
    below = (LEFT + plot.right) / 2, HEIGHT - 14
    body.append(text(*below, "FLOP per byte of DRAM traffic", text_anchor="middle", class_="soft"))
    body.append(text(LEFT + 6, TOP + 12, "TFLOP/s", class_="soft"))
    return body


def roofs(plot: Plot, peak_tflops: float, tb_per_s: float) -> list[str]:
    ridge = peak_tflops / tb_per_s
    start = max(plot.x_low, plot.y_low / tb_per_s)
    corners = [(start, start * tb_per_s), (ridge, peak_tflops), (plot.x_high, peak_tflops)]
    path = "M" + " L".join(f"{trim(plot.x(x))} {trim(plot.y(y))}" for x, y in corners)
    # Along the slope, in its middle.
    middle = math.sqrt(start * ridge)
    x, y = plot.x(middle), plot.y(middle * tb_per_s)
    angle = math.degrees(math.atan2(plot.y(2 * middle * tb_per_s) - y, plot.x(2 * middle) - x))
    turn = f"rotate({trim(angle)} {trim(x)} {trim(y)})"
    peak = text(plot.right - 4, plot.y(peak_tflops) - 7, f"FP32 peak {peak_tflops:.1f}", text_anchor="end")
    return [
        element("path", d=path, class_="strong", stroke_width=2.5),
        peak,
        text(x, y - 7, f"DRAM {tb_per_s:.1f} TB/s", transform=turn, text_anchor="middle"),
    ]


def radius_of(step: str, marked: str) -> float:
    return 7.0 if step == marked else 4.5


def dots(plot: Plot, points: list[Point], marked: str) -> list[str]:
    """The points without names; the marked one below the others."""
    marks = []
    for p in sorted(points, key=lambda p: p.step != marked):
        x, y = plot.place(p)
        kind = "here edge" if p.step == marked else "there edge"
        marks.append(element("circle", cx=x, cy=y, r=radius_of(p.step, marked), class_=kind))
    return marks


def point_marks(plot: Plot, points: list[Point], marked: str, top: float) -> list[str]:
    """The points, each with its step's number at the best free place below `top`."""
    radius = {p.step: radius_of(p.step, marked) for p in points}
    places = {p.step: plot.place(p) for p in points}
    edge = Box((plot.left + plot.right) / 2, top, plot.right - plot.left, 4)
    names_taken, leaders_taken = [], []
    leaders, names = [], []
    # The marked one chooses first, then the others from the top.
    for step in sorted(places, key=lambda step: (step != marked, places[step][1], step)):
        x, y = places[step]
        name = step.partition("_")[0]
        marks = {other: Box(*places[other], 2 * r, 2 * r) for other, r in radius.items()}
        others = [mark for other, mark in marks.items() if other != step]
        in_the_way = [*others, *names_taken, *leaders_taken]
        box, led = free_place(plot, marks[step], NUMBER * len(name), [*in_the_way, edge], others, top)
        names_taken.append(box)
        if led:
            leaders.append(line(x, y, box.x, box.y, class_="soft-rule"))
            leaders_taken += along(marks[step], box)
        # On paper, so that the grid's lines end at it.
        names.append(rectangle(box.x - box.width / 2, box.y - 8, box.width, 16, class_="paper"))
        weight = "bold" if step == marked else None
        names.append(text(box.x, box.y + 5, name, text_anchor="middle", font_weight=weight))
    return [*leaders, *names, *dots(plot, points, marked)]


def along(dot: Box, box: Box) -> list[Box]:
    """A line from a point to a name, as a chain of small boxes. It ends at the name."""
    steps = max(2, round(math.hypot(box.x - dot.x, box.y - dot.y) / 2))
    parts = [n / steps for n in range(steps + 1)]
    chain = [Box(dot.x + (box.x - dot.x) * p, dot.y + (box.y - dot.y) * p, 2, 2) for p in parts]
    return [part for part in chain if not part.overlaps(box)]


def free_place(
    plot: Plot, dot: Box, width: float, in_the_way: list[Box], others: list[Box], top: float
) -> tuple[Box, bool]:
    """Where a point's name can stand, and whether a line leads there: the nearest place below `top` that has
    nothing `in_the_way`. Beside the point, if none of the other points is nearly as close to the name; else
    at the end of a line that runs through nothing, either."""

    def far(box: Box, to: Box) -> float:
        return math.hypot(
            max(0.0, abs(to.x - box.x) - box.width / 2), max(0.0, abs(to.y - box.y) - box.height / 2)
        )

    for distance in range(1, 17):
        for sixteenth in (0, 8, 4, 12, 2, 6, 14, 10, 1, 7, 9, 15, 3, 5, 11, 13):
            angle = math.tau * sixteenth / 16
            reach = dot.width / 2 + (12 if distance == 1 else 8 + 8 * distance)
            dx = (reach + width / 2 - 5) * math.cos(angle)
            box = Box(dot.x + dx, dot.y + reach * math.sin(angle), width, FONT)
            inside = (
                box.x - width / 2 > plot.left
                and box.x + width / 2 < plot.right
                and top < box.y - 8
                and box.y + 8 < plot.bottom
            )
            if not inside or any(box.overlaps(other) for other in [*in_the_way, dot]):
                continue
            if distance == 1:
                if all(far(box, other) > 1.5 * far(box, dot) for other in others):
                    return box, False
            elif not any(part.overlaps(other) for part in along(dot, box) for other in in_the_way):
                return box, True
    return Box(dot.x, dot.y - 14, width, FONT), False


def describe(points: list[Point], marked: str, peak_tflops: float, tb_per_s: float) -> str:
    parts = [
        f"{p.step}: {p.flops_per_byte:.0f} FLOP per byte, {p.tflops:.2f} TFLOP/s"
        + (" (this step)" if p.step == marked else "")
        for p in points
    ]
    return f"Roofs: {peak_tflops:.1f} TFLOP/s and {tb_per_s:.1f} TB/s. " + "; ".join(parts) + "."
