"""Small SVGs as text: the same input gives the same bytes; legible in light and in dark surroundings."""

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

FONT = 14  # in the picture's units; pictures are at most PHONE wide, so text is 11 pixels on a phone
PHONE = 440
# Each picture has its own background: a transparent one would hide the text in one of the two modes.
COLORS = {  # class: (property, light, dark)
    "paper": ("fill", "#ffffff", "#17191f"),
    "ink": ("fill", "#1c1c21", "#ececf0"),
    "soft": ("fill", "#5c6270", "#a6acb8"),
    "mark": ("fill", "#b3261e", "#ff8a80"),
    "empty": ("fill", "#e6e8ec", "#2c3038"),
    "here": ("fill", "#d55e00", "#ff9a4d"),
    "there": ("fill", "#0072b2", "#56b4e9"),
    "rule": ("stroke", "#c4c8d0", "#4a4f5a"),
    "soft-rule": ("stroke", "#5c6270", "#a6acb8"),
    "strong": ("stroke", "#1c1c21", "#ececf0"),
    "edge": ("stroke", "#ffffff", "#17191f"),
}
FAMILY = '"DejaVu Sans", Verdana, "Liberation Sans", Arial, sans-serif'


def style() -> str:
    """The colours by class, in light and in dark surroundings. No variables: not every viewer knows them."""
    light = [f".{name} {{ {what}: {color}; }}" for name, (what, color, _) in COLORS.items()]
    dark = [f".{name} {{ {what}: {color}; }}" for name, (what, _, color) in COLORS.items()]
    return "\n".join(
        [
            "",
            f"text {{ font-family: {FAMILY}; }}",
            "path { fill: none; }",
            *light,
            "@media (prefers-color-scheme: dark) {",
            *dark,
            "}",
            "",
        ]
    )


def trim(value: float) -> str:
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def element(name: str, content: str | None = None, **attributes: object) -> str:
    """<name a="1">content</name>; `class_` stands for class, `font_size` for font-size."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = trim(value) if isinstance(value, float) else str(value)
            parts.append(f"{key.rstrip('_').replace('_', '-')}={quoteattr(text)}")
    start = " ".join(parts)
    return f"<{start}/>" if content is None else f"<{start}>{content}</{name}>"


def text(x: float, y: float, content: str, size: float = FONT, **attributes: object) -> str:
    attributes.setdefault("class_", "ink")
    return element("text", escape(content), x=float(x), y=float(y), font_size=float(size), **attributes)


def rectangle(x: float, y: float, width: float, height: float, **attributes: object) -> str:
    return element("rect", x=float(x), y=float(y), width=float(width), height=float(height), **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: object) -> str:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), **attributes)


def document(width: float, height: float, title: str, description: str, body: Iterable[str]) -> str:
    """A whole SVG file. Title and description are for those who cannot see it."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {trim(width)} {trim(height)}" '
        f'width="{trim(width * 1.5)}" height="{trim(height * 1.5)}" role="img" aria-labelledby="title desc">'
    )
    return "\n".join(
        [
            head,
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(description)}</desc>',
            f"<style>{style()}</style>",
            rectangle(0, 0, width, height, class_="paper", rx=4),
            *body,
            "</svg>",
            "",
        ]
    )


# ---- Colours ---------------------------------------------------------------------------------------------

# Viridis: its steps look equally large, also to the colour-blind and in greyscale.
RAMP = ["440154", "482878", "3e4a89", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"]


def ramp(position: float) -> str:
    """The colour at a position from 0 to 1, as #rrggbb."""
    place = min(max(position, 0.0), 1.0) * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    part = place - low
    channels = [
        round(int(RAMP[low][c : c + 2], 16) * (1 - part) + int(RAMP[low + 1][c : c + 2], 16) * part)
        for c in (0, 2, 4)
    ]
    return "#" + "".join(f"{c:02x}" for c in channels)


def luminance(color: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = [int(color[c : c + 2], 16) / 255 for c in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """From 1 to 21; text wants 4.5."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def ink_on(color: str) -> str:
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(color, ink))
