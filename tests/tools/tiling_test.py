"""Recordings of a block, in which every element has a value of its own, and the pictures made of them."""

import os
from pathlib import Path

import numpy as np
import pytest
from svg_checks import words
from tools.base import UsageError
from tools.claims import recording
from tools.claims.context import Context
from tools.drawing import tiling
from tools.drawing.tiling import Box, boxes

BUILD = Path(os.environ.get("BUILD", "build"))
SHAPES = {  # steps, their blocks' tiles and the terms of an mma
    "04_1d_tiling": (64, 64, 16, 1),
    "05_2d_tiling": (128, 128, 8, 1),
    "08_warp_tiling": (128, 128, 16, 1),
    "14_stream_k": (128, 256, 64, 1),
    "25_ldmatrix": (128, 128, 32, 8),
    "29_persistent": (128, 256, 32, 8),
}


@pytest.fixture(scope="module")
def context():
    return Context(BUILD, "05_2d_tiling")


def tiling_of(context, step, warp=0, lane=5):
    m, n, bk, terms = SHAPES[step]
    return tiling.tiling(context.recording(step, m, n, 2 * bk), bk, terms, warp, lane)


# ---- Recordings ------------------------------------------------------------------------------------------


def test_every_element_has_a_value_of_its_own():
    a, b, element = recording.labels(64, 48, 32)
    assert (a.shape, b.shape) == ((64, 32), (32, 48))
    assert len(element) == a.size + b.size == len({*a.flat, *b.flat})
    bits_of_a, bits_of_b = a.view(np.uint32), b.view(np.uint32)
    assert not np.any(bits_of_a & 0x1FFF) and not np.any(bits_of_b & 0x1FFF)  # TF32 numbers
    assert element[int(bits_of_a[1, 1])] == ("A", 1, 1) and element[int(bits_of_b[1, 1])] == ("B", 1, 1)
    with pytest.raises(UsageError, match="make K smaller"):
        recording.labels(512, 512, 512)


@pytest.mark.parametrize("step", SHAPES)
def test_a_lane_has_what_its_sums_need(context, step):
    """Of FFMAs all operands of every sum; of an mma, whose lanes have parts of the operands, those of the
    warp."""
    m, n, bk, terms = SHAPES[step]
    found = context.recording(step, m, n, 2 * bk)
    owners, operands = found.owners(), found.operands()
    assert owners.keys() == {(row, col) for row in range(m) for col in range(n)}
    together = {}
    for (warp, lane), elements in operands.items():
        together.setdefault(warp if terms > 1 else (warp, lane), set()).update(elements)
    for (row, col), (warp, lane) in owners.items():
        has = together[warp if terms > 1 else (warp, lane)]
        assert ("A", row, bk) in has and ("B", bk, col) in has
    for elements in together.values():
        assert {e.col for e in elements if e.matrix == "A"} == set(range(2 * bk))


# ---- Pictures --------------------------------------------------------------------------------------------


def test_boxes():
    assert boxes([]) == []
    assert boxes((row, col) for row in range(3) for col in range(2, 5)) == [Box(0, 2, 3, 3)]
    assert boxes([(0, 0), (0, 2), (1, 0), (1, 2)]) == [Box(0, 0, 2, 1), Box(0, 2, 2, 1)]
    assert boxes([(0, 0), (0, 1), (1, 0)]) == [Box(0, 0, 1, 2), Box(1, 0, 1, 1)]


def test_it_says_who_computes_what(context):
    says = tiling.describe(tiling_of(context, "08_warp_tiling"))
    assert "The block: 128 × 128 of C, 16 terms of K at a time." in says
    assert "Warp 0: 64 × 32 of C. For one term it loads 64 of A and 32 of B." in says
    assert "Lane 5 of it: 8 rows × 8 columns of C. For one term it loads 8 of A and 8 of B." in says
    says = tiling.describe(tiling_of(context, "25_ldmatrix", warp=1))
    assert "Warp 1: 64 × 32 of C. For 8 terms it loads 512 of A and 256 of B." in says
    assert "Lane 5 of it: 8 rows × 8 columns of C. For 8 terms it loads 16 of A and 8 of B." in says


def test_lanes_of_the_warp_tile(context):
    """Step 08 numbers its lanes down pairs of rows; an mma gives each row of eight to four lanes."""
    shown = words(tiling.picture(tiling_of(context, "08_warp_tiling")))
    assert shown.count("5") == 2  # pieces of 4 x 4 in the corner that is shown; four in all
    mma = words(tiling.picture(tiling_of(context, "25_ldmatrix")))
    assert all(mma.count(str(lane)) >= 3 for lane in range(31))


def test_mistakes(context):
    with pytest.raises(UsageError, match="lane 5 of warp 8 of 05_2d_tiling stores nothing"):
        tiling_of(context, "05_2d_tiling", warp=8)
    found = context.recording("05_2d_tiling", 128, 256, 16)  # two blocks
    tiling.tiling(found, 8, 1, 0, 5)
    with pytest.raises(UsageError, match="does not store"):
        tiling.tiling(recording.Recording("x", 256, 128, 16, found.lines), 8, 1, 0, 5)
