"""Draws one warp's access to memory, from the example that `run --xray --json FILE` recorded.

  ladder picture build/xray.json load Bs build/bs.svg

OPERATION is load, store or copy; ARRAY is the name in the kernel, e.g. B or As; TEXT is a part of the source
line, if several lines do the same. Shared memory is drawn as 32 banks, a row for each 128 bytes that the warp
touches; global memory as the sectors of 32 bytes that it touches. The number in a cell is that of the lane
that wants these 4 bytes.
"""

import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from tools.base import Parser, UsageError, plural, read_text, write_whole
from tools.claims.objects import rows_of
from tools.drawing.svg import FONT, PHONE, document, lane_colors, rectangle, text

BANKS, WORD, SECTOR, LINE = 32, 4, 32, 128
MARGIN = 6
HALF = 16  # banks side by side where each has a text of its own: all 32 would be too small on a phone
LANE_HEIGHT = 17  # of one line of text in a cell
LETTERS_IN_LINE = 50
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


# ---- The access ------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Lanes that shared memory serves at once, and how often it has to."""

    lanes: range
    bytes: range  # of each lane's; not all of them where several instructions move them
    wavefronts: int
    words: list[int]  # wanted of each bank

    def name(self, access: "Access") -> str:
        pieces = f", bytes {self.bytes[0]} to {self.bytes[-1]}" if len(self.bytes) < access.bytes else ""
        return f"lanes {self.lanes[0]} to {self.lanes[-1]}{pieces}"


@dataclass(frozen=True)
class Access:
    """What each lane of a warp wants at once, and what the memory makes of it. Addresses are bytes from the
    array's beginning."""

    operation: str
    array: str
    space: str  # global or shared
    bytes: int  # of a lane
    addresses: Sequence[int | None]  # None: the lane takes no part
    parts: Sequence[Part] = ()  # of shared memory
    sectors: Sequence[int] = ()  # of global memory: where the wanted ones begin
    bytes_used: int = 0

    @property
    def conflicts(self) -> bool:
        return any(part.wavefronts > 1 for part in self.parts)

    def words(self, part: Part | None = None) -> dict[int, list[int]]:
        """Number of the 4-byte word -> the lanes that want it."""
        words: dict[int, list[int]] = defaultdict(list)
        lanes, wanted = (part.lanes, part.bytes) if part else (range(32), range(self.bytes))
        for lane in lanes:
            address = self.addresses[lane]
            if address is not None:
                for word in range((address + wanted[0]) // WORD, (address + wanted[-1]) // WORD + 1):
                    words[word].append(lane)
        return words


def from_xray(row: dict[str, Any]) -> Access:
    """The example that an access of an X-ray holds; common/harness/xray.hpp says how."""
    example = row["example"]
    access = Access(row["operation"], row["array"], row["space"], row["bytes"], example["addresses"])
    if row["space"] == "global":
        return replace(access, sectors=example["sectors"], bytes_used=example["bytes_used"])

    def part(of: dict[str, Any]) -> Part:
        lanes, size = (range(first, last + 1) for first, last in (of["lanes"], of["bytes"]))
        return Part(lanes, size, of["wavefronts"], of["words_of_banks"])

    return replace(access, parts=list(map(part, example["parts"])))


# ---- Words -----------------------------------------------------------------------------------------------

VERBS = {"load": "loads from", "store": "stores to", "copy": "copies", "ldmatrix": "ldmatrix from"}


def runs(numbers: Iterable[int]) -> list[range]:
    """Numbers in order, joined where they follow on each other."""
    groups = groupby(enumerate(numbers), lambda e: e[1] - e[0])
    return [range((run := [n for _, n in group])[0], run[-1] + 1) for _, group in groups]


def ranges(lanes: Sequence[int]) -> str:
    """0–3, 8, 10–12"""
    return ", ".join(f"{r[0]}–{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs(lanes))


def title(access: Access) -> str:
    """One warp loads from As, 16 bytes a lane"""
    way = (" from" if access.space == "global" else " to") if access.operation == "copy" else ""
    who, each = ("One", "row") if access.operation == "ldmatrix" else ("One warp", "lane")
    return f"{who} {VERBS[access.operation]}{way} {access.array}, {access.bytes} bytes a {each}"


def verdict(access: Access) -> str:
    if access.space == "global":
        many = len(access.sectors)
        return f"{access.bytes_used} bytes wanted, {plural(many, 'sector')} = {many * SECTOR} bytes moved"
    total, least = sum(part.wavefronts for part in access.parts), len(access.parts)
    if access.operation == "copy":  # its wavefronts also depend on what it reads
        return "No bank conflict" if total == least else plural(total - least, "bank conflict")
    if total == least:
        return f"{plural(total, 'wavefront')}: no bank conflict"
    return f"{plural(total, 'wavefront')}; without bank conflicts {least}"


def describe(access: Access) -> str:
    """The picture in words, for those who cannot see it."""
    what = f"{title(access)} in {access.space} memory. {verdict(access)}"
    if access.space == "global":
        lines = {sector // LINE for sector in access.sectors}
        return f"{what}, in {plural(len(lines), 'line')} of 128 bytes."
    by_part = ", ".join(f"{p.name(access)} take {plural(p.wavefronts, 'wavefront')}" for p in access.parts)
    used = f"{len({word % BANKS for word in access.words()})} of 32 banks are wanted."
    return f"{what}. {used}" + (f" By parts: {by_part}." if len(access.parts) > 1 else "")


# ---- Pictures --------------------------------------------------------------------------------------------


def picture(access: Access) -> str:
    """The SVG of an access."""
    sheet = Sheet(title(access))
    (draw_banks if access.space == "shared" else draw_sectors)(sheet, access)
    return sheet.document(describe(access), MARGIN + (4 if access.space == "shared" else 0))


Place = tuple[float, float, float, float]  # left, top, width, height


class Cell(NamedTuple):
    """Neighbouring words that the same lanes want, and the lines of text on them."""

    word: int
    words: int
    lanes: list[int]
    lines: list[str]


def height_of(cells: Iterable[Cell]) -> int:
    return 5 + LANE_HEIGHT * max((len(cell.lines) for cell in cells), default=1)


def width_of(content: str) -> float:
    """About how wide a text is, on the wide side."""
    narrow = sum(c in " ,.–il" for c in content)
    return FONT * (0.64 * (len(content) - narrow) + 0.45 * narrow)


def emphasis(marked: bool) -> dict[str, Any]:
    """How a figure looks that is worth a look, or not."""
    return {"class_": "mark", "font_weight": "bold"} if marked else {"class_": "soft"}


class Sheet:
    """A picture that grows downwards. Lane numbers that do not fit are a letter, which a legend explains."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.body: list[str] = []
        self.y: float = MARGIN
        self.letters: dict[tuple[int, ...], str] = {}
        self.write(title, size=15, font_weight="bold")

    def document(self, description: str, below: float = 0) -> str:
        """The SVG, with what the letters stand for."""
        for lanes, letter in self.letters.items():
            self.write(f"{letter}: lanes {ranges(lanes)}")
        return document(PHONE, self.y + below, self.title, description, self.body)

    def write(self, content: str, size: float = FONT, **attributes: Any) -> None:
        """A line of text."""
        self.y += size + 5
        self.body.append(text(MARGIN, self.y, content, size, **attributes))

    def explain(self, content: str, wide: float = 13, **look: Any) -> None:
        """A text, in as many lines as it takes, beside a box that looks like what it is about, if any."""
        for n, row in enumerate(textwrap.wrap(content, LETTERS_IN_LINE)):
            self.y += FONT + 5
            if look and n == 0:
                self.body.append(rectangle(MARGIN + 8 - wide / 2, self.y - 12, wide, 13, **look))
            self.body.append(text(MARGIN + (22 if look else 0), self.y, row))

    def before(self, x: float, y: float, content: object) -> None:
        """A text that ends before x."""
        self.body.append(text(x - 5, y, str(content), text_anchor="end", class_="soft"))

    def over(self, x: float, y: float, content: object, **attributes: Any) -> None:
        """A text whose middle is at x."""
        self.body.append(text(x, y, str(content), text_anchor="middle", **attributes))

    def banks(self, labels: Iterable[tuple[float, object]]) -> None:
        """Above the banks, which these are. labels: the middles and the texts."""
        self.before(BANKS_LEFT, self.y - 5, "banks")
        for middle, label in labels:
            self.over(middle, self.y - 5, label, class_="soft")

    def wanted(self, words: Iterable[tuple[float, int]]) -> None:
        """Below the banks, how many words are wanted from each."""
        self.y += LANE_HEIGHT
        self.before(BANKS_LEFT, self.y, "words")
        for middle, many in words:
            self.over(middle, self.y, many, **emphasis(many > 1))
        self.y += 6

    def lines(self, lanes: list[int], room: float) -> list[str]:
        """What stands in a cell."""
        if width_of(ranges(lanes)) <= room - 1:
            return [ranges(lanes)]
        if len(lanes) == 2:
            return [str(lane) for lane in lanes]
        return [self.letters.setdefault(tuple(lanes), LETTERS[len(self.letters) % len(LETTERS)])]

    def cells(self, words: dict[int, list[int]], place: range, width: float) -> list[Cell]:
        """Those of the words whose numbers are in `place`, as cells in which a word is so wide."""
        here = enumerate(word for word in place if word in words)
        runs = (list(run) for _, run in groupby(here, lambda e: (e[1] - e[0], words[e[1]])))
        firsts = ((run[0][1], len(run)) for run in runs)
        return [Cell(w, n, words[w], self.lines(words[w], n * width)) for w, n in firsts]

    def draw(self, at: Place, words: range, cells: Iterable[Cell], marked: int | None = None) -> None:
        """Words of memory side by side, from the place of the first on: grey boxes, and over them the cells.
        marked: a lane."""
        left, y, width, height = at
        for n in range(len(words)):
            self.body.append(rectangle(left + n * width, y, width, height, class_="empty rule"))
        for cell in cells:
            x = left + (cell.word - words[0]) * width
            self.cell((x, y, cell.words * width, height), cell.lines, cell.lanes[0], cell.lanes[0] == marked)

    def cell(self, at: Place, lines: Sequence[object], lane: int, marked: bool = False) -> None:
        """A box in a lane's colours, with lines of text in its middle; a marked one looks as nothing else."""
        x, y, width, height = at
        color, ink = (None, "#000000") if marked else lane_colors(lane)
        self.body.append(rectangle(*at, fill=color, class_="here" if marked else "edge"))
        top = y + height / 2 + 5 - LANE_HEIGHT * (len(lines) - 1) / 2
        for n, content in enumerate(lines):
            self.over(x + width / 2, top + n * LANE_HEIGHT, content, class_=None, style=f"fill:{ink}")


# ---- Shared memory: the banks that the lanes want, by row of 128 bytes -----------------------------------

BANKS_LEFT = MARGIN + 54  # of the addresses


def draw_banks(sheet: Sheet, access: Access) -> None:
    sheet.write(verdict(access), class_="mark" if access.conflicts else "ink")
    sheet.write("A row: 128 bytes, with its offset in the array.", class_="soft")
    if access.bytes in (8, 16) and all(a is None or a % access.bytes == 0 for a in access.addresses):
        draw_panel(sheet, access, range(BANKS), access.bytes // WORD)
    else:
        for first in range(0, BANKS, HALF):
            draw_panel(sheet, access, range(first, first + HALF), 1)


def draw_panel(sheet: Sheet, access: Access, banks: range, unit: int) -> None:
    """Some of the banks, side by side, with each part of the lanes that is served at once. `unit` banks share
    a box and a text: those of one lane."""
    if not any(word % BANKS in banks for word in access.words()):
        sheet.y += 8
        sheet.write(f"Banks {banks[0]} to {banks[-1]} are not wanted.", class_="soft")
        return
    width = (PHONE - MARGIN - BANKS_LEFT) / len(banks)
    middles = {bank: BANKS_LEFT + (bank - banks[0] + unit / 2) * width for bank in banks[::unit]}
    sheet.y += 26
    sheet.banks((middles[bank], f"{bank}–{bank + 3}" if unit == 4 else bank) for bank in middles)
    for part in access.parts:
        words = access.words(part)
        if len(access.parts) > 1:
            sheet.write(f"{part.name(access)} at once:", class_="soft")
            sheet.y += 5
        for row in sorted({word // BANKS for word in words}):
            place = range(row * BANKS + banks[0], row * BANKS + banks[-1] + 1)
            cells = sheet.cells(words, place, width)
            height = height_of(cells)
            sheet.before(BANKS_LEFT, sheet.y + height / 2 + 5, row * LINE)
            sheet.draw((BANKS_LEFT, sheet.y, width, height), place, cells)
            sheet.y += height
        if part.wavefronts > 1:
            sheet.wanted((middles[bank], max(part.words[bank : bank + unit])) for bank in middles)


# ---- Global memory: the sectors that the lanes touch, two side by side, framed by line of 128 bytes ------

SECTOR_LABEL = 52
SECTOR_GAP = 8  # between the left and the right one
ROW_GAP = 6
SECTOR_WORD = (PHONE - 2 * MARGIN - SECTOR_GAP - 2 * SECTOR_LABEL) / 16
SECTOR_LEFT = [
    MARGIN + SECTOR_LABEL + slot * (SECTOR_LABEL + 8 * SECTOR_WORD + SECTOR_GAP) for slot in (0, 1)
]


def draw_sectors(sheet: Sheet, access: Access) -> None:
    sheet.write(verdict(access))
    sheet.write("Frame: the wanted sectors of a line of 128 bytes.", class_="soft")
    sheet.write("Outside: bytes into the array. Grey: not wanted.", class_="soft")
    sheet.y += 10
    words = access.words()
    places = {sector: range(sector // WORD, (sector + SECTOR) // WORD) for sector in access.sectors}
    cells = {sector: sheet.cells(words, place, SECTOR_WORD) for sector, place in places.items()}
    height = height_of(chain.from_iterable(cells.values()))
    top, pitch, frames = sheet.y, height + ROW_GAP, []
    at = 0  # the next free place, counted along the rows
    for _, line in groupby(cells, lambda sector: sector // LINE):
        sectors = list(line)
        several = len(sectors) > 1  # they get rows of their own
        at += at % 2 * several
        for n, sector in enumerate(sectors, at):
            left, sheet.y = SECTOR_LEFT[n % 2], top + n // 2 * pitch
            sheet.before(left, sheet.y + height / 2 + 5, sector)
            sheet.draw((left, sheet.y, SECTOR_WORD, height), places[sector], cells[sector])
        left, right = (SECTOR_LEFT[0], SECTOR_LEFT[1]) if several else [SECTOR_LEFT[at % 2]] * 2
        y, high = top + at // 2 * pitch, sheet.y + height - (top + at // 2 * pitch)
        wide = right - left + 8 * SECTOR_WORD
        frames.append(rectangle(left - 1.5, y - 1.5, wide + 3, high + 3, class_="strong", fill="none", rx=2))
        at += len(sectors) + len(sectors) % 2 * several
    sheet.body += frames
    sheet.y += pitch


# ---- Which access ----------------------------------------------------------------------------------------


def find(
    rows: list[dict[str, Any]], operation: str, array: str, space: str | None = None, line: str | None = None
) -> dict[str, Any]:
    """The one row of an X-ray that is meant. Raises UsageError if none or several fit."""
    rows = [row for row in rows if row["example"]]  # a bulk copy has no lanes to be looked at
    fits = [
        row
        for row in rows
        if (row["operation"], row["array"]) == (operation, array)
        and space in (None, row["space"])
        and (line is None or line in row["source"])
    ]
    if not fits:
        known = sorted({f"{row['operation']} {row['array']}" for row in rows})
        where = f" in a line with '{line}'" if line else ""
        raise UsageError(f"no access `{operation} {array}`{where}; there are {', '.join(known)}")
    if len(fits) > 1:
        lines = "; ".join(f"{row['line']}: {row['source']} ({row['bytes']} bytes)" for row in fits)
        raise UsageError(f"`{operation} {array}` stands in several lines, say line=TEXT: {lines}")
    return fits[0]


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("file")
    parser.add_argument("operation", choices=tuple(VERBS))
    parser.add_argument("array")
    parser.add_argument("out", metavar="OUT.svg")
    space = parser.add_mutually_exclusive_group()
    space.add_argument("--banks", dest="space", action="store_const", const="shared")
    space.add_argument("--sectors", dest="space", action="store_const", const="global")
    parser.add_argument("--line", metavar="TEXT")
    args = parser.parse_args()
    try:
        record = json.loads(read_text(Path(args.file)))
        record = record[0] if isinstance(record, list) else record
        access = from_xray(find(rows_of(record), args.operation, args.array, args.space, args.line))
    except (ValueError, LookupError, TypeError):
        raise UsageError(f"{args.file}: holds no X-ray; make it with `run --xray --json FILE`") from None
    write_whole(Path(args.out), picture(access))
    return 0
