"""When tiles are copied, waited for and computed from, as recordings show it, and the pictures of that."""

import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from tools.base import UsageError
from tools.claims.context import Context
from tools.claims.recording import Element, Line, Recording, Request
from tools.drawing import timeline
from tools.pages import layouts
from tools.pages.blocks import Request as Asked

BUILD = Path(os.environ.get("BUILD", "build"))
EARLY = None  # before the first round
# When the first tiles are asked for, as the kernels' source has it.
STEPS = {
    # The next tiles are asked for where those before them have arrived ...
    "09_async_copy": [EARLY, EARLY, Fraction(1), Fraction(2), Fraction(3)],
    # ... and after the fragments of their first k, of 16.
    "10_prefetch": [EARLY, Fraction(1, 16), Fraction(17, 16), Fraction(33, 16), Fraction(49, 16)],
    "24_async_stages": [EARLY, EARLY, EARLY, Fraction(1), Fraction(2), Fraction(3)],
    # A warp that only copies, as soon as a stage is read.
    "28_warp_specialisation": [EARLY, EARLY, EARLY, Fraction(1), Fraction(2), Fraction(3)],
    "29_persistent": [EARLY, EARLY, EARLY, EARLY, Fraction(1), Fraction(2), Fraction(3)],
}
EACH = pytest.mark.parametrize("step", STEPS)


@pytest.fixture(scope="module")
def made():
    """A function: the timeline of a step."""
    request = Asked(Context(BUILD, "05_2d_tiling"), Path("page.md"), Path("figures"))
    kept = {}

    def make(step):
        if step not in kept:
            of = layouts.block_of(request, step)
            m, rounds = layouts.length_of(of)
            found = request.context.recording(step, m, of.n, rounds * of.bk)
            sizes = {name: dims for name, (_, dims) in layouts.arrays_of(request, step, found).items()}
            kept[step] = timeline.timeline(found, of.bk, of.stages, sizes)
        return kept[step]

    return make


@EACH
def test_tiles_in_time(made, step):
    found = made(step)
    assert [tile.asked for tile in found.tiles] == STEPS[step]
    assert [tile.number for tile in found.tiles] == list(range(len(STEPS[step])))
    assert [tile.stage for tile in found.tiles] == [n % found.stages for n in range(len(STEPS[step]))]
    assert found.copier == (step >= "28")


def test_words(made):
    says = timeline.describe(made("24_async_stages"))
    assert says.startswith("24_async_stages: when tiles are copied and computed from, with 3 stages. ")
    assert "Tile 2 goes to stage 2, asked for before the first round." in says
    assert "Tile 3 goes to stage 0, asked for at the beginning of round 1." in says
    assert "asked for in round 0." in timeline.describe(made("10_prefetch"))


def test_a_step_with_one_buffer_has_no_timeline():
    request = Asked(Context(BUILD, "05_2d_tiling"), Path("page.md"), Path("figures"))
    with pytest.raises(UsageError, match="05_2d_tiling has one buffer for its tiles"):
        layouts.make_timeline(replace(request, options={"step": "05"}))


# ---- Of small recordings -----------------------------------------------------------------------------------


def line(operation, *requests):
    """requests: warp, sequence, address, and the term of K that is read, or None."""
    made = [
        Request(warp, sequence, [address], [[Element("A", 0, term)] if term is not None else []])
        for warp, sequence, address, term in requests
    ]
    return Line(7, "shared", operation, "As", 4, made)


def of(*lines):
    recording = Recording("09_x", 1, 1, 4, list(lines))
    return timeline.timeline(recording, 1, 2, {"As": [2, 1]})


LOADS = line("load", (0, 10, 0, 0), (0, 20, 4, 1), (0, 30, 0, 2))


def test_what_is_copied_is_what_is_loaded_next():
    found = of(line("copy", (0, 0, 0, None), (0, 1, 4, None), (0, 21, 0, None), (0, 31, 4, None)), LOADS)
    assert [(t.number, t.stage, t.asked) for t in found.tiles] == [(0, 0, None), (1, 1, None), (2, 0, 2)]


def test_who_only_copies():
    copies = line("copy", (9, 0, 0, None), (9, 1, 4, None), (9, 25, 0, None))
    assert [tile.asked for tile in of(copies, LOADS).tiles] == [None, None, 1]


@pytest.mark.parametrize(
    "lines, says",
    [
        ([LOADS], "copies through registers"),
        ([line("copy", (0, 0, 0, None)), replace(LOADS, requests=LOADS.requests * 2)], "several blocks"),
        (
            [line("copy", (9, 0, 0, None), (9, 5, 4, None)), line("load", (0, 10, 4, 1), (0, 20, 4, 0))],
            "copied over one that is still read",
        ),
    ],
)
def test_mistakes(lines, says):
    with pytest.raises(UsageError, match=says):
        of(*lines)
