"""Pictures of fragments, of ldmatrix, of one access in several steps and of swizzles; and their blocks."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from itertools import product
from pathlib import Path

import pytest
from picture_test import shared, shared_row
from svg_checks import cells, check_colours, check_legible, words
from tools.base import UsageError
from tools.drawing import fragments, layouts
from tools.drawing.layouts import Layout

PROGRAM = Path(os.environ.get("BUILD", ".")) / "common" / "tools" / "fragment_maps"
MAPS = json.loads(subprocess.run([str(PROGRAM)], capture_output=True, text=True, check=True).stdout)
A_GROUPS = layouts.groups_of(MAPS["places"]["swizzle_128B"])


def ldmatrix_of(address, lanes=32):
    return fragments.ldmatrix(shared(16, address, range(lanes), at_once=8), MAPS["ldmatrix"]["m"], 5)


LOADS = {  # of a fragment of A: rows of 128 bytes that begin in the same bank, and exchanged groups
    "22_before": shared(4, lambda i: 128 * (i // 4) + 4 * (i % 4)),
    "23_after": shared(4, lambda i: 128 * (i // 4) + 16 * A_GROUPS[i // 4][0] + 4 * (i % 4)),
}
B_LOADS = {"22_before": shared(4, lambda i: 512 * (i % 4) + 4 * (i // 4))}
COLUMN = frozenset((row, 0) for row in range(8))
DRAWINGS = {
    "tf32": fragments.fragments("mma_tf32", MAPS["mma_tf32"], 5),
    "tf32, last lane": fragments.fragments("mma_tf32", MAPS["mma_tf32"], 31),
    "bf16": fragments.fragments("mma_bf16", MAPS["mma_bf16"], 5),
    "ldmatrix": ldmatrix_of(lambda i: 1024 * (i // 8 % 2) + 144 * (i % 8)),
    "ldmatrix, conflicts": ldmatrix_of(lambda i: 128 * i),
    "ldmatrix of two": ldmatrix_of(lambda i: 16 * i, 16),
    "ldmatrix far apart": ldmatrix_of(lambda i: 65_536 + 128 * i),
    "transposed": fragments.ldmatrix(
        shared(16, lambda i: 16 * i, at_once=8), MAPS["ldmatrix_trans"]["m"], 31
    ),
    "compared": layouts.compared(LOADS),
    "compared, letters": layouts.compared(B_LOADS),
    "swizzle": layouts.swizzle(Layout("As", "swizzle_128B", A_GROUPS, COLUMN, "what one load touches")),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_it_is_legible_everywhere(name):
    check_legible(DRAWINGS[name])
    check_colours(DRAWINGS[name])


# ---- Fragments -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, lane", [("mma_tf32", 5), ("mma_tf32", 31), ("mma_bf16", 13)])
def test_every_register_has_its_cell(name, lane):
    """As many cells as there are registers, each with its lane; those of one lane look different."""
    drawing = fragments.fragments(name, MAPS[name], lane)
    filled = [(look, inside) for _, look, inside in cells(drawing) if len(inside) == 2]
    expected = sorted(
        [str(each), f"{key}{register}"]
        for each, (key, count) in product(range(32), {"a": 4, "b": 2, "c": 4}.items())
        for register in range(count)
    )
    assert sorted(inside for _, inside in filled) == expected
    assert {inside[0] for look, inside in filled if look.get("class") == "here"} == {str(lane)}
    assert sum(look.get("class") == "here" for look, _ in filled) == 10


def test_cells_are_where_the_map_says():
    found = {tuple(inside): at for at, _, inside in cells(DRAWINGS["tf32"]) if len(inside) == 2}
    # Lane 13 is number 1 of group 3: A[3][1], A[11][1], A[3][5], A[11][5].
    (x, y, w, h), (left, top, *_) = found["13", "a0"], found["0", "a0"]
    assert (x, y) == pytest.approx((left + w, top + 3 * h))
    assert found["13", "a3"][:2] == pytest.approx((left + 5 * w, top + 11 * h), abs=0.1)
    # B[k][col] of C[row][col] stands above it.
    assert found["13", "b0"][0] == pytest.approx(found["1", "c1"][0], abs=0.1)
    assert "a3 A[9][5] b0" in " ".join(words(DRAWINGS["tf32"]))


def test_neighbours_in_a_register_share_a_cell():
    found = {tuple(inside): at for at, _, inside in cells(DRAWINGS["bf16"]) if len(inside) == 2}
    assert "a0 A[1][2], [1][3] a1" in " ".join(words(DRAWINGS["bf16"]))
    assert found["1", "a0"][0] - found["0", "a0"][0] == pytest.approx(found["0", "a0"][2], abs=0.1)
    apart = deepcopy(MAPS["mma_bf16"]["a"])
    apart["elements"][7][0], apart["elements"][7][2] = apart["elements"][7][2], apart["elements"][7][0]
    with pytest.raises(ValueError, match="of lane 7 are no neighbours"):
        fragments.cells(apart)


# ---- ldmatrix --------------------------------------------------------------------------------------------


def test_rows_of_an_ldmatrix_stand_in_their_banks():
    says = words(DRAWINGS["ldmatrix"])
    assert says[1] == "4 wavefronts, no bank conflict"
    assert says.count("1 wavefront") == 4
    assert "144" in says and "1168" in says  # where row 1 of matrices 0 and 1 begin
    lanes = [
        (at, inside[0])
        for at, look, inside in cells(DRAWINGS["ldmatrix"])
        if look.get("class") != "empty rule" and len(inside) == 1
    ]
    assert sorted(int(lane) for _, lane in lanes) == sorted([*range(32), *range(32)])  # who says, who gets
    columns = {at[0] for at, lane in lanes[:8]}
    assert len(columns) == 8
    conflicts = words(DRAWINGS["ldmatrix, conflicts"])
    assert conflicts[1] == "32 wavefronts, without bank conflicts 4"
    assert conflicts.count("8 wavefronts") == 4
    assert "matrix 2" not in words(DRAWINGS["ldmatrix of two"])


def test_a_lane_gets_another_row_than_it_says():
    says = " ".join(words(DRAWINGS["ldmatrix"]))
    assert "Lane 5 gives the address of row 5 of matrix 0, and gets, of each matrix, word 1 of row 1," in says
    says = " ".join(words(DRAWINGS["transposed"]))
    assert "row 7 of matrix 3, and gets, of each matrix, [6, 7][7]," in says


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


def test_runs():
    first, second, *_ = layouts.runs(LOADS["23_after"])
    assert (first.lanes, first.words) == ((0, 1, 2, 3), range(4))
    assert (second.lanes, second.words, second.banks) == ((4, 5, 6, 7), range(36, 40), range(4, 8))
    (whole, *rest) = layouts.runs(shared(4, lambda i: 4 * i))
    assert (whole.words, rest) == (range(32), [])


# ---- Swizzles --------------------------------------------------------------------------------------------


def test_groups_before_and_after():
    groups = [
        (at, inside[0]) for at, look, inside in cells(DRAWINGS["swizzle"]) if look.get("class") == "edge"
    ]
    assert len(groups) == 2 * 64
    for n, (moved, half) in enumerate([(False, groups[:64]), (True, groups[64:])]):
        for row in range(8):
            shown = [group for _, group in sorted(half[8 * row : 8 * row + 8])]
            assert shown == [str(g ^ row if moved else g) for g in range(8)], (n, row)
    frames = [at for at, look, _ in cells(DRAWINGS["swizzle"]) if "stroke-width" in look][:16]
    assert len({at[0] for at in frames[:8]}) == 1 and len({at[0] for at in frames[8:]}) == 8
    assert words(DRAWINGS["swizzle"]).count("1 column of banks") == 1
    assert "8 columns of banks" in words(DRAWINGS["swizzle"])


def test_what_is_no_layout_of_groups():
    torn = [[1, 0, *range(2, 32)]]
    twice = [[*range(4), *range(4), *range(8, 32)]]
    for places in (torn, twice):
        with pytest.raises(UsageError, match="row 0"):
            layouts.groups_of(places)


# ---- Blocks ----------------------------------------------------------------------------------------------

KERNEL = "constexpr int BK = 32, BN = 128;\n"


@pytest.fixture
def tiles(project):
    """A step that fills As by groups, row by row or as swizzle_128B() says, and loads fragments of it."""
    build = project.root / "build" / "common" / "tools"
    build.mkdir(parents=True, exist_ok=True)
    program = build / "fragment_maps"
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(MAPS)!r})\n")
    program.chmod(0o755)
    project.write("steps/02_second/kernel.cu", KERNEL)

    def make(moved, load_moved=None):
        load_moved = moved if load_moved is None else load_moved
        at = lambda row, group: 128 * row + 16 * (A_GROUPS[row][group] if moved else group)  # noqa: E731
        begin = lambda row: 128 * row + 16 * (A_GROUPS[row][0] if load_moved else 0)  # noqa: E731
        place = {"file": "steps/02_second/kernel.cu"}
        store = shared_row(16, lambda i: at(i // 8, i % 8), at_once=8) | place | {"operation": "store"}
        read = shared_row(16, lambda i: 512 * (i // 8) + 16 * (i % 8)) | place
        read |= {"space": "global", "array": "A"}
        load = shared_row(4, lambda i: begin(i // 4) + 4 * (i % 4)) | place | {"line": 9}
        rows = shared_row(16, lambda i: at(i % 8, i // 8), at_once=8) | place
        rows |= {"operation": "ldmatrix", "line": 10}
        record = {"m": 256, "n": 256, "k": 128}
        accesses = [store, read, load, rows]
        project.set_xray(record | {"xray": {"kernels": [{"accesses": accesses}]}})
        return project

    return make


def figure(project, name):
    return (project.root / "docs" / "figures" / name).read_text()


def test_fragments_block(tiles):
    project = tiles(True)
    assert "Lane 5 holds a0 = A(1)(1)," in project.block("fragments mma_tf32")
    assert figure(project, "mma_tf32_lane_5.svg") == DRAWINGS["tf32"]


def test_the_marked_lane_can_be_chosen(tiles):
    assert "](../figures/mma_tf32_lane_31.svg)" in tiles(True).block("fragments mma_tf32 lane=31")


def test_ldmatrix_block(tiles):
    text = tiles(True).block("ldmatrix As")
    assert "](../figures/02_second_ldmatrix_As_lane_5.svg)" in text
    assert "`steps/02_second/kernel.cu`, line 10:" in text
    assert "Matrix 1: lanes 8 to 15 give the addresses of its rows, banks 4 to 7, 0 to 3," in text


def test_compare_block(tiles):
    text = tiles(True).block("compare load As 02")
    assert "| lanes | 02: words | 02: banks |" in text
    assert "| 4–7 | 36–39 | 4–7 |" in text
    assert "](../figures/02_second_load_As.svg)" in text and "line 9:" in text


def test_swizzle_block(tiles):
    project = tiles(True)
    text = project.block("swizzle As")
    assert "row 1 has its groups in the order 1, 0, 3, 2, 5, 4, 7, 6" in text
    assert "1 column of four banks row by row, 8 so" in text
    assert figure(project, "02_second_swizzle_As.svg").count('stroke-width="3"') == 2 * 8 + 1


def test_swizzle_block_of_an_ldmatrix(tiles):
    text = tiles(True).block("swizzle As ldmatrix")
    assert "what the first matrix of an ldmatrix touches" in text


def test_a_swizzle_that_the_step_does_not_have(tiles, capsys):
    tiles(False).block("swizzle As", expected=2)
    assert "line 3 puts [1][0] at byte 128 of As, not as the map says" in capsys.readouterr().err


def test_a_swizzle_on_one_side_only(tiles, capsys):
    tiles(True, load_moved=False).block("swizzle As", expected=2)
    assert "line 9: lane 4 reads byte 128, where [1][0] does not lie by the maps" in capsys.readouterr().err


@pytest.mark.parametrize(
    "block, says",
    [
        ("fragments mma_fp8", "of mma_bf16 or mma_tf32"),
        ("fragments mma_tf32 lane=32", "lane=32 is no lane: say one from 0 to 31"),
        ("ldmatrix", "write `ldmatrix ARRAY"),
        ("ldmatrix Bs", "no access `ldmatrix Bs`"),
        ("compare load", "write `compare OPERATION ARRAY"),
        ("compare load A 02", "no access `load A`"),
        ("swizzle", "write `swizzle ARRAY"),
        ("swizzle Cs", "of a tile of A or B"),
        ("swizzle Bs", "has no line that fills Bs from B"),
    ],
)
def test_mistakes(tiles, capsys, block, says):
    tiles(True).block(block, expected=2)
    assert says in capsys.readouterr().err


def test_without_the_program(tiles, capsys):
    project = tiles(True)
    (project.root / "build" / "common" / "tools" / "fragment_maps").unlink()
    project.block("fragments mma_tf32", expected=1)
    assert "fragment_maps is not built" in capsys.readouterr().err
