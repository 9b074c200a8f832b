"""Draws how the blocks of a cluster split lines that they read once: slices, largest elements, parts."""

import re
from dataclasses import dataclass

from tools.base import UsageError
from tools.drawing.picture import MARGIN, Sheet
from tools.drawing.svg import PHONE, line, rectangle, text
from tools.drawing.tiling import filled

HIGH, GAP, NAMES = 26, 34, 62  # of a row of boxes; from row to row; the width of the rows' names


@dataclass(frozen=True)
class Split:
    """strip lines of k terms, of which each of some blocks has slices of so many terms."""

    k: int
    strip: int
    slice: int
    most_blocks: int

    @property
    def blocks(self) -> int:
        return max(min(self.most_blocks, -(-self.k // self.slice)), 1)

    @property
    def kib(self) -> int:
        return self.strip * self.slice * 4 // 1024


def split_of(source: str, k: int) -> Split:
    """By split() and the constants of a split.hpp."""
    most = re.search(r"\bMOST_BLOCKS = (\d+)", source)
    limits = re.findall(r"short_enough\((\d+)\)", source)
    shapes = re.findall(r"\blaunch_split<(\d+), (\d+)>", source)
    if most is None or not shapes or len(shapes) != len(limits) + 1:
        raise UsageError("split.hpp launches no launch_split<STRIP, SLICE> by the length of lines")
    blocks = int(most[1])
    for limit, (strip, terms) in zip([*map(int, limits), None], shapes, strict=True):
        if limit is None or k <= limit * blocks:
            return Split(k, int(strip), int(terms), blocks)
    raise AssertionError


def picture(of: Split) -> str:
    sheet = Sheet(f"{of.strip} lines of {of.k} terms, in a cluster of {of.blocks} blocks")
    wide = (PHONE - 2 * MARGIN - NAMES) / of.blocks
    top, left = sheet.y + 18, MARGIN + NAMES
    rows = [top + n * (HIGH + GAP) for n in range(3)]
    middle = left + of.blocks * wide / 2
    for name, y in zip(("memory", "blocks", "cluster"), rows, strict=True):
        sheet.body.append(text(MARGIN, y + 18, name))
    for block in range(of.blocks):
        x = left + block * wide
        sheet.body.append(rectangle(x, rows[0], wide - 2, HIGH, **filled("there", 0.5)))
        sheet.body.append(rectangle(x, rows[1], wide - 2, HIGH, **filled("there", 0.5)))
        sheet.body.append(text(x + wide / 2 - 1, rows[1] + 18, str(block), text_anchor="middle"))
        at = x + wide / 2 - 1
        sheet.body.append(line(at, rows[0] + HIGH, at, rows[1], class_="soft-rule"))
        sheet.body.append(line(at, rows[1] + HIGH, at, rows[2], class_="soft-rule"))
        sheet.body.append(line(at, rows[2] + HIGH, at, rows[2] + HIGH + GAP, class_="soft-rule"))
    sheet.body.append(rectangle(left, rows[2], of.blocks * wide - 2, HIGH, class_="empty"))
    told = "maxima of each line, exchanged"
    sheet.body.append(text(middle, rows[2] + 18, told, text_anchor="middle"))
    y = rows[2] + HIGH + GAP
    for name, strength in (("hi", 0.6), ("lo", 0.3)):
        sheet.body.append(text(MARGIN, y + 13, name))
        for block in range(of.blocks):
            sheet.body.append(
                rectangle(left + block * wide, y, wide - 2, HIGH / 2 + 4, **filled("here", strength))
            )
        y += HIGH / 2 + 10
    sheet.y = y + 10
    sheet.explain(f"Each block reads {of.strip} × {of.slice} floats once, and keeps them: {of.kib} KiB.")
    return sheet.document(describe(of), MARGIN)


def describe(of: Split) -> str:
    """The picture in words, for those who cannot see it."""
    return (
        f"{of.strip} lines of {of.k} terms. Each of {of.blocks} blocks of a cluster reads a slice of "
        f"{of.slice} terms of every line into shared memory, {of.kib} KiB. The blocks exchange the maxima of "
        "each line, then split the elements they hold and write hi and lo."
    )
