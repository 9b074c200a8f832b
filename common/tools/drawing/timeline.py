"""Draws when a block asks for each tile, which buffer it goes to, when the block waits for it and when it is
computed from. Time is in rounds of the loop over K, as a recording shows them: a round begins when a warp
first loads from its tile. When a warp that computes asks for a copy, its own loads before and after that say.
A warp that only copies has no such place; it asks as soon as all have read what lay in the buffer, and the
order in the recording is held against that.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import NamedTuple

from tools.base import UsageError
from tools.claims.recording import FLOAT, Line, Recording, Request
from tools.drawing.picture import MARGIN, Sheet, width_of
from tools.drawing.svg import PHONE, line, rectangle
from tools.drawing.tiling import filled

LEFT = MARGIN + 62  # of the names of the buffers
BEFORE = 1.0  # of a round's width: what comes before the first
HIGH, APART = 24, 6  # of a bar; between two


class Load(NamedTuple):
    sequence: int
    warp: int
    place: tuple[str, int]
    tile: int


@dataclass(frozen=True)
class Tile:
    """asked: when its copy is asked for, in rounds; None: before the first."""

    number: int
    stage: int
    asked: Fraction | None


@dataclass(frozen=True)
class Timeline:
    step: str
    stages: int
    tiles: list[Tile]  # in the order in which they are asked for
    copier: bool  # a warp that only copies asks for them


def tile_of(line: Line, request: Request, bk: int) -> int | None:
    """Of a load, which tile of K it is from; None if it reads nothing of A and B."""
    read = (e for lane in request.elements for e in lane if e and e.matrix in "AB")
    found = {(e.col if e.matrix == "A" else e.row) // bk for e in read}
    if len(found) > 1:
        raise UsageError(f"line {line.line} loads from several tiles at once")
    return next(iter(found), None)


def timeline(recording: Recording, bk: int, stages: int, extents: dict[str, list[int]]) -> Timeline:
    """extents: of the arrays in shared memory, of which each buffer has an equal part."""
    loads = sorted(  # in the block's order
        Load(request.sequence, request.warp, place_of(row, request, stages, extents), tile)
        for row, request in recording.of(("load", "ldmatrix"), "shared")
        if (tile := tile_of(row, request, bk)) is not None
    )
    by_warp: dict[int, list[Load]] = defaultdict(list)
    for load in loads:
        by_warp[load.warp].append(load)
    if any(a.sequence == b.sequence for mine in by_warp.values() for a, b in pairwise(mine)):
        raise UsageError(f"several blocks of {recording.step} share the tile that is recorded")
    copies = sorted(
        (request.sequence, request.warp, place_of(row, request, stages, extents))
        for row, request in recording.of(("copy",), "shared")
    )
    if not copies:
        raise UsageError(f"{recording.step} copies through registers: there is no time in which a copy runs")
    found: dict[int, Tile] = {}
    for sequence, warp, place in copies:
        # What is loaded next from there is what the copy brings. Past the end of K, nobody loads it.
        tile = next((one.tile for one in loads if one.sequence > sequence and one.place == place), None)
        if tile is None or tile in found:
            continue
        if warp in by_warp:
            asked = position(by_warp[warp], sequence)
        else:
            read = [one for one in loads if one.place[1] == place[1] and one.tile < tile]
            if any(one.sequence > sequence for one in read):
                raise UsageError(f"tile {tile} of {recording.step} is copied over one that is still read")
            asked = Fraction(max(one.tile for one in read) + 1) if read else None
        found[tile] = Tile(tile, place[1], asked)
    return Timeline(recording.step, stages, list(found.values()), any(w not in by_warp for _, w, _ in copies))


def place_of(line: Line, request: Request, stages: int, extents: dict[str, list[int]]) -> tuple[str, int]:
    """The array of a request, and the buffer in it."""
    address = min(address for address in request.addresses if address is not None)
    return line.array, address // (FLOAT * prod(extents[line.array]) // stages)


def position(loads: list[Load], sequence: int) -> Fraction | None:
    """When something happens, by the loads of a warp: 2 at the beginning of round 2, or at the end of the one
    before; 2 1/4 after a fourth of its loads. None: before the first load."""
    before = [one.tile for one in loads if one.sequence < sequence]
    if not before:
        return None
    tile = before[-1]
    return tile + Fraction(before.count(tile), sum(one.tile == tile for one in loads))


# ---- Words -----------------------------------------------------------------------------------------------


def when(tile: Tile) -> str:
    if tile.asked is None:
        return "before the first round"
    done, rest = divmod(tile.asked, 1)
    return f"at the beginning of round {done}" if not rest else f"in round {done}"


def describe(t: Timeline) -> str:
    """The picture in words, for those who cannot see it."""
    parts = (f"Tile {tile.number} goes to stage {tile.stage}, asked for {when(tile)}." for tile in t.tiles)
    what = f"{t.step}: when tiles are copied and computed from, with {t.stages} stages."
    return f"{what} {' '.join(parts)} Each is computed from in the round of its number."


# ---- The picture -----------------------------------------------------------------------------------------


def bar(sheet: Sheet, x: float, end: float, y: float, content: str, color: str, opacity: float) -> None:
    sheet.body.append(rectangle(x + 1, y, end - x - 2, HIGH, class_="paper"))
    sheet.body.append(rectangle(x + 1, y, end - x - 2, HIGH, **filled(color, opacity)))
    if width_of(content) > end - x - 4:
        content = content.split()[-1]
    if width_of(content) <= end - x - 2:
        sheet.over((x + end) / 2, y + HIGH / 2 + 5, content)


def picture(t: Timeline) -> str:
    """The SVG."""
    sheet = Sheet("When tiles are copied and computed from")
    rounds = max(tile.number for tile in t.tiles) + 1
    wide = (PHONE - MARGIN - LEFT) / (BEFORE + rounds)
    early = [tile for tile in t.tiles if tile.asked is None]

    def x(at: float) -> float:
        return LEFT + (BEFORE + at) * wide

    def begin(tile: Tile) -> float:
        return x(-BEFORE * (1 - early.index(tile) / len(early)) if tile.asked is None else float(tile.asked))

    top = sheet.y + 26
    rows = [top + row * (HIGH + APART) for row in range(t.stages + 1)]
    sheet.y = rows[-1] + HIGH + APART
    sheet.before(LEFT, top - 6, "round")
    for y, name in zip(rows, [*(f"stage {n}" for n in range(t.stages)), "warps"], strict=True):
        sheet.before(LEFT, y + HIGH / 2 + 5, name)
        sheet.body.append(rectangle(LEFT, y, PHONE - MARGIN - LEFT, HIGH, class_="empty"))
    for number in range(rounds + 1):
        at = x(number)
        sheet.body.append(line(at, top - 3, at, sheet.y - 3, class_="soft-rule", stroke_dasharray="2 4"))
    for number in range(rounds):
        sheet.over(x(number + 0.5), top - 6, number, class_="soft")
        bar(sheet, x(number), x(number + 1), rows[-1], f"tile {number}", "here", 0.6)
    for tile in t.tiles:
        at, y, name = x(tile.number), rows[tile.stage], f"tile {tile.number}"
        bar(sheet, begin(tile), at, y, name, "there", 0.45)
        bar(sheet, at, x(tile.number + 1), y, name, "here", 0.6)
        sheet.body.append(rectangle(at - 1.25, y - 2, 2.5, HIGH + 4, class_="ink"))
    alone = "a copy: a warp of its own asks for it as soon as the stage has been read"
    asks = alone if t.copier else "a copy, from when a warp asks for it"
    sheet.y += 2
    sheet.explain(asks, **filled("there", 0.45))
    sheet.explain("it is waited for: here it has arrived", wide=2.5, class_="ink")
    sheet.explain("the warps load from the tile, and multiply", **filled("here", 0.6))
    return sheet.document(describe(t), MARGIN + 4)
