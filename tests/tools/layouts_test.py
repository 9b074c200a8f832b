"""Pictures of fragments, of ldmatrix, of one access in several steps and of swizzles; and their blocks."""

import os
from itertools import product
from pathlib import Path

import pytest
from picture_test import shared
from svg_checks import cells, check_colours, check_legible, words
from tools.base import ROOT, UsageError
from tools.claims.context import Context
from tools.claims.objects import NotAvailable
from tools.claims.recording import Element, Line, Recording
from tools.claims.recording import Request as Access
from tools.drawing import (
    cluster_split,
    descriptors,
    error_over_k,
    fragments,
    guard_parts,
    launches,
    layouts,
    pipeline,
    schedule,
    shape_tiles,
    split_bits,
)
from tools.drawing.layouts import Layout
from tools.pages.blocks import Request
from tools.pages.pages import MAKERS

CONTEXT = Context(Path(os.environ.get("BUILD", ".")), "23_swizzle")
MAPS = CONTEXT.fragment_maps()
GROUPS = [[group ^ row for group in range(8)] for row in range(8)]


def ldmatrix_of(address, lanes=32, lane=5):
    return fragments.ldmatrix(shared(16, address, range(lanes), at_once=8), MAPS["ldmatrix"]["m"], lane)


GUARDED = CONTEXT.drawn("guard_parts")
LOADS = {  # of a fragment of A: rows of 128 bytes that begin in the same bank, and exchanged groups
    "22_before": shared(4, lambda i: 128 * (i // 4) + 4 * (i % 4)),
    "23_after": shared(4, lambda i: 128 * (i // 4) + 16 * (i // 4) + 4 * (i % 4)),
}
COLUMN = frozenset((row, 0) for row in range(8))
DRAWINGS = {
    "tf32": fragments.fragments("mma_tf32", MAPS["mma_tf32"], 5),
    "ldmatrix": ldmatrix_of(lambda i: 1024 * (i // 8 % 2) + 144 * (i % 8)),
    "ldmatrix, conflicts": ldmatrix_of(lambda i: 128 * i),
    "ldmatrix of two": ldmatrix_of(lambda i: 65_536 + 16 * i, 16),
    "ldmatrix, last lane": ldmatrix_of(lambda i: 16 * i, lane=31),
    "compared": layouts.compared(LOADS),
    "descriptor": descriptors.picture(MAPS["wgmma_bf16"], 1),
    "tiles": descriptors.tiles_picture([descriptors.Tile("32_wgmma", 128, 128, 64, 1)]),
    "compared, letters": layouts.compared({"22_before": shared(4, lambda i: 512 * (i % 4) + 4 * (i // 4))}),
    "guard parts": guard_parts.picture(GUARDED),
    "launches": launches.picture(512, 5.0, 4.0),
    "swizzle": layouts.swizzle(Layout("As", "swizzle_128B", GROUPS, COLUMN, "what one load touches")),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_it_is_legible_everywhere(name):
    check_legible(DRAWINGS[name])
    check_colours(DRAWINGS[name])


# ---- Fragments -------------------------------------------------------------------------------------------


def test_each_element_has_one_holder():
    sums = {"wgmma_bf16": {"d": MAPS["wgmma_bf16"]["d"]}}
    assert list(MAPS) == ["ldmatrix", "mma_tf32", "wgmma_bf16"]
    for m in (m for matrices in (MAPS | sums).values() for m in matrices.values()):
        held = sorted(tuple(place) for lane in m["elements"] for place in lane)
        assert held == list(product(range(m["rows"]), range(m["cols"])))
    assert MAPS["mma_tf32"]["b"]["elements"][13] == [[1, 3], [5, 3]]
    assert MAPS["ldmatrix"]["m"]["elements"][13] == [[3, 2], [3, 3]]


@pytest.mark.parametrize("lane", [13, 31])
def test_every_element_has_its_cell(lane):
    """As many cells as there are registers, each with its lane; those of one lane name the register."""
    drawing = fragments.fragments("mma_tf32", MAPS["mma_tf32"], lane)
    filled = [(look.get("class"), inside[0]) for _, look, inside in cells(drawing) if len(inside) == 1]
    registers = [f"{key}{n}" for key, count in {"a": 4, "b": 2, "c": 4}.items() for n in range(count)]
    others = sorted(10 * [str(each) for each in range(32) if each != lane])
    assert sorted(inside for look, inside in filled if look != "here") == others
    assert sorted(inside for look, inside in filled if look == "here") == registers


def test_cells_are_where_the_map_says():
    drawing = fragments.fragments("mma_tf32", MAPS["mma_tf32"], 13)
    here = [(at, inside) for at, look, inside in cells(drawing) if look.get("class") == "here"]
    found = {inside[0]: at for at, inside in here if inside}
    # Lane 13 is number 1 of group 3: A[3][1], A[11][1], A[3][5], A[11][5].
    x, y, w, h = found["a0"]
    assert found["a3"][:2] == pytest.approx((x + 4 * w, y + 8 * h), abs=0.1)
    assert min(at for at, _, inside in cells(drawing) if inside == ["0"])[:2] == pytest.approx(
        (x - w, y - 3 * h)
    )
    # B[k][col] of C[row][col] stands above it: B[1][3], C[3][2].
    assert found["b0"][0] == pytest.approx(found["c1"][0], abs=0.1)
    assert "a3 A[11][5] b0" in " ".join(words(drawing))


# ---- ldmatrix --------------------------------------------------------------------------------------------


def test_rows_of_an_ldmatrix_stand_in_their_banks():
    says = words(DRAWINGS["ldmatrix"])
    assert says[1] == "4 wavefronts: no bank conflict"
    assert "144" in says and "1168" in says  # where row 1 of matrices 0 and 1 begin
    drawn = [
        (at, inside) for at, look, inside in cells(DRAWINGS["ldmatrix"]) if look["class"] != "empty rule"
    ]
    lanes = [(at, inside[0]) for at, inside in drawn if len(inside) == 1]
    assert sorted(int(lane) for _, lane in lanes) == sorted([*range(32), *range(32)])  # who says, who gets
    assert len({at[0] for at, _ in lanes[:8]}) == 8
    conflicts = words(DRAWINGS["ldmatrix, conflicts"])
    assert conflicts[1] == "32 wavefronts; without bank conflicts 4"
    assert conflicts.count("8 wavefronts") == 4
    assert "matrix 2" not in words(DRAWINGS["ldmatrix of two"])


def test_a_lane_gets_another_row_than_it_says():
    says = " ".join(words(DRAWINGS["ldmatrix"]))
    assert "Lane 5 gives the address of row 5 of matrix 0, and gets, of each matrix, word 1 of row 1," in says
    says = " ".join(words(DRAWINGS["ldmatrix, last lane"]))
    assert "row 7 of matrix 3, and gets, of each matrix, word 3 of row 7," in says


# ---- Several steps ---------------------------------------------------------------------------------------


def test_banks_of_two_steps():
    says = words(DRAWINGS["compared"])
    assert "8 wavefronts; without bank conflicts 1" in says and "1 wavefront: no bank conflict" in says
    found = [
        (at, inside[0]) for at, look, inside in cells(DRAWINGS["compared"]) if look.get("class") == "edge"
    ]
    assert [lanes for _, lanes in found] == [f"{4 * row}–{4 * row + 3}" for row in range(8)] * 2
    assert len({at[0] for at, _ in found[:8]}) == 1
    assert len({at[0] for at, _ in found[8:]}) == 8
    assert "a: lanes 0, 4, 8, 12" in words(DRAWINGS["compared, letters"])


# ---- Swizzles --------------------------------------------------------------------------------------------


def test_groups_before_and_after():
    groups = [
        (at, inside[0]) for at, look, inside in cells(DRAWINGS["swizzle"]) if look.get("class") == "edge"
    ]
    assert len(groups) == 2 * 64
    for moved, half in (False, groups[:64]), (True, groups[64:]):
        for row in range(8):
            shown = [group for _, group in sorted(half[8 * row : 8 * row + 8])]
            assert shown == [str(g ^ row if moved else g) for g in range(8)]
    frames = [at for at, look, _ in cells(DRAWINGS["swizzle"]) if "stroke-width" in look][:16]
    assert len({at[0] for at in frames[:8]}) == 1 and len({at[0] for at in frames[8:]}) == 8
    assert words(DRAWINGS["swizzle"]).count("1 column of banks") == 1
    assert "8 columns of banks" in words(DRAWINGS["swizzle"])


# ---- Blocks ----------------------------------------------------------------------------------------------


def block(text, context=CONTEXT):
    """What a block of step 23's page, or of another's, says; and its figure, if it has just one."""
    request = Request(context, Path("page.md"), Path("figures"))
    kind, _, arguments = text.partition(" ")
    try:
        said = MAKERS[kind](request, arguments)
    except NotAvailable as reason:
        pytest.skip(str(reason))
    return said, "".join(request.figures.values())


def test_fragments_block():
    said, figure = block("fragments mma_tf32")
    assert "Lane 5 holds a0 = A(1)(1)," in said and "](figures/mma_tf32_lane_5.svg)" in said
    assert figure == DRAWINGS["tf32"]


def test_ldmatrix_block():
    said, _ = block("ldmatrix Tiles::A step=25")
    assert "](figures/25_ldmatrix_ldmatrix_Tiles_A_lane_5.svg)" in said
    assert "Matrix 1: lanes 8 to 15 give the addresses of its rows," in said


def test_compare_block():
    said, _ = block("compare load As 22 23")
    assert "| lane | 22: word | 22: bank | 23: word | 23: bank |" in said
    assert "\n| 5 | 33 | 1 | 37 | 5 |" in said
    assert "](figures/22_shared_fragments_23_swizzle_load_As.svg)" in said


def test_swizzle_block():
    """Where the groups lie is found in what the kernel loads."""
    said, figure = block("swizzle As load")
    assert "row 1 has its groups in the order 1, 0, 3, 2, 5, 4, 7, 6" in said
    assert "1 column of four banks row by row, 8 so" in said
    assert figure.count('stroke-width="3"') == 2 * 8 + 1
    assert "row 1 has its groups in the order 2, 3, 0, 1, 6, 7, 4, 5" in block("swizzle Bs load")[0]
    ldmatrix, _ = block("swizzle Tiles::A ldmatrix step=25")
    assert "row 1 has its groups in the order 1, 0, 3, 2, 5, 4, 7, 6" in ldmatrix
    assert "what the first matrix of an ldmatrix touches" in ldmatrix


def test_what_is_no_layout_of_groups(monkeypatch):
    def recorded(places):
        access = Access(0, 0, [4 * place for place in places], [[Element("A", 0, col)] for col in range(4)])
        line = Line(7, "shared", "load", "As", 4, [access])
        monkeypatch.setattr(Context, "recording", lambda *_: Recording("x", 1, 1, 32, [line]))

    recorded([1, 0, 2, 3])
    with pytest.raises(UsageError, match="line 7 of 23_swizzle does not keep its groups of 16 bytes whole"):
        block("swizzle As load")
    recorded([0, 1, 2, 3])
    with pytest.raises(UsageError, match="no load of 23_swizzle says where 8 rows"):
        block("swizzle As load")


def test_descriptor():
    """Rows of 128 bytes in the swizzle's order; the core matrices of one k in their places on either side."""
    assert descriptors.groups(MAPS["wgmma_bf16"]["a"]) == GROUPS
    said, figure = block("descriptor k=16 step=32")
    assert "of k 16 to 23 at bytes 32, 176, 256, 400, 608, 752, 832, 976" in said
    assert "B's begins 2048 bytes into the tile" in said
    marked = [inside[0] for _, look, inside in cells(figure) if look.get("class") == "here edge" and inside]
    assert marked[:16] == ["16"] * 16
    assert block("descriptor play k=16 step=32")[1].endswith(figure)
    with pytest.raises(UsageError, match="27_tensor_maps"):
        block("descriptor step=27")
    assert "128 × 256 of C by 2 warpgroups; 48 KiB for a k-tile" in block("warpgroups 33")[0]


@pytest.mark.parametrize(
    "text, says",
    [
        ("descriptor all", "write `descriptor"),
        ("fragments mma_fp8", "write `fragments NAME`, of mma_tf32"),
        ("ldmatrix", "write `ldmatrix ARRAY"),
        ("ldmatrix Bs", "no access `ldmatrix Bs`"),
        ("compare load", "write `compare OPERATION ARRAY"),
        ("compare load A 23", "no access `load A`"),
        ("swizzle", "write `swizzle ARRAY"),
        ("shape_tiles 512 32 65", "no tile of 32 x 65"),
        ("launches dependent_launches", "write `launches NAME N`"),
        ("launches stages 4096 step=38", "no one variant that lacks something"),
        ("split_bits x", "is a number or a fraction, not x"),
        ("split_bits 1 scaled", "write `split_bits NUMBER"),
        ("cluster_split K", "is a number"),
        ("swizzle Cs load", "no tile of A or B"),
    ],
)
def test_mistakes(text, says):
    with pytest.raises(UsageError, match=says):
        block(text)


def test_schedules_share_out_every_k_tile():
    """Each once, and to all multiprocessors as many, as far as that can be."""
    schedules = CONTEXT.drawn("schedules", schedule.SLABS, *schedule.SMS, *schedule.TILES)
    for sms, of_sms in enumerate(schedules, schedule.SMS[0]):
        for tiles, blocks in enumerate(of_sms, schedule.TILES[0]):
            pieces = [p for block in blocks for p in schedule.pieces(block)]
            done = sorted((p.tile, k) for p in pieces for k in range(p.first, p.last))
            assert done == [(tile, k) for tile in range(tiles) for k in range(schedule.SLABS)]
            assert schedule.end(blocks) == -(-tiles * schedule.SLABS // sms)
            assert len(blocks) == sms


def test_tiles_keep_multiprocessors_busy():
    drawing = shape_tiles.picture(500, 132, (shape_tiles.Tiles(128, 256, 4), shape_tiles.Tiles(64, 32)))
    assert ">8 × 4 parts on 32 SMs<" in drawing and ">64 × 32: 128 tiles<" in drawing
    tiles, idle = 8 + 128, 2 * 132 - 32 - 128
    assert drawing.count('class="empty"') == idle
    assert drawing.count("<rect") == 1 + tiles + 2 * 132  # the paper is one


def test_a_row_or_a_column_decides_for_parts():
    """What is no ordinary row or column is refused wherever it shows, and nothing else is."""
    [infinite, uneven], [sparse, odd] = map(int, GUARDED["rows"]), map(int, GUARDED["cols"])
    for row, of_row in enumerate(GUARDED["ways"]):
        for col, way in enumerate(of_row):
            ways = {infinite: "an infinity"}.get(row) or {sparse: "few products"}.get(col, "FP16")
            assert way == ("lossy operands" if (row, col) == (uneven, odd) else ways)
    assert DRAWINGS["guard parts"].count("<rect") == 1 + 4 + 6 * 6  # paper, legend, parts


def test_launches_overlap_by_what_that_gains():
    """Where launches wait, one begins where the one before ends; where they overlap, as much earlier as they
    end closer together."""
    boxes = [(x, x + wide) for (x, _, wide, _), *_ in cells(DRAWINGS["launches"])][:12]
    for begins, works, early in ((boxes[:6:2], boxes[1:6:2], 0), (boxes[6::2], boxes[7::2], 1)):
        unit = (begins[0][1] - begins[0][0]) * early
        for before, (begin, _) in zip(works[:2], begins[1:], strict=True):
            assert begin == pytest.approx(before[1] - unit, abs=0.1)
    apart, overlapping = boxes[3][1] - boxes[1][1], boxes[9][1] - boxes[7][1]
    assert overlapping / apart == pytest.approx(4 / 5, abs=0.01)


def test_a_float_in_two_parts():
    """As fp16() rounds: to the nearest, ties to even, below 2^-14 to multiples of 2^-24."""
    whole, hi, lo = split_bits.parts(0.7)
    assert (hi.bits, lo.bits) == ("10110011010", "11001100110") and hi.value > whole.value and lo.value < 0
    assert [n.value for n in split_bits.parts(3.0)] == [3, 3, 0]
    small = split_bits.parts(2.0**-24 * 1.75, unscaled=True)
    assert [float(n.value) for n in small[1:]] == [2.0**-23, 0]  # what is left is a quarter of the unit
    _, _, lo = split_bits.parts(0.007, unscaled=True)
    assert (lo.value, lo.bits) == (2.0**-24, "1")  # more than half of the least number
    assert "nothing is lost" in split_bits.picture("3") and "2⁻²⁴ and 2⁻²³" in split_bits.picture("0.7")
    assert "lo is zero" in split_bits.describe("0.0007", unscaled=True)
    raised = split_bits.raised_low(2.0**-24 * 1.75)  # less than hi: lo is minus a quarter of the unit
    assert (float(raised.value), raised.exponent, raised.bits) == (-(2.0**-26), -26, "1000000000")
    texts = [split_bits.picture("0.003", True, raised).count("<text") for raised in (False, True)]
    assert texts[0] < texts[1]


def test_a_cluster_splits_lines():
    """The shape that split() chooses by K, and no more blocks than a line has slices."""
    source = (ROOT / "steps" / "44_splitting_pass" / "split.hpp").read_text()
    of = cluster_split.split_of(source, 8192)
    assert (of.strip, of.slice, of.blocks, of.kib) == (16, 1024, 8, 64)
    assert [cluster_split.split_of(source, k).blocks for k in (1, 128, 129, 4096, 16384)] == [1, 1, 2, 8, 8]
    assert "16 lines of 8192 terms. Each of 8 blocks" in cluster_split.picture(of)
    with pytest.raises(UsageError, match="launches no launch_split"):
        cluster_split.split_of("", 64)


def test_a_ring_by_when_its_stages_are_handed_back():
    """At once, or when the next products have begun; with both parts of the operands in a stage, or not."""
    found = {}
    for step in ("34_warp_specialisation", "42_one_kernel"):
        of = pipeline.ring_of(step, (ROOT / "steps" / step / "kernel.cu").read_text(), 3, 2)
        found[step] = [state for _, state in sorted(of.states(5))], pipeline.ring(of)
    late, at_once = found.values()
    assert late[0] == ["last read", "being read", "full or coming"]
    assert at_once[0] == ["being read", "full or coming", "full or coming"]
    assert "not yet empty" in late[1] and "3 products" not in late[1]
    assert "not yet empty" not in at_once[1] and "3 products" in at_once[1]


def test_errors_are_drawn_from_the_least_k():
    curves = {"a": {16: 1e-7, 64: 2e-7}, "b": {16: 1e-7, 64: 5e-8}}
    drawing = error_over_k.picture(curves)
    assert drawing.count("<circle") == 4 and ">1e-6<" in drawing and ">1e-8<" in drawing
    assert "b: 1.0e-07 at K = 16, 5.0e-08 at K = 64" in drawing


def test_without_the_program(tmp_path):
    with pytest.raises(NotAvailable, match="fragment_maps is not built"):
        Context(tmp_path, "").fragment_maps()
