"""What `ladder pages` writes into a page and finds stale in it, what it refuses, how it shows values."""

import re

import pytest

PAGE = """# Step 02

A tile has <!--= const(here, 'BM') -->?<!--/--> rows, a request
takes <!--= xray(here).load('A').sectors_per_request | .1f -->?<!--/--> sectors.

<!-- generate: diff -->
<!-- end -->

<!-- generate: picture load A -->
<!-- end -->
"""


# ---- Writing and checking --------------------------------------------------------------------------------


def test_a_page_is_written_and_then_found_fresh(project):
    text = project.make(PAGE)
    assert "has <!--= const(here, 'BM') -->128<!--/--> rows" in text
    assert "-->4.0<!--/--> sectors" in text
    figure = project.root / "docs" / "figures" / "02_second_load_A.svg"
    assert "../figures/02_second_load_A.svg" in text
    assert figure.read_text().startswith("<svg")
    before = {path: path.stat().st_mtime_ns for path in (project.page, figure)}
    assert project.run("--check") == 0
    assert project.run() == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("old, new", [("-->128<", "-->127<"), ("128 bytes wanted", "129 bytes wanted")])
def test_check_finds_what_was_edited_and_writes_nothing(project, capsys, old, new):
    project.make(PAGE)
    figure = project.root / "docs" / "figures" / "02_second_load_A.svg"
    edited = figure if "wanted" in old else project.page
    text = edited.read_text()
    assert old in text
    edited.write_text(text.replace(old, new))
    capsys.readouterr()
    assert project.run("--check") == 1
    said = capsys.readouterr()
    assert re.search(rf"^-.*{re.escape(new)}", said.out, re.MULTILINE)
    assert re.search(rf"^\+.*{re.escape(old)}", said.out, re.MULTILINE)
    assert f"stale: {edited.relative_to(project.root)}" in said.err
    assert edited.read_text() == text.replace(old, new)
    assert project.run() == 0
    assert edited.read_text() == text


def test_an_unused_figure_is_reported(project, capsys):
    project.make(PAGE + "\n![a](../figures/05_shown_tiling_warp_0_lane_5.svg)\n")
    for name in ("old.svg", "play/05_shown.js", "play/06_gone.js"):
        project.write(f"docs/figures/{name}", "")
    assert project.run("--check") == 1
    said = capsys.readouterr().err
    assert "unused: docs/figures/old.svg" in said
    assert "unused: docs/figures/play/06_gone.js: no page shows its picture" in said
    assert "05_shown" not in said


def test_markers_in_code_are_left_alone(project):
    text = "```\n<!-- generate: nothing -->\n```\n\nWrite `<!--= 1 -->` and `<!--= N -->1<!--/-->`.\n"
    assert project.make(text) == text


def test_files_outside_docs_have_their_figures_beside_them(project):
    page = project.write("elsewhere/02_second.md", PAGE)
    assert project.run(str(page)) == 0
    assert (page.parent / "figures" / "02_second_load_A.svg").exists()
    assert "](figures/02_second_load_A.svg)" in page.read_text()


def test_not_recorded_yet(project, capsys):
    """What can be had is written, the rest stays and is listed."""
    (project.root / "evidence" / "02_second.json").unlink()
    text = project.make(
        "It has <!--= const(here, 'BM') -->?<!--/--> rows and\n"
        "runs <!--= profile(here).blocks -->?<!--/--> blocks.\n\n"
        "<!-- generate: profile -->\nold\n<!-- end -->\n",
        expected=1,
    )
    assert "-->128<!--/-->" in text
    assert "profile(here).blocks -->?<" in text
    assert "\nold\n" in text
    said = capsys.readouterr().err
    assert (
        "missing: docs/steps/02_second.md:2: `profile(here).blocks`: the profile of 02_second is not" in said
    )
    assert "missing: docs/steps/02_second.md:4: block `profile`" in said
    assert project.run("--check") == 1


def test_values_of_a_build_that_is_not_there_are_kept(project, capsys):
    made = project.make(PAGE)
    capsys.readouterr()
    assert project.run("--check", build="no-build") == 0
    said = capsys.readouterr().out
    assert "kept, not checked: docs/steps/02_second.md:4: `xray(here)" in said
    assert "kept, not checked: docs/steps/02_second.md:30: block `picture`" in said
    assert "1 blocks and 1 values made, 2 kept and not checked" in said
    assert project.run(build="no-build") == 0
    assert project.page.read_text() == made
    # One that was never written cannot be kept.
    project.page.write_text(made.replace("-->4.0<", "--><"))
    assert project.run("--check", build="no-build") == 1


# ---- Mistakes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("<!-- generate: diff -->\n", 1, "lacks its"),
        ("a\n\n<!-- generate: diff -->\n<!-- generate: xray -->\n<!-- end -->\n", 3, "`diff` lacks its"),
        ("<!-- end -->\n", 1, "without a block"),
        ("<!-- generate:diff -->\n<!-- end -->\n", 1, "begins with"),
        ("a\n<!--= N -->1<!--/--> b\n", 2, "cannot begin a line"),
        ("a <!--= N -->1\n", 1, "inline value is"),
        ("a <!--= M -->1<!--/-->\n", 1, "unknown name 'M'"),
        ("a <!--= N | .2q -->1<!--/-->\n", 1, "format '.2q'"),
        ("a <!--= const(here, 'XX') -->1<!--/-->\n", 1, "no constant XX"),
        ("<!-- generate: table -->\n<!-- end -->\n", 1, "no such kind; there are diff, code"),
        ("<!-- generate: diff 01 -->\n<!-- end -->\n", 1, "more than this block takes"),
        ("<!-- generate: xray 07 -->\n<!-- end -->\n", 1, "'07' names no step"),
        ("<!-- generate: code BN .. C -->\n<!-- end -->\n", 1, "no line of 02_second/kernel.cu holds 'BN'"),
        ("<!-- generate: code BM .. BN -->\n<!-- end -->\n", 1, "lines 6, 7, 10 of"),
        ("<!-- generate: picture load -->\n<!-- end -->\n", 1, "picture OPERATION ARRAY"),
        ("<!-- generate: sass loop many -->\n<!-- end -->\n", 1, "N is how many"),
        ("<!-- generate: sass LDS .. STG -->\n<!-- end -->\n", 1, "no instructions from 'LDS' to 'STG'"),
        ("<!-- generate: experiment nope -->\n<!-- end -->\n", 1, "no experiment 'nope'"),
    ],
)
def test_mistakes_are_told_and_nothing_is_written(project, capsys, text, line, words):
    text += "\nFine: <!--= const(here, 'BM') -->?<!--/-->\n"
    assert project.make(text, expected=2) == text
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"error: docs/steps/02_second.md:{line}: ")
    assert words in said[0]


def test_pages_without_a_step_have_to_name_one(project, capsys):
    page = project.write("docs/index.md", "<!-- generate: diff -->\n<!-- end -->\n")
    assert project.run() == 2
    assert "belongs to no step" in capsys.readouterr().err
    page.write_text("<!-- generate: diff step=02 -->\n<!-- end -->\n")
    assert project.run() == 0
    assert "+constexpr int TM" in page.read_text()


@pytest.mark.parametrize(
    "text, words",
    [
        ("definition = 1 2", "cannot be read"),
        ("[[definition]]\npattern = 'x 1'", "lacks its pattern or its reason"),
        ("[[definition]]\npattern = '('\nreason = 'r'", "definition 1: '('"),
    ],
)
def test_mistakes_in_the_definitions(project, capsys, text, words):
    project.write("docs/definitions.toml", text)
    project.page.parent.mkdir(parents=True)
    project.page.write_text("text\n")
    assert project.run() == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {project.root}/docs/definitions.toml: ")
    assert words in said


# ---- Values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression, shown",
    [
        ("N", "4096"),
        ("N | ,d", "4\u202f096"),
        ("1 / 3", "0.3333"),
        ("1 / 3 | .1%", "33.3%"),
        ("gpu.peak_tflops | .2f", "2.56"),
        (r"N \| ,d", "4\u202f096"),
    ],
)
def test_formats(project, expression, shown):
    assert f"-->{shown}<!--/-->" in project.make(f"| a | <!--= {expression} --><!--/--> |\n")
