"""Draws the matrices of warp-wide instructions: which lane holds which element of an mma's, and what an
ldmatrix reads for which lane. Maps are those that <build>/common/tools/fragment_maps prints; addresses come
from the X-ray."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tools.base import plural
from tools.drawing.picture import BANKS, LANE_HEIGHT, LINE, MARGIN, WORD, Access, Part, Sheet, emphasis
from tools.drawing.svg import PHONE, lane_colors, rectangle, text

Matrix = Mapping[str, Any]  # one of fragment_maps: rows, cols, packed, elements
Lines = Callable[["Cell"], Sequence[str]]  # of text, in a cell

ROW_BYTES = 16  # of a matrix that ldmatrix loads
ROWS = 8
ROW_LABEL = 24  # the room of a row's number
PANEL_GAP = 14
LEADING = 15  # from line to line in a cell


def box(x: float, y: float, width: float, height: float, lines: Sequence[str], **look: Any) -> str:
    """A rectangle with lines of text in its middle. ink: the text's colour, if not the mode's."""
    ink = look.pop("ink", None)
    style = {"style": f"fill:{ink}"} if ink else {"class_": look.pop("text_class", "ink")}
    top = y + height / 2 + 5 - LEADING * (len(lines) - 1) / 2
    places = ((top + n * LEADING, line) for n, line in enumerate(lines))
    words = (text(x + width / 2, at, line, text_anchor="middle", **style) for at, line in places)
    return rectangle(x, y, width, height, **look) + "".join(words)


def of_lane(lane: int, marked: bool) -> dict[str, Any]:
    """How a lane's cell looks; a marked one as nothing else does."""
    if marked:
        return {"class_": "here", "ink": "#000000"}
    color, ink = lane_colors(lane)
    return {"class_": "edge", "fill": color, "ink": ink}


# ---- Which lane holds which element ----------------------------------------------------------------------


class Cell(NamedTuple):
    """A register of a lane, with the place of the elements in it: those of one row or of one column."""

    lane: int
    register: int
    row: int
    col: int
    high: int  # elements
    wide: int


def cells(matrix: Matrix) -> list[Cell]:
    """All registers of the 32 lanes that hold a matrix."""
    found, packed = [], matrix["packed"]
    for lane, elements in enumerate(matrix["elements"]):
        for first in range(0, len(elements), packed):
            rows, cols = zip(*elements[first : first + packed], strict=True)
            high, wide = max(rows) - min(rows) + 1, max(cols) - min(cols) + 1
            if high * wide != packed:
                raise ValueError(f"the elements from {first} on of lane {lane} are no neighbours")
            found.append(Cell(lane, first // packed, min(rows), min(cols), high, wide))
    return found


def draw_matrix(
    matrix: Matrix, left: float, top: float, width: float, height: float, lines: Lines, marked: int
) -> list[str]:
    """Its registers as cells, within so much room. `lines`: what stands in a cell; marked: a lane."""
    x, y = width / matrix["cols"], height / matrix["rows"]
    body = []
    for cell in sorted(cells(matrix), key=lambda c: c.lane == marked):  # those marked over the others
        at = left + cell.col * x, top + cell.row * y, cell.wide * x, cell.high * y
        body.append(box(*at, lines(cell), **of_lane(cell.lane, cell.lane == marked)))
    return body


def row_labels(matrix: Matrix, right: float, top: float, height: float) -> list[str]:
    """The number of each row of registers."""
    y = height / matrix["rows"]
    firsts = sorted({(cell.row, cell.high) for cell in cells(matrix)})
    places = ((row, top + (row + high / 2) * y + 5) for row, high in firsts)
    return [text(right - 5, at, str(row), text_anchor="end", class_="soft") for row, at in places]


def column_labels(matrix: Matrix, left: float, y: float, width: float) -> list[str]:
    """The number of each column of registers."""
    firsts = sorted({(cell.col, cell.wide) for cell in cells(matrix)})
    x = width / matrix["cols"]
    places = ((col, left + (col + wide / 2) * x) for col, wide in firsts)
    return [text(at, y, str(col), text_anchor="middle", class_="soft") for col, at in places]


def elements_of(name: str, matrix: Matrix, lane: int) -> list[tuple[str, str]]:
    """Register -> its elements, as in ("a0", "A[1][2]"), ("a0", "A[1][2], [1][3]")."""
    found, packed = [], matrix["packed"]
    places = [f"[{row}][{col}]" for row, col in matrix["elements"][lane]]
    for first in range(0, len(places), packed):
        together = ", ".join(places[first : first + packed])
        found.append((f"{name}{first // packed}", f"{name.upper()}{together}"))
    return found


def instruction_name(name: str, maps: Mapping[str, Matrix]) -> str:
    """mma.m16n8k8 in TF32, of mma_tf32"""
    verb, _, kind = name.partition("_")
    a, b = maps["a"], maps["b"]
    return f"{verb}.m{a['rows']}n{b['cols']}k{a['cols']} in {kind.upper()}"


def describe_fragments(name: str, maps: Mapping[str, Matrix], lane: int) -> str:
    """The picture in words, for those who cannot see it."""
    sizes = ", ".join(
        f"{key.upper()} has {m['rows']} rows and {m['cols']} columns" for key, m in maps.items()
    )
    held = (element for key, matrix in maps.items() for element in elements_of(key, matrix, lane))
    own = ", ".join(f"{register} = {element}" for register, element in held)
    title = f"{instruction_name(name, maps)}: which lane of a warp holds which element"
    return f"{title}. {sizes}. Lane {lane} holds {own}."


def registers(key: str) -> Lines:
    """What a cell says of its lane and register."""
    return lambda cell: (str(cell.lane), f"{key}{cell.register}")


def fragments(name: str, maps: Mapping[str, Matrix], lane: int) -> str:
    """The SVG of an instruction's A, B and C: B above C, A at its left, as in a product."""
    a, b, c = maps["a"], maps["b"], maps["c"]
    sheet = Sheet(f"{instruction_name(name, maps)}: who holds what")
    sheet.write("In a cell: the lane, and below it its register.", class_="soft")
    wide = (PHONE - 2 * MARGIN - ROW_LABEL - PANEL_GAP) / 2  # of each matrix
    high = 2 * LEADING + 6  # of a register
    left_a, left_c = MARGIN + ROW_LABEL, PHONE - MARGIN - wide
    top_b = sheet.y + 2 * LANE_HEIGHT + 12
    tall_b = len({cell.row for cell in cells(b)}) * high
    top_c = top_b + tall_b + 2 * LANE_HEIGHT + 8
    tall_c = c["rows"] * high

    for key, matrix, left, top, tall in (
        ("a", a, left_a, top_c, tall_c), ("b", b, left_c, top_b, tall_b), ("c", c, left_c, top_c, tall_c),
    ):  # fmt: skip
        shape = f"{key.upper()} [{matrix['rows']}][{matrix['cols']}]"
        sheet.body += draw_matrix(matrix, left, top, wide, tall, registers(key), lane)
        if matrix is not c:
            sheet.over(left + wide / 2, top - LANE_HEIGHT - 7, shape, font_weight="bold")
            sheet.body += column_labels(matrix, left, top - 5, wide)
            sheet.body += row_labels(matrix, left, top, tall)
        else:
            sheet.over(left + wide / 2, top - 8, shape, font_weight="bold")

    # In the corner at the top left, what the marked lane holds.
    y = top_b - LANE_HEIGHT
    sheet.body.append(rectangle(MARGIN, y - 11, 13, 13, class_="here"))
    sheet.body.append(text(MARGIN + 20, y, f"Lane {lane} holds", font_weight="bold"))
    for key, matrix in maps.items():
        y += 6
        for register, element in elements_of(key, matrix, lane):
            y += LANE_HEIGHT
            sheet.body.append(text(MARGIN, y, register, class_="soft"))
            sheet.body.append(text(MARGIN + 26, y, element))
    sheet.y = top_c + tall_c + MARGIN
    return sheet.document(describe_fragments(name, maps, lane))


# ---- ldmatrix --------------------------------------------------------------------------------------------

ADDRESS = 49  # the room of a row's address
ROW_HEIGHT = 20


def wavefronts_of(access: Access) -> str:
    total, least = sum(part.wavefronts for part in access.parts), len(access.parts)
    more = "no bank conflict" if total == least else f"without bank conflicts {least}"
    return f"{plural(total, 'wavefront')}, {more}"


def title_of(access: Access) -> str:
    return f"One ldmatrix from {access.array}"


def describe_ldmatrix(access: Access) -> str:
    """The picture in words, for those who cannot see it."""
    matrices = []
    for number, part in enumerate(access.parts):
        firsts = [at // WORD % BANKS for lane in part.lanes if (at := access.addresses[lane]) is not None]
        banks = ", ".join(f"{bank} to {bank + ROW_BYTES // WORD - 1}" for bank in firsts)
        lanes = f"lanes {part.lanes[0]} to {part.lanes[-1]}"
        took = plural(part.wavefronts, "wavefront")
        matrices.append(f"Matrix {number}: {lanes} give the addresses of its rows, banks {banks}; {took}.")
    return " ".join([f"{title_of(access)}: {wavefronts_of(access)}.", *matrices])


def ldmatrix(access: Access, matrix: Matrix, lane: int) -> str:
    """The SVG of an ldmatrix: the rows that it reads, and the lanes whose registers get them. matrix: the map
    of one matrix."""
    sheet = Sheet(title_of(access))
    sheet.write(wavefronts_of(access), class_="mark" if access.conflicts else "ink")
    sheet.write("A cell: the lane that gives the row's address.", class_="soft")
    sheet.write("Left: that address. Above: the first of four banks.", class_="soft")
    wide = (PHONE - 2 * MARGIN - PANEL_GAP) / 2
    tall = 2 * LANE_HEIGHT + 12 + ROWS * ROW_HEIGHT
    top = sheet.y
    for number, part in enumerate(access.parts):
        left, sheet.y = MARGIN + number % 2 * (wide + PANEL_GAP), top + number // 2 * tall
        draw_rows(sheet, access, part, f"matrix {number}", left, wide, lane)
    sheet.y = top + (len(access.parts) + 1) // 2 * tall + 8
    draw_receivers(sheet, access, matrix, lane)
    return sheet.document(describe_ldmatrix(access))


def draw_rows(
    sheet: Sheet, access: Access, part: Part, name: str, left: float, wide: float, marked: int
) -> None:
    """The rows of one matrix, each in its banks, from sheet.y on."""
    first, width = left + ADDRESS, (wide - ADDRESS) / (LINE // ROW_BYTES)
    sheet.y += LANE_HEIGHT + 6
    sheet.body.append(text(left, sheet.y, name, font_weight="bold"))
    took, look = plural(part.wavefronts, "wavefront"), emphasis(part.wavefronts > 1)
    sheet.body.append(text(left + wide, sheet.y, took, text_anchor="end", **look))
    sheet.y += LANE_HEIGHT
    for n in range(0, LINE // ROW_BYTES, 2):  # all numbers would run together
        sheet.over(first + (n + 0.5) * width, sheet.y, n * ROW_BYTES // WORD, class_="soft")
    sheet.y += 5
    for lane in part.lanes:
        address = access.addresses[lane]
        for n in range(LINE // ROW_BYTES):
            sheet.body.append(rectangle(first + n * width, sheet.y, width, ROW_HEIGHT, class_="empty rule"))
        if address is not None:
            sheet.before(first, sheet.y + 15, address)
            x = first + address % LINE // ROW_BYTES * width
            look = of_lane(lane, lane == marked)
            sheet.body.append(box(x, sheet.y, width, ROW_HEIGHT, [str(lane)], **look))
        sheet.y += ROW_HEIGHT


def draw_receivers(sheet: Sheet, access: Access, matrix: Matrix, lane: int) -> None:
    """The lanes that get the elements of a matrix, and in words what becomes of one lane."""
    found = cells(matrix)
    whole = all(cell.wide == matrix["packed"] for cell in found)  # a register is a word of a row
    sheet.write("Who gets which " + ("word" if whole else "elements") + " of a matrix", font_weight="bold")
    left, top, side = MARGIN + ROW_LABEL, sheet.y + LANE_HEIGHT + 6, ROWS * ROW_HEIGHT
    sheet.body += draw_matrix(matrix, left, top, side, side, lambda cell: [str(cell.lane)], lane)
    unit = matrix["packed"] if whole else 1
    for col in sorted({cell.col for cell in found}):
        middle = left + (col + unit / 2) * side / matrix["cols"]
        sheet.over(middle, top - 5, col // unit, class_="soft")
    sheet.body += row_labels(matrix, left, top, side)
    (own,) = (cell for cell in found if cell.lane == lane)
    says = [f"Lane {lane}"]
    for number, part in enumerate(access.parts):
        if lane in part.lanes:
            says += ["gives the address of", f"row {lane - part.lanes[0]} of matrix {number}, and"]
    what = f"word {own.col // unit} of row {own.row}" if whole else f"[{own.row}, {own.row + 1}][{own.col}]"
    says += ["gets, of each matrix,", f"{what},", "one register for each."]
    for n, words in enumerate(says):
        sheet.body.append(text(left + side + PANEL_GAP, top + 12 + n * (LANE_HEIGHT + 2), words))
    sheet.y = top + side + MARGIN + 4
