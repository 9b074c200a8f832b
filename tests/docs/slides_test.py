"""Slides: what teaching.md's lectures name is there, and what a deck shows is its pages'."""

import re
import subprocess
import sys
from html import unescape

import pytest
from tools.base import ROOT
from tools.grading.content import read_all
from tools.pages import slides


@pytest.fixture(scope="module")
def coalescing(tmp_path_factory):
    """The folder of one deck, as a teacher makes it."""
    out = tmp_path_factory.mktemp("slides")
    command = [sys.executable, "-P", "-m", "tools", "slides", "2", "--out", str(out)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stdout.splitlines()[0] == str(out / "02_who_reads_what_coalescing.html")
    return out


def test_every_lecture_has_a_deck():
    exercises = {exercise.name for exercise in read_all()}
    lectures = slides.lectures()
    rows = re.findall(r"^\| .*\(steps/.*\|$", (ROOT / "docs/teaching.md").read_text(), re.MULTILINE)
    assert len(lectures) == len(rows) > 20
    assert len({lecture.name for lecture in lectures}) == len(lectures)
    for lecture in lectures:
        assert set(lecture.exercises) <= exercises
        assert slides.deck(lecture).count("<section>") > 5 * len(lecture.pages)


def test_a_deck_is_made_of_its_pages(coalescing):
    """Its values are those between the markers that `pages --check` looks at."""
    [path] = coalescing.glob("*.html")
    text = path.read_text()
    page = (ROOT / "docs/steps/02_coalescing.md").read_text()
    shown = " ".join(unescape(re.sub(r"<[^>]+>|data:\S+", " ", text)).split())
    for value in ("ladder(here).time_us / 1000", "xray(before).load('A').sectors_per_request"):
        [found, *_] = re.findall(rf"<!--= {re.escape(value)} [^>]*-->(.*?)<!--/-->", page)
        assert found in shown
    for words in ("Can the same work", "Only the order changed.", "const int row", "exercises check 02_co"):
        assert words in shown
    assert text.count("data:image/svg+xml;base64,") == 5  # the step's two, and those of the page on memory
    assert "Notebook" not in shown
    assert "<!--" not in text
    assert not re.search(r"(?:src|href)=\"(?!data:)", text)  # it needs nothing else


def test_a_deck_in_a_browser(coalescing, browser):
    """Each slide fits its screen, and is a page of the PDF."""
    [path] = coalescing.glob("*.html")
    browser.get(path.as_uri())
    slides = "[...document.querySelectorAll('section')]"
    count = browser.run(f"return {slides}.length")
    large = browser.run(f"return {slides}.filter(s => s.scrollHeight > s.clientHeight).length")
    assert large == 0
    assert path.with_suffix(".pdf").read_bytes().count(b"/Type /Page\n") == count


def test_no_such_lecture(tmp_path):
    command = [sys.executable, "-P", "-m", "tools", "slides", "knitting", "--out", str(tmp_path / "out")]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert re.fullmatch(r"error: there is no lecture 'knitting'; .*\n", said.stderr)
    assert not (tmp_path / "out").exists()
