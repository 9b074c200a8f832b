"""Draws the matrices of warp-wide instructions: which lane holds which element of an mma's, and what an
ldmatrix reads for which lane. Maps are those that <build>/common/tools/fragment_maps prints; addresses come
from the X-ray."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tools.base import plural
from tools.drawing import picture
from tools.drawing.picture import BANKS, LANE_HEIGHT, LINE, MARGIN, WORD, Access, Part, Place, Sheet
from tools.drawing.svg import FONT, PHONE, text

Matrix = Mapping[str, Any]  # one of fragment_maps: rows, cols, packed, elements
Lines = Callable[["Cell"], Sequence[object]]  # of text, in a cell

ROW_BYTES = 16  # of a matrix that ldmatrix loads
ROWS = 8
ROW_LABEL = 24  # the room of a row's number
PANEL_GAP = 14


# ---- Which lane holds which element ----------------------------------------------------------------------


class Cell(NamedTuple):
    """A register of a lane, with the place of the first of its elements, neighbours in a row."""

    lane: int
    register: int
    row: int
    col: int
    wide: int  # elements


def cells(matrix: Matrix) -> list[Cell]:
    """All registers of the 32 lanes that hold a matrix."""
    packed = matrix["packed"]
    return [
        Cell(lane, n, row, col, packed)
        for lane, elements in enumerate(matrix["elements"])
        for n, (row, col) in enumerate(elements[::packed])
    ]


def draw_matrix(sheet: Sheet, matrix: Matrix, at: Place, lines: Lines, marked: int) -> list[Cell]:
    """Draws its registers as cells and returns them. `lines`: what stands in a cell; marked: a lane."""
    found = cells(matrix)
    left, top, x, y = *at[:2], at[2] / matrix["cols"], at[3] / matrix["rows"]
    for cell in sorted(found, key=lambda c: c.lane == marked):  # those marked over the others
        place = left + cell.col * x, top + cell.row * y, cell.wide * x, y
        sheet.cell(place, lines(cell), cell.lane, cell.lane == marked)
    return found


def label_rows(sheet: Sheet, found: Sequence[Cell], left: float, top: float, high: float) -> None:
    """The number of each row of registers; `high` is an element."""
    for row in sorted({cell.row for cell in found}):
        sheet.before(left, top + (row + 0.5) * high + 5, row)


def elements_of(name: str, matrix: Matrix, lane: int) -> list[tuple[str, str]]:
    """Each register and its element, as in ("a0", "A[1][2]")."""
    places = enumerate(matrix["elements"][lane])
    return [(f"{name}{n}", f"{name.upper()}[{row}][{col}]") for n, (row, col) in places]


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


def fragments(name: str, maps: Mapping[str, Matrix], lane: int) -> str:
    """The SVG of an instruction's A, B and C: B above C, A at its left, as in a product."""
    sheet = Sheet(f"{instruction_name(name, maps)}: who holds what")
    sheet.write(f"A cell: its lane. Of lane {lane}: the register.", class_="soft")
    wide = (PHONE - 2 * MARGIN - ROW_LABEL - PANEL_GAP) / 2  # of each matrix
    tall = {key: matrix["rows"] * (LANE_HEIGHT + 4) for key, matrix in maps.items()}
    top_b = sheet.y + 2 * LANE_HEIGHT + 12
    top_c = top_b + tall["b"] + 2 * LANE_HEIGHT + 8
    for key, matrix in maps.items():
        left = MARGIN + ROW_LABEL if key == "a" else PHONE - MARGIN - wide
        top = top_b if key == "b" else top_c

        def lines(cell: Cell, key: str = key) -> Sequence[object]:
            return [f"{key}{cell.register}" if cell.lane == lane else cell.lane]

        found = draw_matrix(sheet, matrix, (left, top, wide, tall[key]), lines, lane)
        shape = f"{key.upper()} [{matrix['rows']}][{matrix['cols']}]"
        sheet.over(left + wide / 2, top - 8 - (key != "c") * LANE_HEIGHT, shape, font_weight="bold")
        if key != "c":
            for col, cols in sorted({(cell.col, cell.wide) for cell in found}):
                sheet.over(left + (col + cols / 2) * wide / matrix["cols"], top - 5, col, class_="soft")
            label_rows(sheet, found, left, top, tall[key] / matrix["rows"])

    # In the corner at the top left, what the marked lane holds.
    sheet.y = top_b - LANE_HEIGHT - FONT - 5
    sheet.explain(f"Lane {lane} holds", class_="here")
    for key, matrix in maps.items():
        sheet.y += 6
        for register, element in elements_of(key, matrix, lane):
            sheet.y += LANE_HEIGHT
            sheet.body.append(text(MARGIN, sheet.y, register, class_="soft"))
            sheet.body.append(text(MARGIN + 26, sheet.y, element))
    sheet.y = top_c + tall["c"] + MARGIN
    return sheet.document(describe_fragments(name, maps, lane))


# ---- ldmatrix --------------------------------------------------------------------------------------------

ADDRESS = 49  # the room of a row's address
ROW_HEIGHT = 18


def describe_ldmatrix(access: Access) -> str:
    """The picture in words, for those who cannot see it."""
    matrices = []
    for number, part in enumerate(access.parts):
        firsts = [at // WORD % BANKS for lane in part.lanes if (at := access.addresses[lane]) is not None]
        banks = ", ".join(f"{bank} to {bank + ROW_BYTES // WORD - 1}" for bank in firsts)
        lanes = f"lanes {part.lanes[0]} to {part.lanes[-1]}"
        took = plural(part.wavefronts, "wavefront")
        matrices.append(f"Matrix {number}: {lanes} give the addresses of its rows, banks {banks}; {took}.")
    return " ".join([f"{picture.title(access)}. {picture.verdict(access)}.", *matrices])


def ldmatrix(access: Access, matrix: Matrix, lane: int) -> str:
    """The SVG of an ldmatrix: the rows that it reads, and the lanes whose registers get them. matrix: the map
    of one matrix."""
    sheet = Sheet(picture.title(access))
    sheet.write(picture.verdict(access), class_="mark" if access.conflicts else "ink")
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
    took, look = plural(part.wavefronts, "wavefront"), picture.emphasis(part.wavefronts > 1)
    sheet.body.append(text(left + wide, sheet.y, took, text_anchor="end", **look))
    sheet.y += LANE_HEIGHT
    for n in range(0, LINE // ROW_BYTES, 2):  # all numbers would run together
        sheet.over(first + (n + 0.5) * width, sheet.y, n * ROW_BYTES // WORD, class_="soft")
    sheet.y += 5
    for lane in part.lanes:
        address, cells_of_row = access.addresses[lane], []
        if address is not None:
            sheet.before(first, sheet.y + ROW_HEIGHT / 2 + 5, address)
            cells_of_row = [picture.Cell(address % LINE // ROW_BYTES, 1, [lane], [str(lane)])]
        sheet.draw((first, sheet.y, width, ROW_HEIGHT), range(LINE // ROW_BYTES), cells_of_row, marked)
        sheet.y += ROW_HEIGHT


def draw_receivers(sheet: Sheet, access: Access, matrix: Matrix, lane: int) -> None:
    """The lanes that get the elements of a matrix, and in words what becomes of one lane."""
    sheet.write("Who gets which word of a matrix", font_weight="bold")
    left, top, side = MARGIN + ROW_LABEL, sheet.y + LANE_HEIGHT + 6, ROWS * ROW_HEIGHT
    wide = PHONE - MARGIN - left
    found = draw_matrix(sheet, matrix, (left, top, wide, side), lambda cell: [cell.lane], lane)
    unit = matrix["packed"]  # elements of a word
    for col in range(0, matrix["cols"], unit):
        sheet.over(left + (col + unit / 2) * wide / matrix["cols"], top - 5, col // unit, class_="soft")
    label_rows(sheet, found, left, top, side / matrix["rows"])
    sheet.y = top + side + 4
    [own] = (cell for cell in found if cell.lane == lane)
    says = f"gets, of each matrix, word {own.col // unit} of row {own.row}, one register for each."
    for number, part in enumerate(access.parts):
        if lane in part.lanes:
            says = f"gives the address of row {lane - part.lanes[0]} of matrix {number}, and {says}"
    sheet.explain(f"Lane {lane} {says}", class_="here")
    sheet.y += MARGIN + 4
