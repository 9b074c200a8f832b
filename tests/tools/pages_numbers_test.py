"""Which numbers `ladder pages` lets pass in prose: what is defined, or follows before the reader's eyes."""

import pytest
from conftest import ROOT
from tools.pages import arithmetic, stated


@pytest.mark.parametrize(
    "text",
    [
        "Words such as seventeen are not looked at.",
        "## 3 wishes",
        "1. An item\n2. Another one",
        "Code: `x = 17`, and\n\n```\n17\n```\n",
        "A [link](page17.md#18) and <span id='19'>text</span> and https://example.org/20 [^3] &#8211;",
        "<!-- a comment: 17 -->",
        "| a | 2 × 3 = 6 |\n|---|---|",
        "So 2 × 4096³ = 137 438 953 472 FLOP ≈ 137 GFLOP.",
        "Grouped as 2·4096^3 = 137,438,953,472, or 2\N{NO-BREAK SPACE}*\N{NO-BREAK SPACE}3 = 6.",
        "It takes 137.4 GFLOP / 66.9 TFLOP/s ≈ 2.05 ms, at best.",
        "4 KiB = 4 Ki bytes = 4096 bytes = 2^12 B and 64 × 1024 bytes = 64 KiB",
        "half of it: 50 % × 64 warps = 32 warps; (64 − 32) / 64 = 50 %",
        "As 1 / 3 ≈ 0.33, as 2 / 3 = 0.667, as 10⁻³ × 5 s = 5 ms",
        "The tile takes `BM` × `BK` × 4 bytes = 4096 bytes, or BM × 8 = 1024.",
        "Twice that, 2 × <!--= const(here, 'BM') -->128<!--/--> = 256 bytes.",
        "It is 66.9 / 26.76 = 2.5× faster.",
        "spread over\ntwo lines: 2 ×\n3 = 6.",
        "A unit binds closer: 8 KiB / (2 × 2) KiB = 2, and (1 + 1)² bytes = 4 bytes.",
    ],
)
def test_numbers_that_pass(project, text):
    project.make(text + "\n")


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("There are 17 of them.", 1, "17 in 'There are 17 of them.'"),
        ("## Wishes: 3", 1, "3 in"),
        ("A warp has 33 lanes and 132 lanes.", 1, "33 in"),
        ("| 17 | 6 |\n|---|---|", 1, "17 in"),
        ("Thus 2 × 3 = 7.", 1, "'2 × 3 = 7' does not hold: 6 = 7"),
        ("a\n2 × 4096³ = 137 438 953 473 FLOP", 2, "does not hold"),
        ("137.4 GFLOP / 66.9 TFLOP/s ≈ 2.05 s", 1, "does not hold"),
        ("100 / 3 ≈ 35", 1, "does not hold"),
        ("64 × 1024 bytes = 64 kB", 1, "does not hold"),
        ("`BM` × 2 = 128", 1, "does not hold: 256 = 128"),
        ("The tile is `BX` × 4 = 512 bytes", 1, "4 in"),
        ("It is 17 = 17.", 1, "17 in"),
        ("2MNK = 17", 1, "2 in"),
        ("| 2 × 3 | = 6 |\n|---|---|", 1, "2 in"),
        ("2 × 3 = 6 = 5", 1, "'6 = 5' does not hold"),
        ("17 / 0 = 3", 1, "17 in"),
        ("8 KiB / (2 × 2) KiB = 8", 1, "does not hold: 2 = 8"),
        ("() = 17", 1, "17 in"),
    ],
)
def test_numbers_that_do_not_pass(project, capsys, text, line, words):
    project.make(text + "\n", expected=1)
    said = capsys.readouterr().err
    assert f"number: docs/steps/02_second.md:{line}: " in said
    assert words in said
    assert project.run("--check") == 1


def test_an_equation_is_not_read_into_the_text_around_it():
    found = list(arithmetic.equations("so 64 warps need 16 × 4 = 64 bytes each and 3 more", {}))
    assert [(e.left.value, e.right.value, e.holds) for e in found] == [(64, 64, True)]
    chain = list(arithmetic.equations("2 × 8 = 16, then 3 × 5 = 15 = 30 / 2", {}))
    assert [(e.left.value, e.right.value) for e in chain] == [(16, 16), (15, 15), (15, 15)]


def test_the_docs_definitions():
    """They can be read, each has its use in the end, and none is so wide as to fit any number."""
    known = stated.definitions(ROOT)
    assert len(known) > 10
    for text in ("It has 54 of them", "54 %", "takes 1.5 ms", "54 TFLOP/s", "12 wavefronts"):
        assert not any(pattern.search(text) for pattern in known), text
