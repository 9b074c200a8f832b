"""Small SVGs as text: the same input gives the same bytes; legible in light and in dark surroundings."""

from collections.abc import Iterable
from typing import Any
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
    light, dark = ([f".{name} {{ {c[0]}: {c[n]}; }}" for name, c in COLORS.items()] for n in (1, 2))
    head = ["", f"text {{ font-family: {FAMILY}; }}", "path { fill: none; }"]
    return "\n".join([*head, *light, "@media (prefers-color-scheme: dark) {", *dark, "}", ""])


def trim(value: float) -> str:
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def element(name: str, content: str | None = None, **attributes: Any) -> str:
    """<name a="1">content</name>; `class_` stands for class, `font_size` for font-size."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            text = trim(value) if isinstance(value, float) else str(value)
            parts.append(f"{key.rstrip('_').replace('_', '-')}={quoteattr(text)}")
    start = " ".join(parts)
    return f"<{start}/>" if content is None else f"<{start}>{content}</{name}>"


def text(x: float, y: float, content: str, size: float = FONT, **attributes: Any) -> str:
    attributes.setdefault("class_", "ink")
    return element("text", escape(content), x=float(x), y=float(y), font_size=float(size), **attributes)


def rectangle(x: float, y: float, width: float, height: float, **attributes: Any) -> str:
    return element("rect", x=float(x), y=float(y), width=float(width), height=float(height), **attributes)


def line(x1: float, y1: float, x2: float, y2: float, **attributes: Any) -> str:
    return element("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), **attributes)


def circle(x: float, y: float, radius: float, **attributes: Any) -> str:
    return element("circle", cx=float(x), cy=float(y), r=float(radius), **attributes)


def document(width: float, height: float, title: str, description: str, body: Iterable[str]) -> str:
    """A whole SVG file. Title and description are for those who cannot see it."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {trim(width)} {trim(height)}" '
        f'width="{trim(width * 1.5)}" height="{trim(height * 1.5)}" role="img" aria-labelledby="title desc">'
    )
    words = f'<title id="title">{escape(title)}</title>\n<desc id="desc">{escape(description)}</desc>'
    paper = rectangle(0, 0, width, height, class_="paper", rx=4)
    return "\n".join([head, words, f"<style>{style()}</style>", paper, *body, "</svg>", ""])


# ---- Lanes -----------------------------------------------------------------------------------------------

# Viridis, from lane 0 to 31, without its beginning, which is too dark for a dark background: its steps look
# equally large, also to the colour-blind and in greyscale.
LANES = (
    "471d6e48277845317c433a814043853d4c893a548b365c8c33648d306b8e2d728e2a798e27808e25878d238f8c21968a"
    "1f9e8925a5852bab8130b27c39b87748bf6e57c56566cb5d77d0528ad4469dd93ab0dd2ec3e02ad7e228eae527fde725"
)


def lane_colors(lane: int) -> tuple[str, str]:
    """A lane's colour, and that of text on it: black or white, whichever has the higher contrast."""
    return "#" + LANES[6 * lane : 6 * lane + 6], "#ffffff" if lane < 13 else "#000000"
