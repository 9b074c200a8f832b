"""What the site's script plays with: which elements of A, B and C each lane touches, and where they lie, for
every warp and every load of a recording. docs/javascripts/play/ draws it.

A recording repeats itself: warps do the same at other places, and so does a warp at the next k. Kept are the
patterns, from their smallest address, row and column; the loads of a warp, from its first; and where each
warp begins. So, of a load's data, with `+` of the three figures address, row and column:

  shapes    elements of a lane, as [row, column]: from the lane's smallest; null: a zero past the matrix
  patterns  one load of a warp. addresses: of each lane, null if it takes no part; lanes: [shape, row, column]
            of each lane; parts: [first lane, last lane, first byte, last byte], that memory serves at once,
            and the wavefronts that takes
  orders    the loads of a warp one after another: [pattern, address, row, column]
  warps     [warp, order, address, row, column]
  array     the name in the kernel, and `dims`, its extents, by which an address becomes As[3][40]

and of C likewise, in which a shape is [row, column, rows, columns] boxes:

  shapes, lanes ([shape, row, column] of each lane), warps ([lanes, row, column])
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tools.base import UsageError
from tools.claims.recording import FLOAT, LANES, Line, Recording, Request
from tools.drawing.tiling import boxes, stores_all

BANKS = 32


def number(things: list[Any], thing: Any) -> int:
    """The place of a thing among those that came so far, to which it is added."""
    try:
        return things.index(thing)
    except ValueError:
        things.append(thing)
        return len(things) - 1


def wavefronts(addresses: Iterable[int | None], size: int) -> int:
    """Of lanes that are served at once: the most words that one bank has to give."""
    words = {a // FLOAT + n for a in addresses if a is not None for n in range(size // FLOAT)}
    return max(Counter(word % BANKS for word in words).values(), default=0)


def parts_of(line: Line, addresses: Sequence[int | None]) -> list[list[int]]:
    """What shared memory serves at once, as common/cpu_device/warp_request.cpp has it."""
    if line.space == "global":
        return [[0, LANES - 1, 0, line.bytes - 1, 0]]
    lanes = LANES if line.bytes <= FLOAT else LANES * FLOAT // line.bytes
    if line.operation == "ldmatrix":
        lanes = 8
    elif line.bytes > FLOAT:
        mates = ([(a, addresses[lane ^ far]) for lane, a in enumerate(addresses)] for far in (1, 2))
        lanes *= 2 if any(all(a == b or None in (a, b) for a, b in pairs) for pairs in mates) else 1
    found = []
    for first in range(0, LANES, lanes):
        part = addresses[first : first + lanes]
        if any(address is not None for address in part):
            found.append([first, first + lanes - 1, 0, line.bytes - 1, wavefronts(part, line.bytes)])
    return found


Place = tuple[int, int, int]  # address, row, column


def place_of(request: Request) -> Place:
    """The smallest address, row and column of a request; 0 where all that it reads lies past the matrix."""
    corners = [corner for corner in request.corners if corner]
    address = min([address for address in request.addresses if address is not None])
    return address, min([row for row, _ in corners], default=0), min([col for _, col in corners], default=0)


def pattern_of(line: Line, request: Request, shapes: list[Any]) -> dict[str, Any]:
    """A request from its own place."""
    address, row, col = place_of(request)
    lanes = []
    for elements, corner in zip(request.elements, request.corners, strict=True):
        r, c = corner or (row, col)
        lanes.append([number(shapes, [e and [e.row - r, e.col - c] for e in elements]), r - row, c - col])
    relative = [None if a is None else a - address for a in request.addresses]
    return {"addresses": relative, "lanes": lanes, "parts": parts_of(line, request.addresses)}


def statement(source: Sequence[str], line: int) -> str:
    """The code from a line on, 1 being the first, to the end of what it says, in one line."""
    found = ""
    for one in source[line - 1 : line + 2]:
        found += " " + one.partition("//")[0].strip()
        if found.endswith((";", "{", "}")):
            break
    return found.strip()


def load_of(line: Line) -> dict[str, Any]:
    """All requests of a line."""
    matrices = {e.matrix for request in line.requests for lane in request.elements for e in lane if e}
    if len(matrices) != 1:
        raise UsageError(f"line {line.line} loads elements of {' and '.join(sorted(matrices)) or 'nothing'}")
    shapes, patterns, orders = list[Any](), list[Any](), list[Any]()
    warps: list[list[int]] = []
    for warp in sorted({request.warp for request in line.requests}):
        # Where a step's first tile takes two blocks, both count from 0.
        mine = sorted((r for r in line.requests if r.warp == warp), key=lambda r: (r.sequence, place_of(r)))
        address, row, col = place_of(mine[0])
        order = []
        for one in mine:
            a, r, c = place_of(one)
            order.append([number(patterns, pattern_of(line, one, shapes)), a - address, r - row, c - col])
        warps.append([warp, number(orders, order), address, row, col])
    return {
        "matrix": matrices.pop(),
        "line": line.line,
        "operation": line.operation,
        "space": line.space,
        "bytes": line.bytes,
        "shapes": shapes,
        "patterns": patterns,
        "orders": orders,
        "warps": warps,
    }


def sums_of(recording: Recording) -> dict[str, Any]:
    """Who stores which elements of C."""
    shapes, arrangements = list[Any](), list[Any]()
    warps: list[list[int] | None] = []
    owners = stores_all(recording)
    cells: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for at, who in owners.items():
        cells[who].append(at)
    for warp in range(max(warp for warp, _ in cells) + 1):
        mine = [cells.get((warp, lane), []) for lane in range(LANES)]
        every = [at for found in mine for at in found]
        if not every:
            warps.append(None)
            continue
        row, col = min(r for r, _ in every), min(c for _, c in every)
        lanes = []
        for found in mine:
            r, c = min((r for r, _ in found), default=row), min((c for _, c in found), default=col)
            shape = number(shapes, [list(box) for box in boxes((y - r, x - c) for y, x in found)])
            lanes.append([shape, r - row, c - col])
        warps.append([number(arrangements, lanes), row, col])
    return {"shapes": shapes, "lanes": arrangements, "warps": warps}


def data(
    recording: Recording,
    bk: int,
    terms: int,
    stages: int,
    arrays: dict[str, tuple[str, list[int]]],
    source: Sequence[str],
) -> dict[str, Any]:
    """terms: of K, that are multiplied at once. stages: buffers for tiles. arrays: what the kernel calls an
    array of a recording, and its extents. source: the kernel's."""
    space = "shared" if any(line.space == "shared" for line in recording.lines) else "global"
    loads = []
    for line in recording.lines:
        read = (e for request in line.requests for lane in request.elements for e in lane if e)
        of_operands = any(e.matrix in "AB" for e in read)
        if line.operation in ("load", "ldmatrix") and of_operands and line.space == space:
            name, dims = arrays[line.array]
            said = {"array": name, "dims": dims, "source": statement(source, line.line)}
            loads.append({**said, **load_of(line)})
    loads.sort(key=lambda load: (load["matrix"], load["line"]))
    head = {"m": recording.m, "n": recording.n, "k": recording.k, "bk": bk, "terms": terms, "stages": stages}
    return {"step": recording.step, **head, "sums": sums_of(recording), "loads": loads}


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


HEAD = "// Generated by `ladder pages`; common/tools/drawing says how.\n"


def script(name: str, found: dict[str, Any], spread: str = "loads") -> str:
    """The file: it works from file://, as JSON would not. A line for each thing that may change; of the list
    `spread` one for each item."""
    rows = [f"{compact(key)}:{compact(value)}" for key, value in found.items() if key != spread]
    rows.append(f"{compact(spread)}:[\n" + ",\n".join(map(compact, found[spread])) + "]")
    return f"{HEAD}(window.gemmLadderPlay ??= {{}})[{compact(name)}] = {{\n" + ",\n".join(rows) + "\n};\n"
