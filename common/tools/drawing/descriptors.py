"""Draws where wgmma finds its operands: the core matrices that a descriptor leads to, as the matrix has them
and as they lie in shared memory, and the atoms of which a k-tile is made. Maps are those that
<build>/common/tools/fragment_maps prints for wgmma_bf16: a k-tile of 64 terms, a swizzle of 128 bytes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tools.base import UsageError, plural
from tools.drawing import play
from tools.drawing.picture import LANE_HEIGHT, MARGIN, Sheet
from tools.drawing.svg import PHONE, rectangle, text

LINE = 128  # bytes, of eight pieces
PIECE, PIECES = 16, 8
ELEMENTS = 8  # of BF16 in a piece
ATOM = 8 * LINE
CELL = 20
INK = {"here": "#000000", "there": "#ffffff"}
ON: dict[str, dict[str, Any]] = {n: {"class_": None, "style": f"fill:{ink}"} for n, ink in INK.items()}
Map = Mapping[str, Any]
Piece = Sequence[int]  # row of A or column of B, k, address


def pieces(operand: Map) -> list[Piece]:
    return [piece for of_k in operand["of_k"] for piece in of_k]


def span(numbers: Sequence[int]) -> str:
    return f"{min(numbers)}–{max(numbers)}"


def atoms(operand: Map, key: str) -> list[tuple[int, str, str]]:
    """Of each atom, in the order of addresses: where it begins, its rows or columns, its k."""
    held: dict[int, list[Piece]] = {}
    for piece in pieces(operand):
        held.setdefault(piece[2] // ATOM, []).append(piece)
    wide = {"a": (0, ELEMENTS - 1), "b": (ELEMENTS - 1, 0)}[key]
    found = []
    for number, of in sorted(held.items()):
        rows, ks = (span([p[n] for p in of] + [p[n] + wide[n] for p in of]) for n in (0, 1))
        found.append((number * ATOM, rows, ks))
    return found


def first_atom(a: Map) -> dict[tuple[int, int], int]:
    """Row and k of each piece in A's first eight rows: where it lies."""
    return {(row, k): at for row, k, at in pieces(a) if row < PIECES}


def groups(a: Map) -> list[list[int]]:
    """Of A's first eight rows, where the groups of 16 bytes lie in each."""
    where = first_atom(a)
    return [[where[row, n * ELEMENTS] % LINE // PIECE for n in range(PIECES)] for row in range(PIECES)]


def begins(operand: Map, at: int) -> int:
    """Where the descriptor of a k begins."""
    return min(address for *_, address in operand["of_k"][at])


def describe(maps: Map, at: int) -> str:
    """The picture in words, for those who cannot see it. at: number of the k, of 16 terms each."""
    a, b = maps["a"], maps["b"]
    ks = sorted({k for _, k, _ in a["of_k"][at]})
    where = first_atom(a)
    lie = "; ".join(
        f"of k {k} to {k + ELEMENTS - 1} at bytes {', '.join(str(where[row, k]) for row in range(PIECES))}"
        for k in ks
    )
    return (
        f"Where wgmma finds A and B for k {ks[0]} to {ks[-1] + ELEMENTS - 1}. Of A's rows 0 to 7 the pieces "
        f"of 16 bytes lie, {lie}. A's descriptor begins {begins(a, at)} bytes into the tile, and it is "
        f"{a['stride']} bytes from eight rows to the next. B's begins {begins(b, at)} bytes into the tile, "
        f"and it is {b['stride']} bytes from eight k to the next and {b['leading']} from 64 columns to the "
        "next."
    )


def picture(maps: Map, at: int) -> str:
    """The SVG, for one k."""
    a, b = maps["a"], maps["b"]
    ks = sorted({k for _, k, _ in a["of_k"][at]})
    looks = dict(zip(ks, ("here", "there"), strict=True))
    sheet = Sheet("Where one wgmma finds its operands")
    sheet.write("A cell: 16 bytes, eight k of a row, with the first k.", class_="soft")
    draw_atom(sheet, first_atom(a), looks)
    for n, (k, look) in enumerate(looks.items()):
        more = "a core matrix" if n == 0 else "the next along k"
        sheet.explain(f"{more}: rows 0–7, k {k}–{k + ELEMENTS - 1}", class_=look)
    sheet.y += 8
    sheet.write(f"The k-tile in atoms of {ATOM} bytes", font_weight="bold")
    sheet.write("Each: eight rows of A, or eight k × 64 columns of B.", class_="soft")
    for key, operand, what in ("a", a, 1), ("b", b, 2):
        touched = {address // ATOM for *_, address in operand["of_k"][at]}
        draw_atoms(sheet, key.upper(), atoms(operand, key), touched, what)
    leading = ["not used", str(b["leading"])]
    for name, operand, lead in zip("AB", (a, b), leading, strict=True):
        said = f"{name}: begins at {begins(operand, at)}, stride {operand['stride']}, leading {lead}"
        sheet.write(said)
    return sheet.document(describe(maps, at), MARGIN + 2)


def draw_atom(sheet: Sheet, where: Mapping[tuple[int, int], int], looks: Mapping[int, str]) -> None:
    """Eight rows, left as A has them, right as they lie."""
    gap, label = 18, 30
    wide = (PHONE - 2 * MARGIN - gap) / 2
    left, width, top = float(MARGIN + label), (wide - label) / PIECES, sheet.y + 8 + LANE_HEIGHT
    places = {key: key[0] * LINE + key[1] // ELEMENTS * PIECE for key in where}
    for name, lie, heads in ("rows of A", places, ELEMENTS), ("in shared memory", where, PIECE):
        sheet.body.append(text(left, top, name, font_weight="bold"))
        sheet.y = top + LANE_HEIGHT + 2
        for column in range(0, PIECES, 2):
            sheet.over(left + (column + 0.5) * width, sheet.y, column * heads, class_="soft")
        sheet.y += 5
        begin = sheet.y
        for row in range(PIECES):
            label_of_row = row if heads == ELEMENTS else row * LINE
            sheet.before(left, begin + row * CELL + CELL / 2 + 5, label_of_row)
        for (_, k), at in lie.items():
            x, y = left + at % LINE / PIECE * width, begin + at // LINE * CELL
            look = looks.get(k)
            sheet.body.append(rectangle(x, y, width, CELL, class_=f"{look or 'empty'} edge"))
            style = {"class_": "soft"} if look is None else ON[look]
            sheet.over(x + width / 2, y + CELL / 2 + 5, k, **style)
        sheet.y = begin + PIECES * CELL
        left += wide + gap
    sheet.y += 2


def draw_atoms(
    sheet: Sheet, name: str, found: list[tuple[int, str, str]], touched: set[int], what: int
) -> None:
    """Atoms as they lie, a row of boxes for those that hold the same columns of B. what: which of an atom's
    texts stands in its box."""
    label, high = 64, 22
    width = (PHONE - 2 * MARGIN - label) / PIECES
    for first in range(0, len(found), PIECES):
        row = found[first : first + PIECES]
        sheet.y += 5
        sheet.before(MARGIN + label, sheet.y + high / 2 + 5, f"{name}, {row[0][0]}")
        for n, atom in enumerate(row):
            x = MARGIN + label + n * width
            marked = atom[0] // ATOM in touched
            look = "here" if marked else "empty"
            sheet.body.append(rectangle(x, sheet.y, width, high, class_=f"{look} edge"))
            style = ON["here"] if marked else {"class_": "soft"}
            sheet.over(x + width / 2, sheet.y + high / 2 + 5, atom[what], **style)
        sheet.y += high
    sheet.y += 2


# ---- A block's tile --------------------------------------------------------------------------------------


class Tile(NamedTuple):
    """What a block of a step computes: bm x bn of C, bk terms at a time, its rows shared among warpgroups."""

    step: str
    bm: int
    bn: int
    bk: int
    warpgroups: int

    def said(self) -> str:
        copied = 2 * self.bk * (self.bm + self.bn)
        each = self.bm * self.bn * self.bk / copied
        return f"{copied // 1024} KiB for a k-tile, {each:.3g} multiply-adds a byte"


def describe_tiles(tiles: Sequence[Tile]) -> str:
    """The picture in words, for those who cannot see it."""
    return "What a block computes and what is copied for it. " + " ".join(
        f"{tile.step}: {tile.bm} × {tile.bn} of C by {plural(tile.warpgroups, 'warpgroup')}; {tile.said()}."
        for tile in tiles
    )


def tiles_picture(tiles: Sequence[Tile]) -> str:
    """The SVG: side by side each step's tile of C, with A's at its left and B's above."""
    sheet = Sheet("A block's tile, and what is copied for it")
    gap, between = 5, 20
    room = PHONE - 2 * MARGIN - len(tiles) * gap - (len(tiles) - 1) * between
    scale = min(0.8, room / sum(tile.bk + tile.bn for tile in tiles))
    left, top = float(MARGIN), sheet.y + 32
    for tile in tiles:
        deep, wide = tile.bk * scale, tile.bn * scale
        x, y = left + deep + gap, top + deep + gap
        sheet.body.append(text(left, top - 8, tile.step, font_weight="bold"))
        sheet.body.append(rectangle(x, top, wide, deep, class_="there"))
        sheet.over(x + wide / 2, top + deep / 2 + 5, f"B: {tile.bk} × {tile.bn}", **ON["there"])
        sheet.body.append(rectangle(left, y, deep, tile.bm * scale, class_="here"))
        for n, said in enumerate(("A:", f"{tile.bm} ×", tile.bk)):
            sheet.over(left + deep / 2, y + tile.bm * scale / 2 - 10 + n * LANE_HEIGHT, said, **ON["here"])
        rows = tile.bm // tile.warpgroups
        for n in range(tile.warpgroups):
            at = y + n * rows * scale
            sheet.body.append(rectangle(x, at, wide, rows * scale, class_="empty soft-rule"))
            sheet.over(x + wide / 2, at + rows * scale / 2 - 3, "warpgroup")
            sheet.over(x + wide / 2, at + rows * scale / 2 + 14, f"{n}: {rows} × {tile.bn}", class_="soft")
        sheet.y = max(sheet.y, y + tile.bm * scale)
        left = x + wide + between
    for tile in tiles:
        sheet.explain(f"{tile.step[:2]}: {tile.said()}")
    return sheet.document(describe_tiles(tiles), MARGIN + 2)


# ---- What the site's script plays with -------------------------------------------------------------------


def script(step: str, maps: Map) -> str:
    """The pieces of both operands, and of each thread of the warpgroup the rows and columns of its sums."""
    threads = []
    for places in maps["d"]["elements"]:
        rows, cols = (sorted({place[n] for place in places}) for n in (0, 1))
        if len(rows) * len(cols) != len(places):
            raise UsageError("a thread's sums fill no rows and columns")
        threads.append([rows, cols])
    data = {"step": step, **{key: maps[key] for key in "ab"}, "threads": threads}
    return play.script(f"{step}_descriptor", data, "threads")
