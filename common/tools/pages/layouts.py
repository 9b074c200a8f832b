"""The kinds of generated blocks for warp-wide instructions: who holds which element, which rows and banks an
access reads, and where a tile's elements lie. Pictures by tools.drawing.fragments and .layouts."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any

from tools.base import ROOT, UsageError, markdown, read_text
from tools.claims.constants import constants, extents
from tools.claims.objects import NotAvailable, NoValue
from tools.claims.recording import MOST, MOST_PRODUCTS, Recording
from tools.drawing import (
    cluster_split,
    descriptors,
    error_over_k,
    fragments,
    guard_parts,
    layouts,
    picture,
    pipeline,
    play,
    schedule,
    shape_tiles,
    split_bits,
    tiling,
    timeline,
)
from tools.drawing.layouts import Layout
from tools.pages.blocks import Request, block, source_of

WARP, LANE = 0, 5  # that are marked: a lane whose row, column and number all differ
ELEMENT = 4  # bytes of a float


def shared_row(request: Request, step: str, operation: str, array: str) -> dict[str, Any]:
    """The row of a step's X-ray that is meant."""
    return picture.find(request.accesses(step), operation, array, "shared")


@block(of_build=True)
def make_fragments(request: Request) -> str:
    maps, name = request.context.fragment_maps(), request.arguments
    known = [key for key, matrices in maps.items() if {"a", "b", "c"} == matrices.keys()]
    if name not in known:
        raise UsageError(f"write `fragments NAME`, of {' or '.join(known)}")
    says = fragments.describe_fragments(name, maps[name], LANE)
    return request.figure([f"{name}_lane_{LANE}"], fragments.fragments(name, maps[name], LANE), says)


@block("step", of_build=True)
def make_ldmatrix(request: Request) -> str:
    step, [array] = request.step, request.words("ldmatrix ARRAY")
    row = shared_row(request, step, "ldmatrix", array)
    access = picture.from_xray(row)
    if "ldmatrix_trans" in row["source"]:
        raise UsageError(f"{source_of(row)} transposes: who gets what is drawn of a plain ldmatrix only")
    svg = fragments.ldmatrix(access, request.context.fragment_maps()["ldmatrix"]["m"], LANE)
    words = [step, "ldmatrix", array, f"lane_{LANE}"]
    return f"{request.figure(words, svg, fragments.describe_ldmatrix(access))}\n\n{source_of(row)}"


@block(of_build=True)
def make_compare(request: Request) -> str:
    operation, array, *names = request.words("compare OPERATION ARRAY [STEP ...]")
    steps = request.steps(" ".join(names), before=True)
    rows = {step: shared_row(request, step, operation, array) for step in steps}
    accesses = {step: picture.from_xray(row) for step, row in rows.items()}
    words = [*steps, operation, array]
    link = request.figure(words, layouts.compared(accesses), layouts.describe_compared(accesses))
    head = ["lane", *(f"{step[:2]}: {what}" for step in steps for what in ("word", "bank"))]
    table_rows = []
    for lane, addresses in enumerate(zip(*(a.addresses for a in accesses.values()), strict=True)):
        words_of_steps = [None if at is None else at // ELEMENT for at in addresses]
        cells = [("–", "–") if w is None else (str(w), str(w % picture.BANKS)) for w in words_of_steps]
        table_rows.append([str(lane), *chain.from_iterable(cells)])
    sources = "\n".join(f"- {source_of(row)}" for row in rows.values())
    table = markdown(head, table_rows, left=1)
    summary = (
        "The same as a table: each lane's first word of 4 bytes, counted from the array's first, and its bank"
    )
    details = f'<details markdown="1">\n<summary>{summary}</summary>\n\n{table}\n\n</details>'
    return f"{link}\n\n{sources}\n\n{details}"


@dataclass(frozen=True)
class Block:
    """What a step's block computes: m x n of C, bk terms at a time; `terms` of them are multiplied at once,
    and there are `stages` buffers for tiles."""

    m: int
    n: int
    bk: int
    terms: int
    stages: int


def block_of(request: Request, step: str) -> Block:
    found = constants(read_text(request.context.kernel(step)))
    try:
        m, n = (found[name] if name in found else found["TILE"] for name in ("BM", "BN"))
        # Without tiles in shared memory, a round is what an mma takes.
        bk = found["BK"] if "BK" in found else found["MK"]
    except KeyError as missing:
        raise NoValue(f"{step} has no constant {missing.args[0]}") from None
    return Block(m, n, bk, found.get("MK", 1), found.get("STAGES", 1))


def recording_of(request: Request, step: str) -> tuple[Block, Recording]:
    """What a step's block does in as many rounds as it has buffers, at least two."""
    of = block_of(request, step)
    return of, request.context.recording(step, of.m, of.n, max(2, of.stages) * of.bk)


def arrays_of(request: Request, step: str, recorded: Recording) -> dict[str, tuple[str, list[int]]]:
    """What the kernel calls the arrays of a recording, and their extents."""
    source = "\n".join(request.source(step))
    found = {"A": ("A", [recorded.m, recorded.k]), "B": ("B", [recorded.k, recorded.n])}
    for line in recorded.lines:
        if line.space == "shared":
            member = line.array.rpartition("::")[2]
            name = f"{member}s" if "::" in line.array else member  # as the kernels call members of Tiles
            found[line.array] = name, extents(source, line.array)
    return found


def groups_of(request: Request, step: str, array: str, row_words: int) -> list[list[int]]:
    """Of the first rows of a tile, where their groups of 16 bytes lie, as a recording shows it."""
    of, recorded = recording_of(request, step)
    begins: dict[tuple[int, int], int] = {}  # of a row and a group, its place in the row
    for line, access in recorded.of(("load", "ldmatrix"), "shared"):
        for _, element, address in access.words(line) if line.array == array else ():
            if element and (element.col if element.matrix == "A" else element.row) < of.bk:  # the first tile
                at, place = divmod(address // ELEMENT, row_words)
                group, rest = divmod(element.col, layouts.GROUP)
                begin = begins.setdefault((at, group), place - rest)
                if at != element.row or place != begin + rest or begin % layouts.GROUP:
                    raise UsageError(f"line {line.line} of {step} does not keep its groups of 16 bytes whole")
    try:
        places = [[begins[row, group] for group in range(layouts.GROUPS)] for row in range(layouts.ROWS)]
    except KeyError:
        raise UsageError(f"no load of {step} says where 8 rows of 128 bytes of {array} lie") from None
    return [[begin // layouts.GROUP for begin in of_row] for of_row in places]


@block("step", of_build=True)
def make_swizzle(request: Request) -> str:
    step, [array, operation] = request.step, request.words("swizzle ARRAY OPERATION")
    matrix = array.split("::")[-1][:1]
    if matrix not in ("A", "B"):
        raise UsageError(f"{array} is no tile of A or B")
    row = shared_row(request, step, operation, array)
    if any("GemmBf16" in line for line in request.source(step)):  # rows of 128 bytes, laid out by TMA
        function, row_words = "swizzled", picture.BANKS
        groups = descriptors.groups(request.context.fragment_maps()["wgmma_bf16"]["a"])
    else:
        function = {"A": "swizzle_128B", "B": "swizzle_b"}[matrix]
        row_words = request.context.const(step, "BK" if matrix == "A" else "BN")
        groups = groups_of(request, step, array, row_words)
    access = picture.from_xray(row)
    touched = set()
    for word in access.words(access.parts[0]):  # of an ldmatrix, its first matrix
        at, place = divmod(word, row_words)
        if at >= layouts.ROWS or place // layouts.GROUP not in groups[at]:
            raise UsageError(f"{source_of(row)} reads beyond what is drawn: 8 rows of 128 bytes")
        touched.add((at, groups[at].index(place // layouts.GROUP)))
    reads = "the first matrix of an ldmatrix" if operation == "ldmatrix" else f"one {operation} of a warp"
    layout = Layout(array, function, groups, frozenset(touched), f"what {reads} touches")
    words = [step, "swizzle", array, operation]
    link = request.figure(words, layouts.swizzle(layout), layouts.describe_swizzle(layout))
    return f"{link}\n\n{source_of(row)}"


@block("step", alone=True, of_build=True)
def make_tiling(request: Request) -> str:
    step = request.step
    of, recorded = recording_of(request, step)
    drawing = tiling.tiling(recorded, of.bk, of.terms, WARP, LANE)
    arrays, source = arrays_of(request, step, recorded), request.source(step)
    data = play.data(recorded, of.bk, of.terms, of.stages, arrays, source)
    request.figures[f"play/{step}.js"] = play.script(step, data)
    words = [step, f"tiling_warp_{WARP}_lane_{LANE}"]
    return request.figure(words, tiling.picture(drawing), tiling.describe(drawing))


@block(alone=True, of_build=True)
def make_stream_k(request: Request) -> str:
    step = request.step
    schedules = request.context.drawn("schedules", schedule.SLABS, *schedule.SMS, *schedule.TILES)
    name = f"{step}_schedule"
    request.figures[f"play/{name}.js"] = play.script(name, schedule.data(step, schedules), "schedules")
    return request.figure([name], schedule.picture(schedules), schedule.describe(schedules))


@block("step")
def make_shape_tiles(request: Request) -> str:
    """C of N x N in the tiles of the step before, cut along K as far as it cuts, and in one of this step."""
    step, words = request.step, request.words("shape_tiles N ROWS COLS")
    if not all(map(str.isdigit, words)):
        raise UsageError("N, ROWS and COLS of `shape_tiles` are numbers")
    n, rows, cols = map(int, words)
    source = "\n".join(request.source(step))
    parts = "".join(read_text(path) for path in sorted((ROOT / "steps" / step).glob("*.hpp")))
    has_parts = (
        f"MM = {rows};" in parts and f"BN = {cols};" in parts
    )  # a warpgroup's, each a tile or half of one
    if f"Shape<{rows}, {cols}, " not in source and not has_parts:
        raise UsageError(f"{step} has no tile of {rows} x {cols}")
    before = constants("\n".join(request.source(request.context.at(step).previous())))
    large = before["BM"], before["BN"], before.get("MAX_PARTS", 1)
    drawn = n, request.context.gpu().sms, (shape_tiles.Tiles(*large), shape_tiles.Tiles(rows, cols))
    return request.figure([step, "tiles"], shape_tiles.picture(*drawn), shape_tiles.describe(*drawn))


@block("step", alone=True, of_build=True)
def make_guard_parts(request: Request) -> str:
    parts = request.context.drawn("guard_parts")
    return request.figure([request.step, "parts"], guard_parts.picture(parts), guard_parts.describe(parts))


@block("step")
def make_split_bits(request: Request) -> str:
    number, *more = request.words("split_bits NUMBER [unscaled [raised]]")
    try:
        float(Fraction(number))
    except (ValueError, ZeroDivisionError):
        raise UsageError(f"NUMBER of `split_bits` is a number or a fraction, not {number}") from None
    if more not in ([], ["unscaled"], ["unscaled", "raised"]):
        raise UsageError("write `split_bits NUMBER [unscaled [raised]]`")
    words = [request.step, "bits", number.replace("/", "_").replace(".", "_"), *more]
    drawn = number, "unscaled" in more, "raised" in more
    return request.figure(words, split_bits.picture(*drawn), split_bits.describe(*drawn))


@block("step")
def make_cluster_split(request: Request) -> str:
    """How the split.hpp beside the step's kernel splits lines of K terms."""
    words = request.words("cluster_split K")
    if len(words) != 1 or not words[0].isdigit():
        raise UsageError("K of `cluster_split` is a number")
    file = request.context.root / "steps" / request.step / "split.hpp"
    if not file.exists():
        raise UsageError(f"{request.step} has no split.hpp")
    of = cluster_split.split_of(file.read_text(), int(words[0]))
    return request.figure(
        [request.step, "cluster_split"], cluster_split.picture(of), cluster_split.describe(of)
    )


@block()
def make_error_over_k(request: Request) -> str:
    """At M = N = 512, the largest error of some steps, by K."""
    curves = {}
    for step in request.steps(before=True):
        records = {k: request.context.ladder(step, n=512, m=512, k=k) for k in error_over_k.terms(16, 65536)}
        curves[step] = {k: record.relative_error for k, record in records.items()}
    words = [*curves, "error"]
    return request.figure(words, error_over_k.picture(curves), error_over_k.describe(curves))


def length_of(of: Block) -> tuple[int, int]:
    """How many rows of the block's tile are recorded and how many rounds, so that some tiles come into a
    buffer that has been read. For the time it makes no difference how many rows there are."""
    for rounds in range(of.stages + 3, of.stages, -1):
        for m in of.m, of.m // 2, of.m // 4:
            k = rounds * of.bk
            if (m + of.n) * k <= MOST and m * of.n * k <= MOST_PRODUCTS:
                return m, rounds
    raise UsageError(f"{of.m} x {of.n} x {of.bk} is too large a tile to record some of them")


@block("step", alone=True, of_build=True)
def make_timeline(request: Request) -> str:
    step = request.step
    of = block_of(request, step)
    if of.stages < 2:
        raise UsageError(f"{step} has one buffer for its tiles, so they are copied and read in turn")
    m, rounds = length_of(of)
    recorded = request.context.recording(step, m, of.n, rounds * of.bk)
    found = {name: dims for name, (_, dims) in arrays_of(request, step, recorded).items()}
    drawing = timeline.timeline(recorded, of.bk, of.stages, found)
    return request.figure([step, "timeline"], timeline.picture(drawing), timeline.describe(drawing))


@block("step", alone=True)
def make_ring(request: Request) -> str:
    step = request.step
    source = "\n".join(request.source(step))
    found = constants(source)
    of = pipeline.ring_of(step, source, found["STAGES"], found["CONSUMERS"])
    return request.figure([step, "ring"], pipeline.ring(of), pipeline.describe_ring(of))


@block("step")
def make_order(request: Request) -> str:
    step, [size] = request.step, request.words("order N")
    order = pipeline.tile_order(
        request.context.kernel(step).read_text(), int(size), request.context.gpu().sms
    )
    of = step, int(size), order
    return request.figure([step, "order"], pipeline.order_picture(*of), pipeline.describe_order(*of))


@block("step")
def make_schedule(request: Request) -> str:
    step, [device, k_tiles] = request.step, request.words("schedule DEVICE K_TILES")
    records = request.context.of_any_gpu("timeline.json", "the timeline")
    found = next(((gpu, r) for gpu, r in records if (r["step"], r["device"]) == (step, device)), None)
    if found is None:
        raise NotAvailable(f"the timeline of {step} on the {device} is not recorded yet")
    gpu, record = found
    svg, says = pipeline.schedule(record, int(k_tiles), gpu.upper())
    return request.figure([step, "schedule", device], svg, says)


@block("step", "k", of_build=True)
def make_descriptor(request: Request) -> str:
    """Where one wgmma of a step finds its operands; k: its first term."""
    if request.arguments not in ("", "play"):
        raise UsageError("write `descriptor [play] [k=N]`")
    step, maps = request.step, request.context.fragment_maps()["wgmma_bf16"]
    const = {name: request.context.const(step, name) for name in ("MM", "MK", "BN", "BK", "GROUP", "ATOM")}
    wanted = {
        "MM": maps["d"]["rows"],
        "BN": maps["d"]["cols"],
        "BK": 64,
        "GROUP": 64,
        "ATOM": descriptors.ATOM,
    }
    if wrong := [name for name, value in wanted.items() if const[name] != value]:
        raise UsageError(f"{wrong[0]} of {step} is {const[wrong[0]]}: what is drawn has {wanted[wrong[0]]}")
    k, words = request.options.get("k", "0"), [step, "descriptor"]
    if request.arguments:
        request.figures[f"play/{step}_descriptor.js"] = descriptors.script(step, maps)
        words += ["play", f"k{k}"]
    at = int(k) // const["MK"]
    return request.figure(words, descriptors.picture(maps, at), descriptors.describe(maps, at))


@block()
def make_warpgroups(request: Request) -> str:
    """Side by side, the tiles of steps whose warpgroups share a block's rows."""
    tiles = []
    for step in request.steps(before=True):
        bm, bn, bk, threads = (request.context.const(step, name) for name in ("BM", "BN", "BK", "THREADS"))
        tiles.append(descriptors.Tile(step, bm, bn, bk, threads // 128))
    words = [*(tile.step for tile in tiles), "tiles"]
    return request.figure(words, descriptors.tiles_picture(tiles), descriptors.describe_tiles(tiles))
