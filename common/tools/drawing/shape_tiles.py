"""Draws a small C in tiles of two sizes, and how many multiprocessors that keeps busy."""

from dataclasses import dataclass

from tools.drawing.picture import MARGIN, Sheet
from tools.drawing.svg import PHONE, rectangle, text
from tools.drawing.tiling import filled

SIDE, GAP = 150, 20  # of C; between the two
ACROSS = 22  # multiprocessors in a row


@dataclass(frozen=True)
class Tiles:
    """Tiles of rows x cols, each cut into so many parts along K."""

    rows: int
    cols: int
    parts: int = 1

    def count(self, n: int) -> int:
        return -(-n // self.rows) * -(-n // self.cols)

    def busy(self, n: int, sms: int) -> int:
        return min(sms, self.count(n) * self.parts)

    def says(self, n: int, sms: int) -> str:
        cut = f"{self.count(n)} × {self.parts} parts " if self.parts > 1 else ""
        return f"{cut}on {self.busy(n, sms)} SMs"


def picture(n: int, sms: int, both: tuple[Tiles, Tiles]) -> str:
    sheet = Sheet(f"{n} × {n} of C on {sms} SMs")
    top, wide = sheet.y + 36, (PHONE - 2 * MARGIN - GAP) / 2
    scale, unit = SIDE / n, wide / ACROSS
    for tiles, left, color in zip(both, (MARGIN, MARGIN + wide + GAP), ("there", "here"), strict=True):
        title = f"{tiles.rows} × {tiles.cols}: {tiles.count(n)} tiles"
        sheet.body.append(text(left, top - 12, title, font_weight="bold"))
        for row in range(0, n, tiles.rows):
            for col in range(0, n, tiles.cols):
                size = min(tiles.cols, n - col) * scale - 1, min(tiles.rows, n - row) * scale - 1
                box = left + col * scale, top + row * scale, *size
                sheet.body.append(rectangle(*box, **filled(color, 0.5)))
        sheet.body.append(text(left, top + SIDE + 24, tiles.says(n, sms)))
        for sm in range(sms):
            box = left + sm % ACROSS * unit, top + SIDE + 34 + sm // ACROSS * unit, unit - 1.5, unit - 1.5
            look = filled(color, 0.7) if sm < tiles.busy(n, sms) else {"class_": "empty"}
            sheet.body.append(rectangle(*box, **look))
    sheet.y = top + SIDE + 34 + -(-sms // ACROSS) * unit
    return sheet.document(describe(n, sms, both), MARGIN)


def describe(n: int, sms: int, both: tuple[Tiles, Tiles]) -> str:
    """The picture in words, for those who cannot see it."""
    parts = (f"In tiles of {tiles.rows} × {tiles.cols}: {tiles.says(n, sms)}." for tiles in both)
    return f"C of {n} × {n} on {sms} SMs. {' '.join(parts)}"
