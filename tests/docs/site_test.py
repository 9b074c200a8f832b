"""The site as files: it builds without a word, and a link that leads nowhere stops that."""

import os
import re
import shutil

import pytest
from conftest import COMMON, ROOT, SAMPLE, build_site

pytest.importorskip("material", reason="MkDocs Material is not installed: run ./setup.sh")
from tools.website.hooks import CONCEPTS, EXERCISES, PARTS, START

BOTH = pytest.mark.parametrize("name", ["docs", "sample"])


# Markdown that was not taken for such: a list without an empty line before it, a table, emphasis, a fence.
UNRENDERED = re.compile(
    r"(?<=\n)(?:[-*+] |1\. )|^(?:\||#{1,6} |```)|\]\(|\*\*\w|<!--|-->|:---|---:", re.MULTILINE
)


def unrendered(html):
    """What is left of Markdown in a page's texts, without code."""
    prose = re.sub(r"<(code|pre|script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    texts = re.findall(
        r"<(?:p|li|td|th|h[1-3])\b[^>]*>(.*?)(?=</?(?:p|li|td|th|h[1-3]|ul|ol)\b)", prose, re.DOTALL
    )
    return [text for text in texts if UNRENDERED.search(re.sub(r"<[^!][^>]*>", "", text))]


@BOTH
def test_all_markdown_is_rendered(built, name):
    for page in built(name).rglob("*.html"):
        assert unrendered(page.read_text()) == [], page


@pytest.mark.parametrize("text", ["Reasons:\n- one", "| a | b |", "see [this](x.md)", "a <em>b</em> **c"])
def test_markdown_left_as_it_is_is_seen(text):
    assert unrendered(f"<p>a - b, <code>**x</code></p><p>{text}</p><p><b>1. May</b></p>") == [text]


@BOTH
def test_the_navigation_has_every_page_in_order(built, name):
    docs = ROOT / "docs" if name == "docs" else SAMPLE
    steps = sorted(path.stem for path in (docs / "steps").glob("*.md"))
    concepts = sorted((path.stem for path in (docs / "concepts").glob("*.md")), key=CONCEPTS.index)
    links = re.findall(r'href="([^"#]+)" class="md-nav__link', (built(name) / "index.html").read_text())
    assert list(dict.fromkeys(links)) == [
        "index.html",
        *(f"{page}.html" for page in START if (docs / f"{page}.md").exists()),
        *(f"steps/{step}.html" for step in steps),
        *(f"concepts/{concept}.html" for concept in concepts),
        *(f"{page}.html" for page in EXERCISES if (docs / f"{page}.md").exists()),
    ]


def test_the_navigation_has_the_ladders_parts(built):
    page = (built("docs") / "index.html").read_text()
    groups = re.findall(r'<label class="md-nav__title"[^>]*>\s*<span[^>]*></span>\s*(.*?)\s*</label>', page)
    parts = sorted({path.name[0].replace("1", "0") for path in (ROOT / "docs" / "steps").glob("*.md")})
    expected = [*(PARTS[part] for part in parts), "Concepts", "Exercises and teaching"]
    assert [group for group in groups if group in expected] == expected


def test_a_picture_stands_on_top_and_only_there(built):
    for page in (built("docs") / "steps").glob("*.html"):
        before, _, after = page.read_text().partition('<h2 id="question">')
        _, _, opening = before.partition('<div class="opening')
        drawn = re.findall(r'<img [^>]*src="([^"]+)"', opening)
        assert drawn and not [src for src in drawn if f'src="{src}"' in after], page.name


@BOTH
def test_evidence_and_figures_are_in_the_site(built, name):
    docs = ROOT / "docs" if name == "docs" else SAMPLE
    for folder in ("evidence", "figures"):
        for path in (docs / folder).rglob("*.*"):
            assert (built(name) / path.relative_to(docs)).read_bytes() == path.read_bytes()


def test_markers_of_generated_parts_are_gone(built):
    page = (built("sample") / "steps" / "01_naive.html").read_text()
    assert "needs 4 sectors" in page
    assert "528 in all" in page
    for marker in ("generate:", "&lt;!--", "<!--=", "<!--/", "<!-- end"):
        assert marker not in page
    about_markers = (built("sample") / "index.html").read_text()
    assert "&lt;!-- end --&gt;" in about_markers and "&lt;!-- generate: diff --&gt;" in about_markers


def test_a_bar_in_a_table_is_escaped():
    """Where the pages are read in the repository, a bar within a cell's value would begin a column."""
    for page in sorted((ROOT / "docs").rglob("*.md")):
        cells = (line for line in page.read_text().splitlines() if line.startswith("|"))
        values = (value for line in cells for value in re.findall("<!--=(.*?)-->", line))
        assert not [value for value in values if re.search(r"(?<!\\)\|", value)], page


def test_source_files_have_pages(built):
    site = built("sample")
    source = (site / "source/steps/01_naive/kernel.cu.html").read_text()
    assert 'href="../../../steps/01_naive.html"' in source  # back to the step
    assert 'href="../source/steps/01_naive/kernel.cu.html#L29"' in (site / "steps/01_naive.html").read_text()
    start = (site / "index.html").read_text()
    assert 'href="source/steps/05_2d_tiling/kernel.cu.html#L40"' in start  # written as #L40-L50
    lines = (ROOT / "steps/01_naive/kernel.cu").read_text().splitlines()
    numbered = re.findall(r'id="L(\d+)"', source)
    assert numbered == [str(number) for number in range(1, len(lines) + 1)]


def test_a_list_begins_with_its_number(built):
    page = (built("sample") / "steps" / "01_naive.html").read_text()
    assert '<ol start="2">\n<li>And a higher one?</li>' in page


def test_code_is_highlighted(built):
    page = (built("sample") / "steps" / "01_naive.html").read_text()
    assert 'class="language-cuda highlight"' in page
    assert '<span class="kr">__global__</span>' in page  # the CUDA lexer's, not C++'s
    assert '<span class="gi">' in page  # a line that a diff adds
    assert "```" not in page


# ---- What must fail ----------------------------------------------------------------------------------------

BROKEN = {
    "[broken](steps/11_no_such_step.md)": "11_no_such_step.md",
    "[broken](steps/01_naive.md#no-such-place)": "no-such-place",
    "[broken](../steps/01_naive/no_such_file.cu)": "no_such_file.cu",
    "[broken](../steps/01_naive/kernel.cu#L100000)": "L100000",
    "![broken](figures/no_such_figure.svg)": "no_such_figure.svg",
    "[broken](/steps/01_naive.md)": "/steps/01_naive.md",
}


def test_broken_links_stop_the_build(tmp_path):
    docs, site = tmp_path / "docs", tmp_path / "site"
    shutil.copytree(SAMPLE, docs)
    with (docs / "index.md").open("a") as page:
        page.write("\n" + "\n\n".join(BROKEN) + "\n")
    site.mkdir()
    (site / "search").mkdir()  # a site that was there before
    result = build_site(site, docs)
    assert result.returncode == 1
    for words in BROKEN.values():
        assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert [path.name for path in site.iterdir()] == ["search"]  # it is still there, and nothing beside it
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs", "site"]


def test_says_what_to_install(tmp_path):
    planted = "raise ModuleNotFoundError('No module named material', name='material')"
    (tmp_path / "material.py").write_text(planted)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{COMMON}"}
    result = build_site(tmp_path / "site", SAMPLE, env=environment)
    assert result.returncode == 2
    assert "material" in result.stderr and "./setup.sh" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "site").exists()


def test_does_not_replace_what_is_no_site(tmp_path):
    precious = tmp_path / "thesis.txt"
    precious.write_text("the only copy")
    result = build_site(tmp_path, SAMPLE)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert precious.read_text() == "the only copy"
