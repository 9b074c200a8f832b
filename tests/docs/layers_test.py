"""A step's page in two layers: the first is read in ten minutes, and begins with a picture. Counted in the
Markdown; that the picture is on the first screen, site_browser_test.py sees."""

import pytest
from conftest import ROOT
from tools.pages import pages
from tools.pages.words import MOST_BEFORE_PICTURE, MOST_WORDS, count, faults

PAGES = sorted((ROOT / "docs" / "steps").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_read_in_ten_minutes(page):
    assert faults(page.read_text()) == []


def test_five_ladders_are_read_in_ten_minutes():
    """No step's page, but one that is read from the beginning to the end, too."""
    assert count((ROOT / "docs" / "concepts" / "five_ladders.md").read_text()) <= MOST_WORDS


# ---- How words are counted ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("## A heading\n\n8192 / 256 = 32 of them\n", 7),  # signs are no words
        ("a [link](far/away.md) and `code here`\n", 5),
        ("In all <!--= gpu.sms -->2\u202f147<!--/--> units <!-- not seen -->\n", 4),
        ("one\n\n```text\na drawing\n```\n\n| a | b |\n|---|---|\n\n![seen by the blind](x.svg)\n\ntwo\n", 2),
        ("one\n\n<!-- generate: speed -->\n\n| a |\n\nA caption.\n\n<!-- end -->\n\ntwo\n", 2),
        # What is folded, also within another, and not only mentioned.
        ("one\n<details>\na\n<details class='x'>\nb\n</details>\nc\n</details>\ntwo\n", 2),
        ("one `<details>` two\n\n```html\n<details>\n```\n\nthree\n", 3),
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
        (SHORT + PICTURE + f"<details>\n\n{LONG}{LONG}\n\n</details>\n", []),
        (SHORT + "## The picture\n\n| lane | bank |\n|---|---|\n", ["no picture"]),
        (SHORT + "## The picture\n\n```text\na drawing\n```\n", ["no picture"]),
        (SHORT + f"<!-- generate: tiling -->\n\n{LONG}\n\n{PICTURE}<!-- end -->\n", []),
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


def test_an_author_sees_the_counts(tmp_path, capsys):
    """ladder pages --words: how long each page is, and which is too long."""
    folder = tmp_path / "docs" / "steps"
    folder.mkdir(parents=True)
    (folder / "01_short.md").write_text(SHORT + PICTURE)
    (folder / "02_long.md").write_text(SHORT + PICTURE + LONG * 2)
    assert pages.main(["--words"], tmp_path) == 1
    _, short, long = capsys.readouterr().out.splitlines()
    assert short.split() == ["3", "3", "01_short"]
    assert "02_long: " in long and f"at most {MOST_WORDS}" in long
