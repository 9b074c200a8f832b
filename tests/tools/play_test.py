"""What the site plays with: kept compactly, it is still what was recorded."""

import json
import os
import re
from pathlib import Path

import pytest
from tools.base import ROOT
from tools.claims.constants import extents
from tools.claims.context import Context
from tools.claims.objects import NoValue
from tools.claims.recording import Element, Line, Request
from tools.drawing import play, svg
from tools.drawing.svg import COLORS
from tools.pages import layouts
from tools.pages.blocks import Request as Asked

BUILD = Path(os.environ.get("BUILD", "build"))
STEPS = [
    "04_1d_tiling",
    "05_2d_tiling",
    "08_warp_tiling",
    "10_prefetch",  # loads the first term of its last tile twice
    "13_bulk_copy",  # loads zeros past the matrix
    "14_stream_k",  # two blocks for a tile
    "21_tensor_cores",  # nothing in shared memory
    "23_swizzle",
    "25_ldmatrix",
    "29_persistent",  # warps that compute nothing
]
LARGEST = 48 * 1024
EACH = pytest.mark.parametrize("step", STEPS)


@pytest.fixture(scope="module")
def context():
    return Context(BUILD, "05_2d_tiling")


@pytest.fixture(scope="module")
def asked(context):
    """A page that asks for something."""
    return Asked(context, Path("page.md"), Path("figures"))


@pytest.fixture(scope="module")
def made(asked):
    """A function: of a step its recording, and the file for the site."""
    kept = {}

    def make(step):
        if step not in kept:
            of, found = layouts.recording_of(asked, step)
            arrays = layouts.arrays_of(asked, step, found)
            data = play.data(found, of.bk, of.terms, of.stages, arrays, asked.source(step))
            kept[step] = found, play.script(step, data)
        return kept[step]

    return make


def read(script: str) -> dict:
    """What a browser makes of the file."""
    head, _, rest = script.partition(" = ")
    assert re.fullmatch(r'//[^\n]*\n\(window\.gemmLadderPlay \?\?= \{\}\)\["\w+"\]', head)
    return json.loads(rest.removesuffix(";\n"))


# ---- From the compact form back to what it is of ---------------------------------------------------------


def requests_of(load: dict) -> dict[int, list[tuple]]:
    """Warp -> its requests in their order: addresses and elements of the lanes."""
    found = {}
    for warp, order, address, row, col in load["warps"]:
        found[warp] = []
        for number, a, r, c in load["orders"][order]:
            pattern = load["patterns"][number]
            addresses = [None if one is None else address + a + one for one in pattern["addresses"]]
            lanes = []
            for shape, lane_row, lane_col in pattern["lanes"]:
                at = row + r + lane_row, col + c + lane_col
                lanes.append(
                    [e and (load["matrix"], at[0] + e[0], at[1] + e[1]) for e in load["shapes"][shape]]
                )
            found[warp].append((addresses, lanes))
    return found


def owners_of(sums: dict) -> dict[tuple[int, int], tuple[int, int]]:
    found = {}
    for warp, begin in enumerate(sums["warps"]):
        for lane, (shape, r, c) in enumerate(sums["lanes"][begin[0]] if begin else []):
            for row, col, rows, cols in sums["shapes"][shape]:
                at = begin[1] + r + row, begin[2] + c + col
                found |= {(at[0] + y, at[1] + x): (warp, lane) for y in range(rows) for x in range(cols)}
    return found


@EACH
def test_nothing_is_lost(made, step):
    found, script = made(step)
    assert len(script.encode()) < LARGEST
    data = read(script)
    assert (data["step"], data["m"], data["n"], data["k"]) == (step, found.m, found.n, found.k)
    assert owners_of(data["sums"]) == found.owners()
    for load in data["loads"]:
        [line] = [
            one
            for one in found.lines
            if one.line == load["line"]
            and one.space == load["space"]
            and one.operation == load["operation"]
            and one.array[-1:] in (load["matrix"], "s")
            and any(
                e and e.matrix == load["matrix"] for r in one.requests for lane in r.elements for e in lane
            )
        ]
        expected = {}
        for request in sorted(line.requests, key=lambda r: (r.sequence, play.place_of(r))):
            expected.setdefault(request.warp, []).append((request.addresses, request.elements))
        assert requests_of(load) == expected
    loaded = {
        (load["matrix"], *e[1:])
        for load in data["loads"]
        for some in requests_of(load).values()
        for _, lanes in some
        for lane in lanes
        for e in lane
        if e
    }
    assert loaded == {element for elements in found.operands().values() for element in elements}


@EACH
def test_wavefronts_are_those_of_the_device(context, made, step):
    found, script = made(step)
    data = read(script)
    kernels = context.xray_record(step, found.m, found.n, found.k)["xray"]["kernels"]
    rows = {
        (row["line"], row["operation"], row["space"], row["array"].split("::")[-1][0]): row
        for kernel in sorted(kernels, key=lambda kernel: sum(row["requests"] for row in kernel["accesses"]))
        for row in kernel["accesses"]
    }
    for load in data["loads"]:
        if load["space"] == "global":
            continue
        row = rows[load["line"], load["operation"], "shared", load["matrix"]]
        parts = [
            part
            for _, order, *_ in load["warps"]
            for pattern, *_ in load["orders"][order]
            for part in load["patterns"][pattern]["parts"]
        ]
        assert sum(part[4] for part in parts) == row["wavefronts"]
        assert len(parts) == row["ideal_wavefronts"]


# ---- Its parts -------------------------------------------------------------------------------------------


def test_lanes_without_part_and_words_without_element():
    elements = [[Element("A", 7, 9)], [None], *[[] for _ in range(30)]]
    request = Request(0, 3, [64, 128, *[None] * 30], elements)
    line = Line(5, "shared", "load", "As", 4, [request])
    load = {**play.load_of(line), "matrix": "A"}
    [(addresses, lanes)] = requests_of(load)[0]
    assert addresses == request.addresses
    assert lanes == elements
    assert load["patterns"][0]["parts"] == [[0, 31, 0, 3, 1]]


def test_statements():
    source = ["const float2 two =", "    f(x,", "      y);  // more", "for (;;) a = b;", "if (x) {", "c"]
    assert play.statement(source, 1) == "const float2 two = f(x, y);"
    assert play.statement(source, 4) == "for (;;) a = b;"
    assert play.statement(source, 5) == "if (x) {"


def test_extents():
    source = "constexpr int BK = 8, PAD = 4;\nstruct Tiles {\n  alignas(16) float A[2][BK][BK * 2 + PAD];\n};"
    assert extents(source, "Tiles::A") == [2, 8, 20]
    with pytest.raises(NoValue, match="declares no array of floats As of known extents"):
        extents(source, "As")
    with pytest.raises(NoValue):
        extents("float As[UNKNOWN];", "As")


def test_colours_are_those_of_the_pictures():
    script = (ROOT / "docs" / "javascripts" / "play" / "elements.js").read_text()
    assert svg.LANES in script.replace('" +\n    "', "")
    styles = (ROOT / "docs" / "stylesheets" / "play.css").read_text()
    for n, block in enumerate(re.findall(r"\.play-box \{(.*?)\}", styles, re.DOTALL)[:2]):
        for name, color in re.findall(r"--(\w+): (#\w+);", block):
            assert COLORS[name][1 + n] == color
    assert len(re.findall(r"--\w+: #\w+;", styles)) == 16
