"""Draws which block works when on which k-tiles of which tile of C: one block for each tile, and stream-K.
What stream-K's blocks do is what the kernel's own functions say, printed by schedules.cpp.

The site's script plays with the same for other numbers of tiles and multiprocessors; its data:

  slabs      k-tiles of a tile, as the kernel calls them
  shown      multiprocessors and tiles of the picture
  sms, tiles for how many there are schedules: [from, to]
  schedules  by multiprocessors, by tiles: of each block the pieces of its work, [tile, first, last, ...],
             each of them the k-tiles [first, last) of a tile
"""

from typing import Any, NamedTuple

from tools.base import span
from tools.drawing.picture import MARGIN, Sheet, width_of
from tools.drawing.svg import FONT, PHONE, line, rectangle
from tools.drawing.tiling import filled

LEFT, RIGHT, ROW = 46, 12, 16  # room beside the bars; height of a block's row
SLABS = 8  # of a tile; few, so that each can be seen
SMS, TILES = (4, 12), (4, 36)  # so few tiles that the kernel makes fewer blocks are left out
SHOWN = (8, 31)  # in waves as 512 tiles on 132 multiprocessors

Blocks = list[list[int]]  # of each the numbers of its pieces
Schedules = list[list[Blocks]]


class Piece(NamedTuple):
    """K-tiles [first, last) of a tile, from `begin` on."""

    tile: int
    first: int
    last: int
    begin: int


def shown(schedules: Schedules) -> tuple[Blocks, Blocks]:
    """What the picture shows, step 13's blocks and step 14's."""
    sms, tiles = SHOWN
    return by_tile(sms, tiles), schedules[sms - SMS[0]][tiles - TILES[0]]


def by_tile(sms: int, tiles: int) -> Blocks:
    """One block for each tile, as step 13 has them: the next one begins where one has ended."""
    return [[n for tile in range(sm, tiles, sms) for n in (tile, 0, SLABS)] for sm in range(sms)]


def pieces(numbers: list[int]) -> list[Piece]:
    found, begin = [], 0
    for tile, first, last in zip(*[iter(numbers)] * 3, strict=True):
        found.append(Piece(tile, first, last, begin))
        begin += last - first
    return found


def end(blocks: Blocks) -> int:
    """When the last block is done, in k-tiles."""
    return max(
        of_block[-1].begin + of_block[-1].last - of_block[-1].first for of_block in map(pieces, blocks)
    )


def look(piece: Piece) -> dict[str, Any]:
    if piece.last < SLABS:
        return filled("mark", 0.6)
    return filled("here", 0.75) if piece.first else filled("there", 0.5)


def draw(sheet: Sheet, title: str, blocks: Blocks, scale: float) -> None:
    sheet.y += 4
    sheet.write(title, font_weight="bold")
    top, sheet.y = sheet.y + 6, sheet.y + 6 + ROW * len(blocks)
    sheet.body.append(rectangle(LEFT, top, PHONE - LEFT - RIGHT, sheet.y - top, class_="empty"))
    for number, of_block in enumerate(map(pieces, blocks)):
        y = top + ROW * number
        sheet.before(LEFT, y + ROW - 3, f"SM {number}")
        for piece in of_block:
            x, wide = LEFT + piece.begin * scale, (piece.last - piece.first) * scale
            sheet.body.append(rectangle(x, y, wide - 1, ROW - 1, **look(piece)))
            if width_of(str(piece.tile)) < wide:
                sheet.over(x + wide / 2, y + ROW - 3, piece.tile)
    for tick in [*range(0, end(blocks), SLABS), end(blocks)]:
        x = LEFT + tick * scale
        sheet.body.append(line(x, sheet.y, x, sheet.y + 3, class_="soft-rule"))
        sheet.over(x, sheet.y + FONT + 2, tick, class_="soft")
    sheet.y += FONT + 4


def picture(schedules: Schedules) -> str:
    sms, tiles = SHOWN
    sheet, both = Sheet(f"{tiles} tiles of {SLABS} k-tiles on {sms} SMs"), shown(schedules)
    scale = (PHONE - LEFT - RIGHT) / max(map(end, both))
    for title, blocks in zip(("Step 13: one tile after the other", "Step 14: stream-K"), both, strict=True):
        draw(sheet, title, blocks, scale)
    sheet.explain("a whole tile, by its number", **filled("there", 0.5))
    sheet.explain("a part: the block hands over its sums", **filled("mark", 0.6))
    sheet.explain("the tile's end: the block adds them, and stores", **filled("here", 0.75))
    return sheet.document(describe(schedules), MARGIN)


def describe(schedules: Schedules) -> str:
    """The picture in words, for those who cannot see it."""
    sms, tiles = SHOWN
    before, blocks = shown(schedules)
    count = {p: p.last - p.first for p in pieces(blocks[1])}
    parts = ", then ".join(
        f"k-tile{'s' * (n > 1)} {span([p.first, p.last - 1])} of " * (n < SLABS) + f"tile {p.tile}"
        for p, n in count.items()
    )
    return (
        f"Which SM works when, in k-tiles: {tiles} tiles of {SLABS} on {sms} SMs. One tile after the other "
        f"takes {end(before)}, and at the end SMs are idle. With stream-K all SMs end at {end(blocks)}. SM 1 "
        f"for example computes {parts}."
    )


def data(step: str, schedules: Schedules) -> dict[str, Any]:
    head = {"step": step, "slabs": SLABS, "shown": SHOWN, "sms": SMS, "tiles": TILES}
    return {**head, "schedules": schedules}
