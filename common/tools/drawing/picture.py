"""Draws one warp's access to memory, from the addresses that `run --xray --json FILE` recorded.

  ladder picture FILE OPERATION ARRAY OUT.svg [--banks | --sectors] [--line TEXT]

OPERATION is load, store or copy; ARRAY is the name in the kernel, e.g. B or As; TEXT is a part of the source
line, if several lines do the same. Shared memory is drawn as 32 banks, a row for each 128 bytes that the warp
touches; global memory as the sectors of 32 bytes that it touches. The number in a cell is that of the lane
that wants these 4 bytes. Standard library only.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import Parser, UsageError, read_text, write_whole
from tools.drawing import svg
from tools.drawing.svg import FONT, PHONE, rectangle, text

BANKS, WORD, SECTOR, LINE = 32, 4, 32, 128
MARGIN = 6
HALF = 16  # banks side by side where each has a text of its own: all 32 would be too small on a phone
LANE_HEIGHT = 17  # of one line of text in a cell
MANY_ROWS = 10  # more rows of 128 bytes than these are not all drawn
FIRST_ROWS, LAST_ROWS = 6, 2  # what is drawn of them
KEYS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


# ---- What the access needs -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """What each lane of a warp wants at once. Addresses are bytes from the array's beginning; None: the lane
    takes no part."""

    operation: str
    array: str
    space: str  # global or shared
    bytes: int  # of a lane
    addresses: Sequence[int | None]

    def lanes_of_words(self, lanes: Sequence[int] = range(32)) -> dict[int, list[int]]:
        """Number of the 4-byte word -> the lanes that want it."""
        words: dict[int, list[int]] = defaultdict(list)
        for lane in lanes:
            address = self.addresses[lane]
            if address is not None:
                for word in range(address // WORD, (address + self.bytes - 1) // WORD + 1):
                    words[word].append(lane)
        return dict(sorted(words.items()))


def from_xray(row: dict[str, Any]) -> Access:
    """The example that an access of an X-ray holds."""
    addresses = row["example"]["addresses"]
    return Access(row["operation"], row["array"], row["space"], row["bytes"], addresses)


@dataclass(frozen=True)
class Part:
    """Lanes that shared memory serves at once, and how often it has to."""

    lanes: range
    wavefronts: int


def parts(access: Access) -> list[Part]:
    """How shared memory serves the access; the same rule as in common/cpu_device/warp_request.hpp.

    Up to 4 bytes a lane: all lanes at once; 8 bytes: in two parts, 16: in four. Where every lane wants the
    same as its neighbour (or its second neighbour), two parts become one.
    """
    size = 32 if access.bytes <= WORD else 32 * WORD // access.bytes
    if access.bytes > WORD and (agree(access, 1) or agree(access, 2)):
        size *= 2
    found = []
    for first in range(0, 32, size):
        lanes = range(first, min(first + size, 32))
        wanted = words_of_banks(access.lanes_of_words(lanes))
        if wanted:
            found.append(Part(lanes, max(wanted.values())))
    return found


def agree(access: Access, distance: int) -> bool:
    """Whether every active lane wants the same as the one so far away, if that is active."""
    pairs = ((access.addresses[lane], access.addresses[lane ^ distance]) for lane in range(32))
    return all(a is None or b is None or a == b for a, b in pairs)


def words_of_banks(words: dict[int, list[int]]) -> dict[int, int]:
    """Bank -> how many different words are wanted from it."""
    wanted: dict[int, int] = defaultdict(int)
    for word in words:
        wanted[word % BANKS] += 1
    return dict(wanted)


def sectors(access: Access) -> list[int]:
    """The sectors of global memory that the access touches, by number."""
    return sorted({word * WORD // SECTOR for word in access.lanes_of_words()})


# ---- Cells -----------------------------------------------------------------------------------------------


@dataclass
class Cell:
    """Neighbouring words that the same lanes want."""

    word: int
    words: int
    lanes: list[int]


def cells(words: dict[int, list[int]], row_words: int) -> list[Cell]:
    """The words as cells; none extends over the end of a row of row_words words."""
    found: list[Cell] = []
    for word, lanes in sorted(words.items()):
        last = found[-1] if found else None
        follows = last and last.word + last.words == word and word % row_words
        if last and follows and last.lanes == lanes:
            last.words += 1
        else:
            found.append(Cell(word, 1, lanes))
    return found


def ranges(lanes: Sequence[int]) -> str:
    """0–3, 8, 10–12"""
    pieces: list[list[int]] = []
    for lane in lanes:
        if pieces and pieces[-1][-1] == lane - 1:
            pieces[-1].append(lane)
        else:
            pieces.append([lane])
    short = [f"{p[0]}–{p[-1]}" if len(p) > 2 else ", ".join(map(str, p)) for p in pieces]
    return ", ".join(short)


def width_of(content: str) -> float:
    """About how wide a text is, on the wide side."""
    narrow = sum(c in " ,.–il" for c in content)
    return FONT * (0.64 * (len(content) - narrow) + 0.45 * narrow)


@dataclass
class Labels:
    """What stands in the cells: lane numbers; where these do not fit, a letter that a legend explains."""

    keys: dict[tuple[int, ...], str] = field(default_factory=dict)

    def lines(self, lanes: Sequence[int], room: float) -> list[str]:
        one_line = ranges(lanes)
        if width_of(one_line) <= room - 1:
            return [one_line]
        if len(lanes) == 2:
            return [str(lane) for lane in lanes]
        key = self.keys.setdefault(tuple(lanes), KEYS[len(self.keys) % len(KEYS)])
        return [key]

    def legend(self) -> list[str]:
        return [f"{key}: lanes {ranges(lanes)}" for lanes, key in self.keys.items()]


def lane_color(lane: int) -> str:
    """Not from the ramp's very beginning, which is too dark for a dark background."""
    return svg.ramp(0.08 + 0.92 * lane / 31)


def draw_cell(x: float, y: float, width: float, height: float, lanes: Sequence[int], lines: list[str]) -> str:
    """A box in the colour of its first lane, with its text in the middle."""
    color = lane_color(lanes[0])
    ink = svg.ink_on(color)
    body = [rectangle(x, y, width, height, fill=color, class_="edge")]
    top = y + height / 2 - LANE_HEIGHT * (len(lines) - 1) / 2 + 5
    for n, content in enumerate(lines):
        place = top + n * LANE_HEIGHT
        body.append(text(x + width / 2, place, content, text_anchor="middle", style=f"fill:{ink}"))
    return "".join(body)


# ---- Pictures --------------------------------------------------------------------------------------------


@dataclass
class Sheet:
    """A picture that grows downwards."""

    body: list[str] = field(default_factory=list)
    y: float = MARGIN

    def write(self, content: str, size: float = FONT, **attributes: object) -> None:
        """A line of text."""
        self.y += size + 5
        self.body.append(text(MARGIN, self.y, content, size, **attributes))

    def skip(self, height: float) -> None:
        self.y += height


LABEL = 54  # width of the addresses at the left


@dataclass(frozen=True)
class Panel:
    """Some of the banks, side by side. unit: banks that share a box and a text: those of one lane."""

    banks: range
    unit: int

    @property
    def left(self) -> float:
        return MARGIN + LABEL

    @property
    def width(self) -> float:
        """Of a bank."""
        return (PHONE - MARGIN - self.left) / len(self.banks)

    def middle(self, first_bank: int) -> float:
        """Of the unit that begins with a bank."""
        return self.left + (first_bank - self.banks[0] + self.unit / 2) * self.width

    def units(self) -> range:
        return self.banks[:: self.unit]


def panels(access: Access) -> list[Panel]:
    aligned = all(a is None or a % access.bytes == 0 for a in access.addresses)
    if access.bytes in (8, 16) and aligned:
        return [Panel(range(BANKS), access.bytes // WORD)]
    return [Panel(range(first, first + HALF), 1) for first in range(0, BANKS, HALF)]


def banks_picture(access: Access) -> str:
    """Shared memory: the banks that the lanes want, by row of 128 bytes."""
    sheet, labels = Sheet(), Labels()
    served = parts(access)
    conflicts = sum(part.wavefronts for part in served) > len(served)
    sheet.write(title(access), size=15, font_weight="bold")
    sheet.write(banks_verdict(access), class_="mark" if conflicts else "ink")
    sheet.write("A row: 128 bytes, with its offset in the array.", class_="soft")
    for panel in panels(access):
        draw_panel(sheet, access, served, panel, labels)
    for entry in labels.legend():
        sheet.write(entry)
    sheet.skip(MARGIN + 4)
    return svg.document(PHONE, sheet.y, title(access), describe_banks(access), sheet.body)


def draw_panel(sheet: Sheet, access: Access, served: list[Part], panel: Panel, labels: Labels) -> None:
    """Some of the banks, with each part of the lanes that is served at once."""
    banks = panel.banks
    if all(word % BANKS not in banks for word in access.lanes_of_words()):
        sheet.skip(8)
        sheet.write(f"Banks {banks[0]} to {banks[-1]} are not wanted.", class_="soft")
        return
    sheet.skip(26)
    sheet.body.append(text(panel.left - 5, sheet.y - 5, "banks", text_anchor="end", class_="soft"))
    for bank in panel.units():
        name = f"{bank}–{bank + 3}" if panel.unit == 4 else str(bank)
        sheet.body.append(text(panel.middle(bank), sheet.y - 5, name, text_anchor="middle", class_="soft"))
    for part in served:
        words = access.lanes_of_words(part.lanes)
        if len(served) > 1:
            sheet.write(f"lanes {part.lanes[0]} to {part.lanes[-1]} at once:", class_="soft")
            sheet.skip(5)
        rows = sorted({word // BANKS for word in words})
        for row in rows:
            if len(rows) > MANY_ROWS and row in rows[FIRST_ROWS:-LAST_ROWS]:
                if row == rows[FIRST_ROWS]:
                    left_out = len(rows) - FIRST_ROWS - LAST_ROWS
                    sheet.write(f"… {left_out} more rows in which words are wanted …", class_="soft")
                    sheet.skip(5)
                continue
            draw_row(sheet, panel, row, words, labels)
        if part.wavefronts > 1:
            draw_counts(sheet, panel, words_of_banks(words))


def draw_row(sheet: Sheet, panel: Panel, row: int, words: dict[int, list[int]], labels: Labels) -> None:
    """The panel's part of a row of 128 bytes."""
    mine = {w: lanes for w, lanes in words.items() if w // BANKS == row and w % BANKS in panel.banks}
    boxes = cells(mine, len(panel.banks))
    lines = [labels.lines(box.lanes, box.words * panel.width) for box in boxes]
    height = 5 + LANE_HEIGHT * max(map(len, lines), default=1)
    middle = sheet.y + height / 2 + 5
    sheet.body.append(text(panel.left - 5, middle, str(row * LINE), text_anchor="end", class_="soft"))
    for n in range(len(panel.banks)):
        x = panel.left + n * panel.width
        sheet.body.append(rectangle(x, sheet.y, panel.width, height, class_="empty rule"))
    for box, content in zip(boxes, lines, strict=True):
        x = panel.left + (box.word % BANKS - panel.banks[0]) * panel.width
        sheet.body.append(draw_cell(x, sheet.y, box.words * panel.width, height, box.lanes, content))
    sheet.skip(height)


def draw_counts(sheet: Sheet, panel: Panel, wanted: dict[int, int]) -> None:
    """Below the banks: how many words are wanted from each."""
    sheet.skip(LANE_HEIGHT)
    sheet.body.append(text(panel.left - 5, sheet.y, "words", text_anchor="end", class_="soft"))
    for bank in panel.units():
        many = max(wanted.get(b, 0) for b in range(bank, bank + panel.unit))
        style = {"class_": "mark", "font_weight": "bold"} if many > 1 else {"class_": "soft"}
        sheet.body.append(text(panel.middle(bank), sheet.y, str(many), text_anchor="middle", **style))
    sheet.skip(6)


SECTOR_LABEL = 52
SECTOR_GAP = 8  # between the left and the right one
ROW_GAP = 6
SECTOR_WORD = (PHONE - 2 * MARGIN - SECTOR_GAP - 2 * SECTOR_LABEL) / 16


def sectors_picture(access: Access) -> str:
    """Global memory: the sectors that the lanes touch, two side by side, framed by line of 128 bytes."""
    sheet, labels = Sheet(), Labels()
    sheet.write(title(access), size=15, font_weight="bold")
    sheet.write(sectors_verdict(access))
    sheet.write("Frame: the wanted sectors of a line of 128 bytes.", class_="soft")
    sheet.write("Outside: bytes into the array. Grey: not wanted.", class_="soft")
    sheet.skip(10)
    words = access.lanes_of_words()
    boxes = {s: cells({w: lanes for w, lanes in words.items() if w // 8 == s}, 8) for s in sectors(access)}
    lines = {s: [labels.lines(box.lanes, box.words * SECTOR_WORD) for box in boxes[s]] for s in boxes}
    height = 5 + LANE_HEIGHT * max(len(content) for row in lines.values() for content in row)
    places, frames = sector_places(list(boxes))
    top = sheet.y
    for sector, (row, slot) in places.items():
        sheet.y = top + row * (height + ROW_GAP)
        draw_sector(sheet, slot, sector, boxes[sector], lines[sector], height)
    for first, last, slots in frames:
        y = top + first * (height + ROW_GAP)
        left, right = slot_left(slots[0]), slot_left(slots[-1]) + 8 * SECTOR_WORD
        box_height = (last - first) * (height + ROW_GAP) + height
        sheet.body.append(
            rectangle(
                left - 1.5, y - 1.5, right - left + 3, box_height + 3, class_="strong", fill="none", rx=2
            )
        )
    sheet.skip(height + ROW_GAP)
    for entry in labels.legend():
        sheet.write(entry)
    sheet.skip(MARGIN)
    return svg.document(PHONE, sheet.y, title(access), describe_sectors(access), sheet.body)


Frame = tuple[int, int, range]  # around the sectors of a line: first and last row, slots


def sector_places(touched: list[int]) -> tuple[dict[int, tuple[int, int]], list[Frame]]:
    """Row and slot of each sector, two in a row. A line with several of them begins a row of its own."""
    by_line: dict[int, list[int]] = defaultdict(list)
    for sector in touched:
        by_line[sector * SECTOR // LINE].append(sector)
    places: dict[int, tuple[int, int]] = {}
    frames: list[Frame] = []
    at = 0  # the next free place, counted along the rows
    for group in by_line.values():
        several = len(group) > 1
        at += at % 2 if several else 0
        first = at
        for sector in group:
            places[sector] = (at // 2, at % 2)
            at += 1
        slots = range(2) if several else range(first % 2, first % 2 + 1)
        frames.append((first // 2, (at - 1) // 2, slots))
        at += at % 2 if several else 0
    return places, frames


def slot_left(slot: int) -> float:
    """Where the cells of the left or right sector begin."""
    return MARGIN + SECTOR_LABEL + slot * (SECTOR_LABEL + 8 * SECTOR_WORD + SECTOR_GAP)


def draw_sector(
    sheet: Sheet, slot: int, sector: int, boxes: list[Cell], lines: list[list[str]], height: float
) -> None:
    """A sector, 8 words wide, with its offset at the left."""
    left, middle = slot_left(slot), sheet.y + height / 2 + 5
    sheet.body.append(text(left - 5, middle, str(sector * SECTOR), text_anchor="end", class_="soft"))
    for n in range(8):
        x = left + n * SECTOR_WORD
        sheet.body.append(rectangle(x, sheet.y, SECTOR_WORD, height, class_="empty rule"))
    for box, content in zip(boxes, lines, strict=True):
        x = left + box.word % 8 * SECTOR_WORD
        sheet.body.append(draw_cell(x, sheet.y, box.words * SECTOR_WORD, height, box.lanes, content))


# ---- Words -----------------------------------------------------------------------------------------------

VERBS = {"load": "loads from", "store": "stores to", "copy": "copies"}


def title(access: Access) -> str:
    """One warp loads from As, 16 bytes a lane"""
    if access.operation == "copy":
        verb = "copies from" if access.space == "global" else "copies to"
    else:
        verb = VERBS[access.operation]
    return f"One warp {verb} {access.array}, {access.bytes} bytes a lane"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def banks_verdict(access: Access) -> str:
    served = parts(access)
    total, least = sum(part.wavefronts for part in served), len(served)
    if access.operation == "copy":  # its wavefronts also depend on what it reads
        return "No bank conflict" if total == least else f"{plural(total - least, 'bank conflict')}"
    if total == least:
        return f"{plural(total, 'wavefront')}: no bank conflict"
    return f"{plural(total, 'wavefront')}; without bank conflicts {least}"


def wanted_bytes(access: Access) -> int:
    """Distinct bytes."""
    return len({a + i for a in access.addresses if a is not None for i in range(access.bytes)})


def sectors_verdict(access: Access) -> str:
    many = len(sectors(access))
    return f"{wanted_bytes(access)} bytes wanted, {plural(many, 'sector')} = {many * SECTOR} bytes moved"


def describe_banks(access: Access) -> str:
    served = parts(access)
    pieces = [f"lanes {p.lanes[0]} to {p.lanes[-1]} take {plural(p.wavefronts, 'wavefront')}" for p in served]
    by_part = f" By parts: {', '.join(pieces)}." if len(served) > 1 else ""
    used = len({word % BANKS for word in access.lanes_of_words()})
    return (
        f"{title(access)} in shared memory. {banks_verdict(access)}. {used} of 32 banks are wanted.{by_part}"
    )


def describe_sectors(access: Access) -> str:
    lines = len({sector * SECTOR // LINE for sector in sectors(access)})
    where = f"in {plural(lines, 'line')} of 128 bytes"
    return f"{title(access)} in global memory. {sectors_verdict(access)}, {where}."


def picture(access: Access) -> str:
    """The SVG of an access."""
    return banks_picture(access) if access.space == "shared" else sectors_picture(access)


def describe(access: Access) -> str:
    return describe_banks(access) if access.space == "shared" else describe_sectors(access)


# ---- Which access ----------------------------------------------------------------------------------------


def find(
    rows: list[dict[str, Any]], operation: str, array: str, space: str | None = None, line: str | None = None
) -> dict[str, Any]:
    """The one row of an X-ray that is meant. Raises UsageError if none or several fit."""
    fits = [
        row
        for row in rows
        if (row["operation"], row["array"]) == (operation, array)
        and space in (None, row["space"])
        and (line is None or line in row["source"])
        and row.get("example")
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
    parser.add_argument("operation", choices=("load", "store", "copy"))
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
        rows = [row for kernel in record["xray"]["kernels"] for row in kernel["accesses"]]
    except (ValueError, LookupError, TypeError):
        raise UsageError(f"{args.file}: holds no X-ray; make it with `run --xray --json FILE`") from None
    row = find(rows, args.operation, args.array, args.space, args.line)
    write_whole(Path(args.out), picture(from_xray(row)))
    return 0
