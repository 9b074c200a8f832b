"""A reader's guess before What came out, in a real browser. Skipped where there is no Chromium."""

import re

import pytest
from conftest import PHONE, ROOT

pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys


@pytest.fixture
def opened(browser, built):
    """A function that opens a step's page. At the end nothing may have gone wrong."""

    def go(step, anchor=""):
        browser.get("about:blank")
        browser.get((built("docs") / "steps" / f"{step}.html").as_uri() + anchor)
        return browser

    yield go
    assert browser.errors() == []


OPEN = "return document.querySelector('#why').checkVisibility({ contentVisibilityAuto: true })"
FOLDED = "return document.querySelector('.guess-rest').hasAttribute('hidden')"
ROWS = """
const text = (cell) => cell.textContent.trim();
return [...document.querySelectorAll(".guess tr")].map((row) => [...row.cells].map(text));
"""


def press(browser, *keys):
    ActionChains(browser).send_keys(*keys).perform()


def focus(browser, selector):
    browser.run("document.querySelector(arguments[0]).focus()", selector)


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "steps").glob("*.md")), ids=lambda path: path.stem)
def test_every_prediction_is_a_question(path):
    """With what the page itself says: both figures come from the evidence."""
    text = path.read_text()
    asks = re.findall(r'<div class="guess".*?</div>', text, re.DOTALL)
    steps = "## Predict" in text and (ROOT / "steps" / path.stem).is_dir()
    assert len(asks) == steps
    assert all("<!--=" in ask.rpartition("| ")[0].rpartition(" | ")[2] for ask in asks)  # measured
    assert all("## What came out\n\n" + ask in text for ask in asks)


def test_a_number_by_keyboard(opened):
    browser = opened("05_2d_tiling")
    (asked, *head), row = browser.run(ROWS)
    assert browser.run(FOLDED) and not browser.run(OPEN)
    focus(browser, ".guess-form input")
    press(browser, "not a number", Keys.ENTER)
    assert browser.run(FOLDED)
    press(browser, *[Keys.BACKSPACE] * 12, "42", Keys.ENTER)
    assert browser.run(OPEN) and not browser.run(FOLDED)
    assert browser.run(ROWS) == [[asked, "your guess", *head], [row[0], "42", *row[1:]]]
    off = round(100 * (42 / float(row[2]) - 1))
    assert f"{off} % above" in browser.run("return document.querySelector('.guess-said').innerText")
    opened("05_2d_tiling")
    assert browser.run(ROWS)[1][1] == "42"  # kept
    focus(browser, ".guess-said button")
    press(browser, Keys.ENTER)
    assert browser.run(FOLDED)
    opened("05_2d_tiling")
    assert browser.run(FOLDED)  # forgotten


def test_a_choice_by_keyboard(opened):
    browser = opened("29_persistent")
    browser.size(PHONE)
    focus(browser, ".guess-form input")
    press(browser, Keys.SPACE, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert browser.run(ROWS)[1][1:3] == ["level", "larger tile"]


def test_nobody_must_guess(opened):
    browser = opened("05_2d_tiling")
    head, row = browser.run(ROWS)
    browser.click(".guess-form button[type=button]")
    assert browser.run(OPEN) and browser.run(ROWS) == [head, row]


def test_a_link_unfolds_what_it_leads_to(opened):
    browser = opened("05_2d_tiling", "#why")
    assert browser.run(OPEN)
    opened("06_vectorization")
    assert browser.run(FOLDED)
    browser.run("location.hash = '#why'")
    browser.wait(OPEN, what="the unfolded section")


def test_without_javascript_all_is_open(opened, browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        shown = opened("05_2d_tiling").run(f"return [(() => {{ {OPEN} }})(), document.forms.length]")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert shown[0]
