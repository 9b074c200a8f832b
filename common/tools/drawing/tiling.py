"""Draws who computes what of a block's tile of C, and which elements of A and B that takes: the block's, a
warp's and a lane's share, as a recording of the block shows them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, product
from typing import Any, NamedTuple

from tools.base import UsageError
from tools.claims.recording import Element, Recording
from tools.drawing.picture import MARGIN, Sheet, runs
from tools.drawing.svg import COLORS, PHONE, element, lane_colors, line, text, trim

GAP = 8
LABEL = 18  # room of a line of text above or below a matrix
DEEPEST = 42  # of a tile's part of K: what is left for it beside C
ZOOM = 160  # height of the part of the warp's tile that is drawn large, at most
PIECE = 25.0, 20.0  # width and height of a lane's piece there: its number can be read
LANES = 32


class Box(NamedTuple):
    """Rows and columns of a matrix."""

    row: int
    col: int
    rows: int
    cols: int


def boxes(cells: Iterable[tuple[int, int]]) -> list[Box]:
    """Rectangles that hold exactly these cells: runs in a row, joined with those of the row above that begin
    and end where they do."""
    rows_of_run: dict[range, list[int]] = defaultdict(list)
    for row, in_row in groupby(sorted(set(cells)), lambda cell: cell[0]):
        for run in runs(col for _, col in in_row):
            rows_of_run[run].append(row)
    found = ((cols, rows) for cols, of_run in rows_of_run.items() for rows in runs(of_run))
    return sorted(Box(rows[0], cols[0], len(rows), len(cols)) for cols, rows in found)


@dataclass(frozen=True)
class Tiling:
    """What is drawn. The block's tile of C is m x n, and it takes bk terms of K at a time."""

    step: str
    m: int
    n: int
    bk: int
    k: range  # the terms for which operands are marked
    warp: int
    lane: int
    owners: dict[tuple[int, int], tuple[int, int]]  # of each element of C
    operands: dict[tuple[int, int], set[Element]]  # of warp and lane, in those terms

    @cached_property
    def _stored(self) -> dict[tuple[int, int | None], set[tuple[int, int]]]:
        """Of C, by warp and lane; by warp and None what all its lanes store."""
        found = defaultdict[tuple[int, int | None], set[tuple[int, int]]](set)
        for at, (warp, lane) in self.owners.items():
            found[warp, lane].add(at)
            found[warp, None].add(at)
        return found

    def of(self, matrix: str, warp: int, lane: int | None = None) -> set[tuple[int, int]]:
        """Rows and columns of a lane's elements, or a warp's."""
        if matrix == "C":
            return self._stored[warp, lane]
        every = (self.operands.get((warp, one), set()) for one in range(LANES) if lane in (None, one))
        return {(e.row, e.col) for elements in every for e in elements if e.matrix == matrix}


def stores_all(recording: Recording) -> dict[tuple[int, int], tuple[int, int]]:
    """Row and column of C -> warp and lane. Raises UsageError unless the recorded block stores all of C."""
    owners = recording.owners()
    if {row for row, _ in owners} != set(range(recording.m)) or len(owners) != recording.m * recording.n:
        raise UsageError(f"the first block of {recording.step} does not store {recording.m} x {recording.n}")
    return owners


def tiling(recording: Recording, bk: int, terms: int, warp: int, lane: int) -> Tiling:
    """terms: of K, that are multiplied at once: 1, or an mma's. Marked are the second such terms."""
    k = range(terms, 2 * terms) if bk >= 2 * terms else range(terms)
    owners = stores_all(recording)
    if (warp, lane) not in owners.values():
        raise UsageError(f"lane {lane} of warp {warp} of {recording.step} stores nothing")
    operands = {
        who: {e for e in elements if (e.col if e.matrix == "A" else e.row) in k}
        for who, elements in recording.operands().items()
    }
    return Tiling(recording.step, recording.m, recording.n, bk, k, warp, lane, owners, operands)


# ---- Words -----------------------------------------------------------------------------------------------


def extent(cells: set[tuple[int, int]]) -> str:
    """16 × 128, or how many if they fill no rectangle."""
    found = boxes(cells)
    if len(found) == 1:
        return f"{found[0].rows} × {found[0].cols}"
    rows, cols = {row for row, _ in cells}, {col for _, col in cells}
    if len(rows) * len(cols) == len(cells):
        return f"{len(rows)} rows × {len(cols)} columns"
    return f"{len(cells)} elements"


def said(t: Tiling) -> list[str]:
    """What the picture shows, a sentence each: of the block, the warp, the lane."""
    at_once = "one term" if len(t.k) == 1 else f"{len(t.k)} terms"
    shares = []
    for who, lane in (f"Warp {t.warp}", None), (f"Lane {t.lane} of it", t.lane):
        c = t.of("C", t.warp, lane)
        a, b = (len(t.of(matrix, t.warp, lane)) for matrix in "AB")
        shares.append(f"{who}: {extent(c)} of C. For {at_once} it loads {a} of A and {b} of B.")
    return [f"The block: {t.m} × {t.n} of C, {t.bk} terms of K at a time.", *shares]


def describe(t: Tiling) -> str:
    """The picture in words, for those who cannot see it."""
    return f"{t.step}: who computes what. " + " ".join(said(t))


# ---- The picture -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Matrix:
    """Where a part of a matrix is drawn, and how large an element is."""

    left: float
    top: float
    wide: float  # of an element
    high: float

    def shape(self, found: Iterable[Box], **attributes: Any) -> str:
        """All these boxes as one path."""
        path = (
            f"M{trim(self.left + b.col * self.wide)} {trim(self.top + b.row * self.high)}"
            f"h{trim(b.cols * self.wide)}v{trim(b.rows * self.high)}h{trim(-b.cols * self.wide)}z"
            for b in found
        )
        return element("path", d="".join(path), **attributes)


def filled(name: str, opacity: float = 1) -> dict[str, Any]:
    """A path is drawn by its outline if not told otherwise."""
    return {"style": f"fill:{COLORS[name][1]}", "fill_opacity": opacity}


def draw_matrices(sheet: Sheet, t: Tiling) -> None:
    """A at the left of C, B above: each of the size of what the block reads or computes, K enlarged."""
    depth = min(6.0 * t.bk, max(DEEPEST, 2.0 * t.bk * (t.bk <= 32)))  # of a tile
    deep, before = depth / t.bk, 42  # of a term; of texts at the left
    size = min((PHONE - 2 * MARGIN - before - 2 * depth - GAP) / t.n, 330 / t.m)
    left, top = MARGIN + before + 2 * depth + GAP, sheet.y + LABEL + 2 * depth + GAP
    right, bottom = left + t.n * size, top + t.m * size
    a = Matrix(left - GAP - 2 * depth, top, deep, size)
    b = Matrix(left, top - GAP - 2 * depth, size, deep)
    c = Matrix(left, top, size, size)
    for name, matrix, rows, cols in ("A", a, t.m, 2 * t.bk), ("B", b, 2 * t.bk, t.n), ("C", c, t.m, t.n):
        sheet.body.append(matrix.shape([Box(0, 0, rows, cols)], class_="empty"))
        for lane, color, opacity in (None, "there", 0.45), (t.lane, "here", 1.0):
            look = filled(color, opacity)
            if name != "C" and deep * len(t.k) < 2:  # too thin to be seen
                look |= {"stroke": COLORS[color][1], "stroke_width": 2, "stroke_opacity": opacity}
            sheet.body.append(matrix.shape(boxes(t.of(name, t.warp, lane)), **look))
    for warp in sorted({warp for warp, _ in t.owners.values()}):
        if len(found := boxes(t.of("C", warp))) == 1:
            sheet.body.append(c.shape(found, class_="edge", stroke_width=1))
    # From one tile of K to the next.
    dashed = {"class_": "soft-rule", "stroke_dasharray": "3 3"}
    sheet.body.append(line(a.left + depth, top, a.left + depth, bottom, **dashed))
    sheet.body.append(line(left, b.top + depth, right, b.top + depth, **dashed))
    sheet.over((left + right) / 2, b.top - 5, f"{t.n} columns", class_="soft")
    for n, content in enumerate((t.m, "rows")):
        sheet.before(a.left, (top + bottom) / 2 + n * (LABEL - 2), content)
    for n in range(2):
        sheet.over(a.left + (n + 0.5) * depth, bottom + LABEL - 4, t.bk, class_="soft")
        sheet.before(left, b.top + (n + 0.5) * depth + 5, t.bk)
    sheet.body.append(text(a.left + 2 * depth + 6, bottom + LABEL - 4, "→ K", class_="soft"))
    sheet.body.append(text(a.left + 1.5 * depth - 5, bottom - 8, "A", font_weight="bold"))
    sheet.body.append(text(left + 6, b.top + 1.5 * depth + 5, "B", font_weight="bold"))
    sheet.body.append(text(right - 16, bottom - 8, "C", font_weight="bold"))
    sheet.y = bottom + LABEL


def window(t: Tiling) -> tuple[Box, float, float]:
    """The part of the warp's tile that is drawn large, from its first element on, in whole pieces of lanes;
    and the width and height of an element there."""
    cells = t.of("C", t.warp)
    row, col = min(cells)
    rows, cols = max(r for r, _ in cells) + 1 - row, max(c for _, c in cells) + 1 - col
    pieces = boxes(t.of("C", t.warp, t.lane))
    high, wide = min(b.rows for b in pieces), min(b.cols for b in pieces)
    room = PHONE - 2 * MARGIN
    cols = min(cols, int(room / PIECE[0]) * wide)
    rows = min(rows, int(ZOOM / PIECE[1]) * high)
    return Box(row, col, rows, cols), room / cols, PIECE[1] / high


def draw_warp(sheet: Sheet, t: Tiling) -> None:
    """The lanes of the warp's tile, each in a colour of its own."""
    part, wide, high = window(t)
    matrix = Matrix(MARGIN - part.col * wide, sheet.y - part.row * high, wide, high)
    shown = set(product(range(part.row, part.row + part.rows), range(part.col, part.col + part.cols)))
    for lane in range(LANES):
        color, ink = lane_colors(lane)
        found = boxes(shown & t.of("C", t.warp, lane))
        outline = {"stroke": COLORS["here"][1], "stroke_width": 2} if lane == t.lane else {}
        sheet.body.append(matrix.shape(found, style=f"fill:{color}", class_="edge", **outline))
        for box in found:
            if box.cols * wide >= PIECE[0] - 3 and box.rows * high >= PIECE[1] - 3:
                x = matrix.left + (box.col + box.cols / 2) * wide
                y = matrix.top + (box.row + box.rows / 2) * high
                sheet.over(x, y + 5, lane, class_=None, style=f"fill:{ink}")
    sheet.y += part.rows * high


def picture(t: Tiling) -> str:
    """The SVG."""
    sheet = Sheet("Who computes what of a block's tile")
    sheet.y += 4
    draw_matrices(sheet, t)
    block, warp, lane = said(t)
    sheet.y += 2
    sheet.explain(block)
    sheet.explain(warp, class_="there")
    sheet.explain(lane, class_="here")
    part = "All" if boxes(t.of("C", t.warp)) == [window(t)[0]] else "The corner"
    sheet.y += 6
    sheet.write(f"{part} of warp {t.warp}'s tile of C, by lane", font_weight="bold")
    sheet.y += 6
    draw_warp(sheet, t)
    return sheet.document(describe(t), MARGIN)
