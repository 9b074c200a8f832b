"""Step 14's picture to play with, in a real browser: it shows the pieces of work that the kernel's own
functions find, for any number of tiles and multiprocessors."""

import json
import re

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
from browser import DESKTOP, PHONE
from conftest import ROOT
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from tools.drawing import schedule

DATA = ROOT / "docs" / "figures" / "play" / "14_stream_k_schedule.js"
SET = """
for (const [name, value] of Object.entries(arguments[0])) {
  const input = document.querySelector(`.play [name="${name}"]`);
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}
"""
# Of each piece its block, its number, and what it is.
PIECES = """
return [...document.querySelectorAll(".play [data-piece]")]
  .map((piece) => [...piece.dataset.piece.split(",").map(Number), piece.querySelector("title").textContent]);
"""
SAYS = "return document.querySelector('.play-says').innerText"


@pytest.fixture
def opened(browser, built):
    browser.size(DESKTOP)
    browser.get((built("docs") / "steps" / "14_stream_k.html").as_uri())
    yield browser
    assert browser.errors() == []


def test_it_shows_what_the_kernel_does(opened):
    every = json.loads(re.search(r'"schedules":(\[.*\])', DATA.read_text(), re.DOTALL)[1])
    assert opened.run(PIECES)[:2] == [
        [0, 0, "tile 0, k-tiles 0–7"],
        [0, 1, "tile 8, k-tiles 0–7"],
    ]  # as the picture
    for sms, tiles, ends in (4, 36, (72, 72)), (12, 5, (8, 4)), (7, 24, (32, 28)):
        opened.run(SET, {"sms": sms, "tiles": tiles})
        blocks = every[sms - schedule.SMS[0]][tiles - schedule.TILES[0]]
        expected = [
            [sm, n, p] for sm, block in enumerate(blocks) for n, p in enumerate(schedule.pieces(block))
        ]
        for sm, n, says in opened.run(PIECES):
            assert [sm, n] == expected[0][:2]
            piece = expected.pop(0)[2]
            last = f"–{piece.last - 1}" * (piece.last - piece.first > 1)
            assert says == f"tile {piece.tile}, k-tiles {piece.first}{last}"
        assert expected == []
        gain = f"{ends[0] / ends[1]:.2f} times as fast"
        assert f"{ends[0]} k-tiles; with stream-K {ends[1]}, {gain}" in opened.run(SAYS)


def test_it_says_who_finishes_a_tile(opened):
    assert "SM 1, from 16 on: k-tiles 0–5 of tile 19. It hands its sums over to SM 2" in opened.run(SAYS)
    opened.run("document.querySelector('.play-matrices').focus()")
    ActionChains(opened).send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
    assert "SM 2, from 29 on: k-tiles 6–7 of tile 19. It adds the sums of SM 1" in opened.run(SAYS)
    opened.find_element("css selector", ".play [data-piece='7,3']").click()
    assert "SM 7, from 24 on: k-tiles 1–7 of tile 29. It adds the sums of SM 6" in opened.run(SAYS)


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_all_bars_are_on_the_first_screen(opened, width):
    opened.size(width)
    bottom = opened.run("return document.querySelector('.play-matrices').getBoundingClientRect().bottom")
    assert bottom < opened.run("return innerHeight")
