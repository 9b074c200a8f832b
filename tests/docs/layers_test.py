"""A step's page in two layers: the first is read in ten minutes, and begins with a picture, which a desktop's
first screen shows. Counted in the Markdown, and seen in a browser (skipped where there is no Chromium)."""

import subprocess
import sys

import pytest
from conftest import COMMON, ROOT
from tools.pages.words import MOST_BEFORE_PICTURE, MOST_WORDS, count, faults, first_picture

PAGES = sorted((ROOT / "docs" / "steps").glob("*.md"))
FIRST_WITH_PICTURE_IN_SIGHT = "03"  # those before introduce the machine first


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_read_in_ten_minutes(page):
    assert faults(page.read_text()) == []


# ---- How words are counted ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Four words, no more.\n", 4),
        ("## A heading\n\nand text\n", 4),
        ("8192 / 256 = 32 of them\n", 5),  # signs are no words
        ("a [link](far/away.md) and `code here`\n", 5),
        ("It takes <!--= gpu.sms | .0f -->132<!--/--> SMs <!-- not seen -->\n", 4),
        ("In all <!--= gpu.sms -->2\u202f147<!--/--> units\n", 4),
        ("one\n\n```text\na drawing\n```\n\ntwo\n", 2),
        ("one\n\n| a | b |\n|---|---|\n| c | d |\n\ntwo\n", 2),
        ("one\n\n![seen by the blind](x.svg)\n\ntwo\n", 2),
        ("one\n\n<!-- generate: speed -->\n\n| a |\n\nA caption.\n\n<!-- end -->\n\ntwo\n", 2),
        ("- one\n- two\n\n1. three\n", 3),
        # What is folded, also within another, and not only mentioned.
        ('one\n\n<details markdown="1"><summary>More</summary>\n\nmuch\n\n</details>\n\ntwo\n', 2),
        ("one\n<details>\na\n<details class='x'>\nb\n</details>\nc\n</details>\ntwo\n", 2),
        ("one `<details>` two\n\n```html\n<details>\n```\n\nthree\n", 3),
        ("one\n<details>\nnever closed\n", 1),
        ("one\n\n## Checked claims\n\n- A claim.\n\n## Notes\n\ntwo\n", 3),
    ],
)
def test_words_of_the_first_layer(text, words):
    assert count(text) == words


PICTURE = "![drawn](x.svg)\n\n"
LONG = "word " * (MOST_WORDS - 8)
SHORT = "# T\n\n## Question\n\nWhy?\n\n"  # three words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SHORT + "## The picture\n\n" + PICTURE + "## Predict\n\n" + LONG, []),
        (SHORT + "## The picture\n\n" + PICTURE + LONG + "and four words more", ["901 words outside"]),
        (SHORT + PICTURE + f"<details>\n\n{LONG}{LONG}\n\n</details>\n", []),
        (SHORT + "## The picture\n\n```text\n+--+\n```\n\n## Predict\n\nNothing.\n", []),
        (SHORT + "## The picture\n\n| lane | bank |\n|---|---|\n", []),
        (SHORT + "| not | there |\n|---|---|\n", ["no picture"]),
        (SHORT + f"<details>\n\n{PICTURE}</details>\n", ["no picture"]),
        (SHORT + "## Predict\n\nNothing.\n\n## The picture\n\n" + PICTURE, ["its first picture comes after"]),
        (
            SHORT + "word " * (MOST_BEFORE_PICTURE - 2) + "\n\n" + PICTURE,
            [f"{MOST_BEFORE_PICTURE + 1} words before"],
        ),
        (LONG + "nine more words than are allowed in all pages", ["901 words", "no picture"]),
    ],
)
def test_faults_of_a_page(text, expected):
    found = faults(text)
    assert len(found) == len(expected)
    assert all(fault.startswith(words) for fault, words in zip(found, expected, strict=True)), found


def test_a_picture_begins_with_its_block():
    block = "<!-- generate: tiling -->\n\nSome words.\n\n![drawn](x.svg)\n\n<!-- end -->\n"
    assert first_picture(SHORT + block) == len(SHORT)


def test_an_author_sees_the_counts(tmp_path):
    """ladder pages --words: the lengths of all steps' pages, and which is too long."""
    command = [sys.executable, "-m", "tools", "pages", "--words"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=COMMON)
    lines = result.stdout.splitlines()[1:]
    assert [line.split()[2].rstrip(":") for line in lines] == [page.stem for page in PAGES]
    texts = [page.read_text() for page in PAGES]
    assert [int(line.split()[0]) for line in lines] == [count(text) for text in texts]
    assert result.returncode == (1 if any(map(faults, texts)) else 0)
    long_page = tmp_path / "long.md"  # of no step: counted, and as long as it likes
    long_page.write_text(LONG * 2)
    result = subprocess.run([*command, long_page], capture_output=True, text=True, check=False, cwd=COMMON)
    assert result.returncode == 0
    assert result.stdout.splitlines()[1].split() == [str(2 * (MOST_WORDS - 8)), "-", "long"]


def test_a_page_that_is_too_long_is_named(tmp_path, capsys):
    from tools.pages import pages

    folder = tmp_path / "docs" / "steps"
    folder.mkdir(parents=True)
    (folder / "01_short.md").write_text(SHORT + PICTURE)
    (folder / "02_long.md").write_text(SHORT + PICTURE + LONG * 2)
    assert pages.main(["--words"], tmp_path) == 1
    _, short, long = capsys.readouterr().out.splitlines()
    assert short.endswith("01_short")
    assert "02_long: " in long and f"at most {MOST_WORDS}" in long


# ---- On the screen -----------------------------------------------------------------------------------------

# The first picture: in the section of that name a drawing in characters or a table will do.
FIRST_PICTURE = """
const heading = document.getElementById("the-picture");
const main = document.querySelector("article");
const seen = (element) => element.checkVisibility() && !element.closest("details");
const figures = ".figure, img, svg, object, iframe";
const inSection = (element) =>
  heading && heading.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
const kinds = heading ? figures + ", pre, table" : figures;
const first = [...main.querySelectorAll(kinds)].find((e) => seen(e) && (!heading || inSection(e)));
if (!first) return null;
const { top, height } = first.getBoundingClientRect();
return { top: top + scrollY, height, screen: innerHeight };
"""


@pytest.fixture(scope="module")
def browser():
    """A window as a reader on a desktop has it, 1400 x 900."""
    pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
    from browser import Browser, NoBrowser

    try:
        with Browser() as window:
            yield window
    except NoBrowser as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize(
    "page",
    [page.stem for page in PAGES if page.stem[:2] >= FIRST_WITH_PICTURE_IN_SIGHT],
)
def test_the_first_picture_is_in_sight(browser, built, page):
    browser.get((built("docs") / "steps" / f"{page}.html").as_uri())
    picture = browser.run(FIRST_PICTURE)
    assert picture is not None, "no picture"
    in_sight = min(picture["screen"], picture["top"] + picture["height"]) - picture["top"]
    # Of a tall one a third of the screen is enough to begin with.
    wanted = min(picture["height"] / 2, picture["screen"] / 3)
    assert in_sight >= wanted, f"{in_sight:.0f} px of it are in sight, {wanted:.0f} were wanted; {picture}"
