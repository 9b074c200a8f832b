"""Draws where tiles lie in shared memory: the banks of one access in several steps, one above the other; and
a layout in which the groups of a row change places (a swizzle)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tools.base import plural
from tools.drawing import picture
from tools.drawing.picture import BANKS, BANKS_LEFT, LANE_HEIGHT, LINE, MARGIN, Access, Cell, Sheet
from tools.drawing.svg import COLORS, PHONE, rectangle, text

GROUP = 4  # words of 4 bytes, and as many banks: 16 bytes
GROUPS = BANKS // GROUP
ROWS = 8  # of a swizzle
IN_ORDER = [range(GROUPS)] * ROWS  # where the groups of a row lie without one
# Of what is touched; the same in light and in dark.
FRAME: dict[str, Any] = {"fill": "none", "stroke": COLORS["here"][1], "stroke_width": 3}

# ---- One access in several steps -------------------------------------------------------------------------


def describe_compared(accesses: Mapping[str, Access]) -> str:
    """The picture in words, for those who cannot see it."""
    each = []
    for step, access in accesses.items():
        banks = len({word % BANKS for word in access.words()})
        each.append(f"{step}: {banks} of {BANKS} banks are wanted. {picture.verdict(access)}.")
    return " ".join([f"{picture.title(next(iter(accesses.values())))}.", *each])


def compared(accesses: Mapping[str, Access]) -> str:
    """The SVG of one access of several steps, by the steps' names: four neighbouring banks share a column."""
    sheet = Sheet(picture.title(next(iter(accesses.values()))))
    sheet.write("Left: bytes into the array.", class_="soft")
    sheet.write("A cell: the lanes that want its four banks.", class_="soft")
    for step, access in accesses.items():
        sheet.y += 8
        sheet.write(step, font_weight="bold")
        sheet.write(picture.verdict(access), class_="mark" if access.conflicts else "ink")
        draw_groups(sheet, access)
    sheet.y += 2
    return sheet.document(describe_compared(accesses), MARGIN + 4)


def draw_groups(sheet: Sheet, access: Access) -> None:
    """The rows of 128 bytes that a warp touches, in columns of four banks; below, where a bank is wanted more
    than once, how many words of it are."""
    width = (PHONE - MARGIN - BANKS_LEFT) / GROUPS
    middles = [BANKS_LEFT + (n + 0.5) * width for n in range(GROUPS)]
    sheet.y += LANE_HEIGHT + 8
    sheet.banks((middles[n], f"{n * GROUP}–{n * GROUP + GROUP - 1}") for n in range(GROUPS))
    held: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for word, lanes in access.words().items():
        held[word // BANKS][word % BANKS // GROUP].update(lanes)
    for row, groups in sorted(held.items()):
        cells = [Cell(n, 1, sorted(of), sheet.lines(sorted(of), width)) for n, of in groups.items()]
        height = picture.height_of(cells)
        sheet.before(BANKS_LEFT, sheet.y + height / 2 + 5, row * LINE)
        sheet.draw((BANKS_LEFT, sheet.y, width, height), range(GROUPS), cells)
        sheet.y += height
    if access.conflicts:
        most = [max(words) for words in zip(*(part.words for part in access.parts), strict=True)]
        sheet.wanted((middles[n], max(most[n * GROUP :][:GROUP])) for n in range(GROUPS))


# ---- Swizzles --------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """A tile's rows, of which 128 bytes are looked at. groups: of each row, where its groups of 16 bytes lie
    in it; `array` and `function` name it; touched: the (row, group)s, as the matrix counts them, that one
    access reads, which `access` describes."""

    array: str
    function: str
    groups: Sequence[Sequence[int]]
    touched: frozenset[tuple[int, int]]
    access: str


def columns(layout: Layout, groups: Sequence[Sequence[int]]) -> int:
    """How many columns of four banks the touched groups lie in, if the groups of the rows lie so."""
    return len({groups[row][group] for row, group in layout.touched})


def describe_swizzle(layout: Layout) -> str:
    """The picture in words, for those who cannot see it."""
    rows = []
    for row, places in enumerate(layout.groups):
        order = ", ".join(str(places.index(place)) for place in sorted(places))
        rows.append(f"row {row} has its groups in the order {order}")
    before, after = columns(layout, IN_ORDER), columns(layout, layout.groups)
    framed = f"Framed, {layout.access}: {plural(before, 'column')} of four banks row by row, {after} so"
    return f"Where the groups of 16 bytes of {layout.array} lie: {'; '.join(rows)}. {framed}."


def swizzle(layout: Layout) -> str:
    """The SVG of a layout: left the rows as the matrix has them, right as they lie."""
    sheet = Sheet(f"Where the groups of {layout.array} lie")
    sheet.write("A cell: 16 bytes, with their number in the row.", class_="soft")
    sheet.write("Above: the first of its four banks.", class_="soft")
    gap, label, cell = 18, 24, 22
    wide = (PHONE - 2 * MARGIN - gap) / 2
    left, width, top = float(MARGIN + label), (wide - label) / GROUPS, sheet.y + 8 + LANE_HEIGHT
    for name, groups in ("row by row", IN_ORDER), (f"by {layout.function}()", layout.groups):
        sheet.body.append(text(left, top, name, font_weight="bold"))
        sheet.y = top + LANE_HEIGHT + 2
        for column in range(GROUPS):
            sheet.over(left + (column + 0.5) * width, sheet.y, column * GROUP, class_="soft")
        sheet.y += 5
        frames = []
        for row, places in enumerate(groups):
            sheet.before(left, sheet.y + cell / 2 + 5, row)
            for group, place in enumerate(places):
                x = left + place * width
                sheet.cell((x, sheet.y, width, cell), [group], group * GROUP)
                if (row, group) in layout.touched:
                    frames.append(rectangle(x + 1, sheet.y + 1, width - 2, cell - 2, **FRAME))
            sheet.y += cell
        sheet.body += frames
        sheet.y += LANE_HEIGHT + 4
        many = columns(layout, groups)
        style = picture.emphasis(True) if many < columns(layout, layout.groups) else {}
        sheet.body.append(text(left, sheet.y, f"{plural(many, 'column')} of banks", **style))
        left += wide + gap
    sheet.y += 6
    sheet.explain(layout.access, **FRAME)
    return sheet.document(describe_swizzle(layout), MARGIN + 6)
