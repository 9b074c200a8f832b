"""The roofline: what each step reaches, against what the arithmetic and the DRAM allow, as an SVG."""

import math
from dataclasses import dataclass

from svg import FONT, PHONE, document, element, line, text, trim

HEIGHT = 400
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 44, 54
LABEL_HEIGHT = 18


@dataclass(frozen=True)
class Point:
    """A step's kernel: operations to a byte of DRAM traffic, and speed."""

    step: str
    flops_per_byte: float
    tflops: float


def roof(flops_per_byte: float, peak_tflops: float, tb_per_s: float) -> float:
    """The speed that is possible at best, in TFLOP/s."""
    return min(peak_tflops, flops_per_byte * tb_per_s)


def ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20, ... within the range."""
    found = []
    for exponent in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        found += [m * 10.0**exponent for m in (1, 2, 5) if low <= m * 10.0**exponent <= high]
    return found


def svg(points: list[Point], marked: str, peak_tflops: float, tb_per_s: float, device: str) -> str:
    """The picture with all points, that of the step `marked` standing out."""
    ridge = peak_tflops / tb_per_s
    x_low = min(1.0, *(p.flops_per_byte / 1.5 for p in points))
    x_high = max(20 * ridge, *(p.flops_per_byte * 4 for p in points))
    y_low = min(p.tflops for p in points) / 1.6
    y_high = peak_tflops * 1.5
    right, bottom = PHONE - RIGHT, HEIGHT - BOTTOM

    def x(value: float) -> float:
        return LEFT + (right - LEFT) * math.log(value / x_low) / math.log(x_high / x_low)

    def y(value: float) -> float:
        return bottom - (bottom - TOP) * math.log(value / y_low) / math.log(y_high / y_low)

    body = [text(LEFT, 20, "TFLOP/s, both axes logarithmic", class_="soft")]
    for tick in ticks(x_low, x_high):
        if round(math.log10(tick) % 1, 3) in (0, 1):
            body.append(line(x(tick), TOP, x(tick), bottom, class_="rule"))
            body.append(text(x(tick), bottom + 18, trim(tick), text_anchor="middle", class_="soft"))
    for tick in ticks(y_low, y_high):
        body.append(line(LEFT, y(tick), right, y(tick), class_="rule"))
        body.append(text(LEFT - 5, y(tick) + 5, trim(tick), text_anchor="end", class_="soft"))
    body.append(
        text(
            (LEFT + right) / 2,
            HEIGHT - 12,
            "FLOP per byte of DRAM traffic",
            text_anchor="middle",
            class_="soft",
        )
    )

    start = max(x_low, y_low / tb_per_s)
    corners = [(x(start), y(start * tb_per_s)), (x(ridge), y(peak_tflops)), (right, y(peak_tflops))]
    path = "M" + " L".join(f"{trim(px)} {trim(py)}" for px, py in corners)
    body.append(element("path", d=path, class_="strong", stroke_width=2.5))
    body.append(text(right, y(peak_tflops) - 7, f"FP32 peak {peak_tflops:.1f}", text_anchor="end"))
    # Along the slope, from its middle on.
    middle = math.sqrt(max(start, y_low * 1.3 / tb_per_s) * ridge)
    mx, my = x(middle), y(middle * tb_per_s)
    angle = math.degrees(math.atan2(y(2 * middle * tb_per_s) - my, x(2 * middle) - mx))
    turn = f"rotate({trim(angle)} {trim(mx)} {trim(my)})"
    body.append(text(mx, my - 7, f"DRAM {tb_per_s:.1f} TB/s", transform=turn, text_anchor="middle"))
    body += point_marks(points, marked, x, y, right, bottom)
    return document(
        PHONE, HEIGHT, f"Roofline of {device}", describe(points, marked, peak_tflops, tb_per_s), body
    )


def point_marks(points, marked, x, y, right, bottom) -> list[str]:
    """The points, and their names in a column at the right, in the order of height, with lines to them."""
    order = sorted(points, key=lambda p: (-p.tflops, p.step))
    heights = [y(p.tflops) for p in order]
    places: list[float] = []
    for height in heights:
        places.append(max(height, places[-1] + LABEL_HEIGHT) if places else height)
    overflow = max(0.0, places[-1] - (bottom - 6))
    # Pushed down too far: the lowest go up again.
    limit = bottom - 6
    for n in reversed(range(len(places))):
        places[n] = min(places[n], limit)
        limit = places[n] - LABEL_HEIGHT
        if not overflow:
            break
    column = right - 12 * FONT * 0.6
    body = []
    for point, place in zip(order, places, strict=True):
        here = point.step == marked
        px, py = x(point.flops_per_byte), y(point.tflops)
        name = point.step.replace("_", " ")
        body.append(line(px, py, column - 4, place, class_="strong" if here else "rule"))
        body.append(text(column, place + 5, name, font_weight="bold" if here else None, size=12.5))
        body.append(
            element("circle", cx=px, cy=py, r=7.0 if here else 4.5, class_="here" if here else "there")
        )
    return body


def describe(points: list[Point], marked: str, peak_tflops: float, tb_per_s: float) -> str:
    parts = [
        f"{p.step}: {p.flops_per_byte:.0f} FLOP per byte, {p.tflops:.2f} TFLOP/s"
        + (" (this step)" if p.step == marked else "")
        for p in points
    ]
    return f"Roofs: {peak_tflops:.1f} TFLOP/s and {tb_per_s:.1f} TB/s. " + "; ".join(parts) + "."
