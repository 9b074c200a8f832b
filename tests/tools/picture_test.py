"""ladder picture and roofline.py: what they draw from addresses and points, and that people can read it."""

import json
import math
import os
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT
from svg_checks import SVG, cells, check_colours, check_legible, texts, words
from tools.claims.context import STANDARD_PROBLEM, Context, all_steps
from tools.claims.objects import NotAvailable
from tools.drawing import picture, roofline, svg

BUILD = os.environ.get("BUILD", "")


def words_of(addresses, size):
    """The 4-byte words that the lanes want, each once."""
    return {word for a in addresses if a is not None for word in range(a // 4, (a + size - 1) // 4 + 1)}


def row_of(space, size, address, active, **example):
    """A row of an X-ray."""
    addresses = [address(lane) if lane in active else None for lane in range(32)]
    place = {"block": [0, 0, 0], "warp": 0, "execution": 0}
    return {
        "operation": "load", "array": "As" if space == "shared" else "A", "space": space, "bytes": size,
        "line": 3, "source": "a = As[k];", "example": place | {"addresses": addresses} | example,
    }  # fmt: skip


def shared_row(size, address, active=range(32), at_once=32, pieces=None):
    """`at_once`: how many lanes; `pieces`: first and last byte of a lane's, if not all are moved at once."""
    row = row_of("shared", size, address, active)
    parts = []
    for first in range(0, 32, at_once):
        for low, high in pieces or [(0, size - 1)]:
            lanes = row["example"]["addresses"][first : first + at_once]
            words = words_of([None if a is None else a + low for a in lanes], high - low + 1)
            counts = Counter(word % 32 for word in words)
            part = {"lanes": [first, first + at_once - 1], "bytes": [low, high]}
            part |= {"wavefronts": max(counts.values(), default=0)}
            part |= {"words_of_banks": [counts[bank] for bank in range(32)]}
            parts += [part] if words else []
    row["example"]["parts"] = parts
    return row


def global_row(size, address, active=range(32)):
    row = row_of("global", size, address, active)
    addresses = row["example"]["addresses"]
    row["example"]["sectors"] = sorted({word // 8 * 32 for word in words_of(addresses, size)})
    row["example"]["bytes_used"] = len({a + i for a in addresses if a is not None for i in range(size)})
    return row


def shared(*arguments, **options):
    return picture.from_xray(shared_row(*arguments, **options))


def from_global(*arguments, **options):
    return picture.from_xray(global_row(*arguments, **options))


# ---- What the X-ray says ---------------------------------------------------------------------------------


@pytest.mark.skipif(not BUILD, reason="BUILD names no build directory")
def test_the_example_agrees_with_the_totals():
    """Of each access of the steps: what one request takes, times the requests, is the total."""
    context = Context(Path(BUILD), "")
    compared = 0
    for step in all_steps():
        try:
            record = context.xray_record(step, *STANDARD_PROBLEM)
        except NotAvailable as reason:
            pytest.skip(str(reason))
        for row in (row for kernel in record["xray"]["kernels"] for row in kernel["accesses"]):
            if row["example"] is None:
                continue  # a copy by TMA: no lanes take part in it
            access = picture.from_xray(row)
            where = f"{step}:{row['line']} {row['operation']} {row['array']}"
            if row["space"] == "global":
                assert len(access.sectors) * row["requests"] == row["sectors"], where
            else:
                conflicts = sum(part.wavefronts for part in access.parts) - len(access.parts)
                assert conflicts * row["requests"] == row["conflicts"], where
                assert len(access.parts) * row["requests"] == row["ideal_wavefronts"], where
                for part in access.parts:
                    assert part.wavefronts == max(part.words), where
                    assert sum(part.words) == len(access.words(part)), where
            compared += 1
    assert compared > 40


# ---- What is drawn ---------------------------------------------------------------------------------------

PICTURES = {
    "far apart": from_global(4, lambda i: 512 * i),
    "side by side": from_global(4, lambda i: 4 * i),
    "one word": from_global(4, lambda i: 64),
    "16 bytes, rows": from_global(16, lambda i: 4096 * (i // 2) + 16 * (i % 2)),
    "some lanes": from_global(4, lambda i: 40 * i, active=range(1, 32, 3)),
    "no conflict": shared(4, lambda i: 4 * i),
    "every other bank": shared(4, lambda i: 8 * i),
    "one bank": shared(4, lambda i: 128 * i),
    "broadcasts": shared(4, lambda i: 32 * (i // 8)),
    "pairs": shared(4, lambda i: 4 * (i % 16)),
    "quarters": shared(16, lambda i: 16 * i, at_once=8),
    "conflicting quarters": shared(16, lambda i: 32 * (i % 16), at_once=8),
    "three pieces": shared(12, lambda i: 12 * i, pieces=[(0, 3), (4, 7), (8, 11)]),
    "scattered": shared(4, lambda i: 4 * (37 * i * i % 1024)),
}
ROOFLINE = [  # as recorded on an H200
    roofline.Point("00_cublas", 347, 50.1),
    roofline.Point("01_naive", 16.1, 0.5),
    roofline.Point("02_coalescing", 31.7, 6.6),
    roofline.Point("03_shared_memory", 16.2, 9.6),
    roofline.Point("04_1d_tiling", 64.4, 19.9),
    roofline.Point("05_2d_tiling", 323, 30.7),
    roofline.Point("06_vectorization", 332, 36.5),
    roofline.Point("07_bank_conflicts", 333, 40.0),
    roofline.Point("08_warp_tiling", 336, 42.5),
    roofline.Point("09_async_copy", 207, 47.7),
    roofline.Point("10_prefetch", 211, 48.7),
    roofline.Point("11_operand_banks", 208, 50.9),
    roofline.Point("12_larger_tiles", 347, 51.4),
]


DRAWINGS = {name: picture.picture(access) for name, access in PICTURES.items()}
DRAWN = sorted((ROOT / "docs" / "figures").glob("*.svg"))
OF_CONCEPTS = {"cpu_device", "gpu_execution", "measuring_pairs"}  # whose texts are laid out differently
FIGURES = {path.stem: path.read_text() for path in DRAWN if path.stem not in OF_CONCEPTS}


@pytest.mark.parametrize("name", [*DRAWINGS, *FIGURES])
def test_it_is_legible_on_a_phone_and_for_those_who_cannot_see_it(name):
    """All figures of the steps' pages, and some that no page has."""
    drawing = DRAWINGS.get(name) or FIGURES[name]
    check_legible(drawing)
    check_colours(drawing)


def luminance(color):
    """Relative luminance as WCAG defines it."""
    channels = [int(color[c : c + 2], 16) / 255 for c in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    """From 1 to 21; text wants 4.5."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_can_be_read_and_told_apart():
    lanes = [svg.lane_colors(lane) for lane in range(32)]
    for color, ink in lanes:
        assert contrast(color, ink) == max(contrast(color, "#000000"), contrast(color, "#ffffff")) >= 4.5
    # Brighter from lane to lane: also in greyscale.
    brightness = [luminance(color) for color, _ in lanes]
    assert brightness == sorted(set(brightness))
    for mode in (1, 2):
        paper = svg.COLORS["paper"][mode]
        assert contrast(svg.COLORS["ink"][mode], paper) >= 7
        assert contrast(svg.COLORS["soft"][mode], paper) >= 4.5
        assert contrast(svg.COLORS["mark"][mode], paper) >= 4.5
        assert contrast(svg.COLORS["here"][mode], paper) >= 3


def boxes(text):
    """The filled cells of a picture, as (x, y, width, height)."""
    return [at for at, look, _ in cells(text) if look.get("fill", "").startswith("#")]


def test_each_lane_has_its_cell():
    lanes = {str(lane) for lane in range(32)}
    for name in ("far apart", "side by side", "no conflict", "quarters", "every other bank"):
        assert lanes <= set(words(DRAWINGS[name])), name
        assert len(boxes(DRAWINGS[name])) == 32, name
    some = words(DRAWINGS["some lanes"])
    assert len(boxes(DRAWINGS["some lanes"])) == 11
    assert "31" in some and "30" not in some


def test_sectors_say_what_is_moved():
    assert "128 bytes wanted, 32 sectors = 1024 bytes moved" in words(DRAWINGS["far apart"])
    assert "4 bytes wanted, 1 sector = 32 bytes moved" in words(DRAWINGS["one word"])
    assert "512 bytes wanted, 16 sectors = 512 bytes moved" in words(DRAWINGS["16 bytes, rows"])
    assert "a: lanes 0–31" in words(DRAWINGS["one word"])
    # Each sector stands at its offset.
    assert {str(512 * i) for i in range(32)} <= set(words(DRAWINGS["far apart"]))
    # A frame for each line of 128 bytes.
    assert DRAWINGS["far apart"].count('class="strong"') == 32
    assert DRAWINGS["side by side"].count('class="strong"') == 1


def test_banks_say_how_often_they_are_wanted():
    assert "1 wavefront: no bank conflict" in words(DRAWINGS["no conflict"])
    conflict = words(DRAWINGS["every other bank"])
    assert "2 wavefronts; without bank conflicts 1" in conflict
    assert conflict.count("words") == 2  # below each half of the banks
    assert "8 wavefronts; without bank conflicts 4" in words(DRAWINGS["conflicting quarters"])
    assert "lanes 8 to 15 at once:" in words(DRAWINGS["quarters"])
    assert "lanes 0 to 31, bytes 4 to 7 at once:" in words(DRAWINGS["three pieces"])
    assert "Banks 16 to 31 are not wanted." in words(DRAWINGS["pairs"])
    # Lanes that want the same word share a cell.
    assert len(boxes(DRAWINGS["pairs"])) == 16
    legend = [w for w in words(DRAWINGS["broadcasts"]) if "lanes" in w]
    assert legend == ["a: lanes 0–7", "b: lanes 8–15", "c: lanes 16–23", "d: lanes 24–31"]


def test_conflicting_lanes_stand_in_one_column():
    assert len({x for x, *_ in boxes(DRAWINGS["one bank"])}) == 1
    assert "32" in words(DRAWINGS["one bank"])  # words of the bank: all of them count
    padded = picture.picture(shared(4, lambda i: 4 * (33 * i % 8 + 32 * (i // 8))))
    assert len({x for x, *_ in boxes(padded)}) == 8


def test_copies_and_ldmatrix():
    copy = words(picture.picture(picture.from_xray(shared_row(4, lambda i: 4 * i) | {"operation": "copy"})))
    assert copy[0] == "One warp copies to As, 4 bytes a lane"
    assert "No bank conflict" in copy  # no promise of wavefronts, which also depend on what it reads
    row = shared_row(16, lambda i: 144 * i, at_once=8) | {"operation": "ldmatrix"}
    shown = words(picture.picture(picture.from_xray(row)))
    assert shown[0] == "One ldmatrix from As, 16 bytes a row"
    assert "4 wavefronts: no bank conflict" in shown


# ---- The roofline ----------------------------------------------------------------------------------------


def circles_of(root):
    return [(float(c.get("cx")), float(c.get("cy")), float(c.get("r"))) for c in root.iter(f"{SVG}circle")]


def names_of(root):
    """The steps' numbers in a roofline, with their places; not those of the axes."""
    places = {}
    for e in texts(root):
        if re.fullmatch(r"\d\d", e.text or "") and "soft" not in e.get("class", ""):
            assert e.text not in places
            places[e.text] = float(e.get("x")), float(e.get("y")) - 5
    return places


@pytest.mark.parametrize("count", range(1, len(ROOFLINE) + 1))
def test_roofline_names(count):
    """Each name stands once, at the end of a line from its own point; below the roof; none covers another or
    a point."""
    points = ROOFLINE[:count]
    root = ElementTree.fromstring(roofline.svg(points, points[-1].step, 66.9, 4.8, "Test GPU"))
    plot = roofline.whole_plot(points, 66.9, 4.8)
    legend, *marks = circles_of(root)
    assert legend[2] == max(r for _, _, r in marks)  # the marked one
    assert len(marks) == count
    names = names_of(root)
    assert sorted(names) == [p.step[:2] for p in points]
    ends = [tuple(float(e.get(k)) for k in ("x1", "y1", "x2", "y2")) for e in root.iter(f"{SVG}line")]
    for point in points:
        x, y = names[point.step[:2]]
        own = plot.place(*point[1:])
        assert any(math.dist(own, mark[:2]) < 0.1 for mark in marks)
        assert any(math.dist((*own, x, y), end) < 1 for end in ends)
        assert y - 8 > plot.place(1, 66.9)[1]
        for mx, my, r in marks:
            assert abs(mx - x) > 9 + r or abs(my - y) > 5 + r, point
        for other, (a, b) in names.items():
            assert other == point.step[:2] or abs(x - a) > 16 or abs(y - b) > 12


def test_the_roof():
    assert roofline.roof(1, 66.9, 4.8) == 4.8
    assert roofline.roof(100, 66.9, 4.8) == 66.9


# ---- The command -----------------------------------------------------------------------------------------


@pytest.fixture
def xray(tmp_path):
    row = shared_row(4, lambda i: 4 * i)
    bulk = row | {"operation": "copy", "example": None}  # it has no lanes
    rows = [row, row | {"line": 4, "source": "b = As[k];"}, bulk, global_row(4, lambda i: 4 * i)]
    file = tmp_path / "xray.json"
    file.write_text(json.dumps([{"xray": {"kernels": [{"accesses": rows}]}}]))
    return file


def test_command(tool, refused, xray, tmp_path):
    assert tool("picture", xray, "load", "A", "a.svg").returncode == 0
    assert (tmp_path / "a.svg").read_text() == DRAWINGS["side by side"]
    assert tool("picture", xray, "load", "As", "b.svg", "--line", "b =", "--banks").returncode == 0
    assert (tmp_path / "b.svg").read_text() == DRAWINGS["no conflict"]
    refused("picture", xray, "load", "B", "x.svg", words=["load B", "there are load A, load As"])
    refused("picture", xray, "load", "As", "x.svg", words=["several lines", "3: a = As[k]", "line=TEXT"])
    xray.write_text('{"xray": {"kernels": [1]}}')
    refused("picture", xray, "load", "A", "x.svg", words=["holds no X-ray", "--xray --json"])
