"""The roofline: what each step reaches, against what the arithmetic and the DRAM allow, as an SVG."""

import math
from dataclasses import dataclass

from svg import FONT, PHONE, document, element, line, rectangle, text, trim

HEIGHT = 480
LEFT, RIGHT, TOP, BOTTOM = 44, 14, 66, 56
NUMBER = 9.2  # width of a digit


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
    """The axes: from figures to places."""

    def __init__(self, points: list[Point], peak_tflops: float, tb_per_s: float):
        ridge = peak_tflops / tb_per_s
        self.x_low = min(1.0, *(p.flops_per_byte / 1.5 for p in points))
        self.x_high = max(100 * ridge, *(p.flops_per_byte * 2 for p in points))
        self.y_low = min(0.4, *(p.tflops / 1.3 for p in points))
        self.y_high = max(peak_tflops, *(p.tflops for p in points)) * 1.4
        self.right, self.bottom = PHONE - RIGHT, HEIGHT - BOTTOM

    def x(self, value: float) -> float:
        part = math.log(value / self.x_low) / math.log(self.x_high / self.x_low)
        return LEFT + (self.right - LEFT) * part

    def y(self, value: float) -> float:
        part = math.log(value / self.y_low) / math.log(self.y_high / self.y_low)
        return self.bottom - (self.bottom - TOP) * part


def svg(points: list[Point], marked: str, peak_tflops: float, tb_per_s: float, device: str) -> str:
    """The picture with all points, that of the step `marked` standing out."""
    plot = Plot(points, peak_tflops, tb_per_s)
    body = [text(LEFT, 22, device, size=15, font_weight="bold")]
    body.append(element("circle", cx=LEFT + 7.0, cy=42.0, r=7.0, class_="here"))
    body.append(text(LEFT + 20, 47, f"{marked.replace('_', ' ')}; small: the steps before"))
    body += axes(plot)
    body += roofs(plot, peak_tflops, tb_per_s)
    body += point_marks(plot, points, marked, plot.y(peak_tflops))
    description = describe(points, marked, peak_tflops, tb_per_s)
    return document(PHONE, HEIGHT, f"Roofline of {device}", description, body)


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


def point_marks(plot: Plot, points: list[Point], marked: str, roof_height: float) -> list[str]:
    """The points, each with its step's number at the nearest free place."""
    radius = {p.step: 7.0 if p.step == marked else 4.5 for p in points}
    places = {p.step: (plot.x(p.flops_per_byte), plot.y(p.tflops)) for p in points}
    taken = [Box(*places[step], 2 * r, 2 * r) for step, r in radius.items()]
    taken.append(Box((LEFT + plot.right) / 2, roof_height, plot.right - LEFT, 4))
    leaders, marks, names = [], [], []
    # The marked one chooses first, then the others from the top.
    for step in sorted(places, key=lambda step: (step != marked, places[step][1], step)):
        x, y = places[step]
        name = step.partition("_")[0]
        box, distance = free_place(plot, x, y, NUMBER * len(name), taken, roof_height)
        taken.append(box)
        here = step == marked
        if distance > 1:
            leaders.append(line(x, y, box.x, box.y, class_="soft-rule"))
        marks.append(
            element("circle", cx=x, cy=y, r=radius[step], class_="here edge" if here else "there edge")
        )
        # On paper, so that the grid's and other points' lines end at it.
        names.append(rectangle(box.x - box.width / 2, box.y - 8, box.width, 16, class_="paper"))
        weight = "bold" if here else None
        names.append(text(box.x, box.y + 5, name, text_anchor="middle", font_weight=weight))
    return [*leaders, *names, *marks]


def free_place(plot: Plot, x: float, y: float, width: float, taken: list[Box], top: float) -> tuple[Box, int]:
    """Where a name can stand: the nearest place around a point that is free and below `top`, and how far it
    is, from 1."""
    for distance in range(1, 9):
        for angle in (0, 180, 90, 270, 45, 135, 315, 225):
            reach = 5 + 12 * distance
            dx = (reach + width / 2 - 5) * math.cos(math.radians(angle))
            dy = reach * math.sin(math.radians(angle))
            box = Box(x + dx, y + dy, width, FONT)
            inside = (
                box.x - width / 2 > LEFT
                and box.x + width / 2 < plot.right
                and top < box.y - 8
                and box.y + 8 < plot.bottom
            )
            if inside and not any(box.overlaps(other) for other in taken):
                return box, distance
    return Box(x, y - 14, width, FONT), 1


def describe(points: list[Point], marked: str, peak_tflops: float, tb_per_s: float) -> str:
    parts = [
        f"{p.step}: {p.flops_per_byte:.0f} FLOP per byte, {p.tflops:.2f} TFLOP/s"
        + (" (this step)" if p.step == marked else "")
        for p in points
    ]
    return f"Roofs: {peak_tflops:.1f} TFLOP/s and {tb_per_s:.1f} TB/s. " + "; ".join(parts) + "."
