"""The pictures to play with, in a real browser: what they show is what was recorded, whichever way a reader
chooses it. Skipped where there is no Chromium."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
from browser import DESKTOP, PHONE
from conftest import ROOT, build_site
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from tools.claims.context import Context, extents
from tools.claims.objects import NotAvailable

BUILD = Path(os.environ.get("BUILD", "build"))
# Elements one by one; 16 bytes a lane, with bank conflicts and without;
# buffers in struct Tiles; from global memory; ldmatrix.
STEPS = {  # their blocks' tiles, terms of an mma, and tiles of K
    "05_2d_tiling": (128, 128, 8, 1, 2),
    "06_vectorization": (128, 128, 16, 1, 2),
    "08_warp_tiling": (128, 128, 16, 1, 2),
    "12_larger_tiles": (128, 256, 8, 1, 2),
    "21_tensor_cores": (128, 128, 8, 8, 2),
    "25_ldmatrix": (128, 128, 32, 8, 3),
}
EACH = pytest.mark.parametrize("step", STEPS)
WIDTHS = pytest.mark.parametrize("width", [DESKTOP, PHONE])


@pytest.fixture(scope="module")
def context():
    return Context(BUILD, "05_2d_tiling")


def recorded(context, step):
    m, n, bk, _, tiles = STEPS[step]
    try:
        return context.recording(step, m, n, tiles * bk)
    except NotAvailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def site(tmp_path_factory, context):
    """A site of one page for each step, with its picture."""
    pytest.importorskip("material", reason="MkDocs Material is not installed: run ./setup.sh")
    docs = tmp_path_factory.mktemp("docs")
    for folder in ("javascripts", "stylesheets"):
        shutil.copytree(ROOT / "docs" / folder, docs / folder)
    pages = []
    for step in STEPS:
        recorded(context, step)
        pages.append(docs / "steps" / f"{step}.md")
        pages[-1].parent.mkdir(exist_ok=True)
        link = f"[The kernel](../../steps/{step}/kernel.cu)"
        pages[-1].write_text(
            f"# A picture\n\n{link}\n\n<!-- generate: tiling step={step} warp=1 lane=6 -->\n<!-- end -->\n"
        )
    command = [sys.executable, "-m", "tools", "pages", "--build", BUILD, *pages]
    made = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    result = build_site(docs.parent / "site", docs)
    assert result.returncode == 0, result.stdout + result.stderr
    return docs.parent / "site"


@pytest.fixture
def opened(browser, site):
    """A function that opens a step's page from its file. At the end nothing may have gone wrong."""

    def go(step, width=DESKTOP):
        browser.size(width)
        browser.get((site / "steps" / f"{step}.html").as_uri())
        return browser

    yield go
    assert browser.errors() == []
    asked = {urlsplit(address).scheme for address in browser.requests()}
    assert asked <= {"file", "data", "about"}


# ---- What a page shows -------------------------------------------------------------------------------------

SET = """
for (const [name, value] of Object.entries(arguments[0])) {
  const input = document.querySelector(`.play [name="${name}"]`);
  if (!input) continue;
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}
"""
CHOSEN = """
const value = (name) => Number((document.querySelector(`.play [name="${name}"]`) || { value: 0 }).value);
return { warp: value("warp"), lane: value("lane"), k: value("k"), tile: value("tile") };
"""
SAYS = "return document.querySelector('.play-says').innerText.replace(/\\s+/g, ' ')"
# Of each line that loads: what is said of each of its loads, and who wants which words.
LOADS = """
return [...document.querySelectorAll(".play-load")].map((box) => {
  const [back, next] = box.querySelectorAll("button"), loads = [];
  const can = (button) => button.getAttribute("aria-disabled") === "false";
  while (can(back)) back.click();
  for (;;) {
    loads.push({
      lane: box.querySelector(".play-lane").textContent,
      cells: [...box.querySelectorAll("[data-lane] title")].map((title) => title.textContent),
      verdict: box.querySelector(".play-verdict").textContent,
      code: box.querySelector(".play-code").textContent,
      line: Number(box.querySelector(".play-head").textContent.match(/line (\\d+)/)[1]),
    });
    if (!can(next)) return loads;
    next.click();
  }
});
"""


def numbers(text: str) -> list[int]:
    """0–3, 8 or 4..7"""
    found = []
    for part in text.split(", "):
        first, _, last = part.replace("..", "–").partition("–")
        found += range(int(first), int(last or first) + 1)
    return found


def indices(text: str) -> list[tuple[int, ...]]:
    """[3][40..41] -> (3, 40), (3, 41)"""
    found = [()]
    for part in re.findall(r"\[([\d.]+)\]", text):
        found = [(*index, n) for index in found for n in numbers(part)]
    return found


def shown_elements(text: str) -> set:
    """Of `Lane 5: A[4..5][1] in As[1][4..5], banks 8–9; ...`: matrix, row, column, place and bank or byte."""
    found = set()
    for run in text.partition(": ")[2].split("; "):
        element, place, where = re.fullmatch(r"(\S+) in (\S+), (?:banks? |byte )(.*)", run).groups()
        elements, places, banks = indices(element), indices(place), numbers(where)
        if len(banks) < len(elements):  # of bytes, the first
            banks = [banks[0] + 4 * n for n in range(len(elements))]
        found |= {(element[0], *e, p, b) for e, p, b in zip(elements, places, banks, strict=True)}
    return found


def place(context, step, line, address, recording):
    """The index of a byte of an array."""
    found, rest = (), address // 4
    sizes = {"A": (recording.m, recording.k), "B": (recording.k, recording.n)}
    if line.space == "shared":
        sizes = {line.array: extents(context.kernel(step).read_text(), line.array)}
    for extent in reversed(sizes[line.array]):
        rest, index = divmod(rest, extent)
        found = (index, *found)
    return found


def address_of(line, request, lane, n):
    """Of an element that a lane gets. ldmatrix: eight lanes say where the rows of a matrix begin."""
    if line.operation == "ldmatrix":
        return request.addresses[8 * n + lane // 4] + 4 * (lane % 4)
    return request.addresses[lane] + 4 * n


def recorded_elements(context, step, warp, lane, terms):
    """As shown_elements, of all loads that bring a warp something of these terms of K."""
    recording = recorded(context, step)
    space = "shared" if any(line.space == "shared" for line in recording.lines) else "global"
    found = set()
    for line, request in recording.of(("load", "ldmatrix"), space):
        for n, e in enumerate(request.elements[lane] if request.warp == warp else []):
            if e and e.matrix in "AB" and (e.col if e.matrix == "A" else e.row) in terms:
                address = address_of(line, request, lane, n)
                where = address // 4 % 32 if space == "shared" else address
                found.add((*e, place(context, step, line, address, recording), where))
    return found


CHOICES = [(0, 5, 0, 0), (1, 31, 1, 1), (3, 18, 2, 0), (2, 0, 3, 1)]  # warp, lane, k by terms at once, tile


@EACH
def test_it_shows_what_was_recorded(opened, context, step):
    browser = opened(step)
    _, _, bk, at_once, tiles = STEPS[step]
    for warp, lane, group, tile in [*CHOICES, (3, 7, 0, tiles - 1)]:
        k = group * at_once % bk
        browser.run(SET, {"tile": tile, "k": k, "warp": warp, "lane": lane})
        assert browser.run(CHOSEN) == {"warp": warp, "lane": lane, "k": k, "tile": tile}
        terms = range(tile * bk + k, tile * bk + k + at_once)
        loads = browser.run(LOADS)
        shown = set().union(*(shown_elements(load["lane"]) for line in loads for load in line))
        assert shown == recorded_elements(context, step, warp, lane, terms)
        # In words, what a reader who sees nothing of it hears.
        says = browser.run(SAYS)
        named = f"k = {terms[0]}" if at_once == 1 else f"k = {terms[0]}–{terms[-1]}"
        assert f"Warp {warp}, lane {lane}, {named}: " in says
        first = re.fullmatch(r"\S+ in (.*)", loads[0][0]["lane"].partition(": ")[2].split("; ")[0])[1]
        assert first in says


@EACH
def test_who_wants_which_word(opened, context, step):
    browser = opened(step)
    _, _, _, at_once, _ = STEPS[step]
    browser.run(SET, {"tile": 0, "k": at_once % STEPS[step][2], "warp": 1, "lane": 9})
    recording = recorded(context, step)
    source = context.kernel(step).read_text().splitlines()
    for [load, *_] in browser.run(LOADS):
        mine = shown_elements(load["lane"])
        cells = {}
        for run in (run for cell in load["cells"] for run in cell.split("; ")):
            words, _, lanes = run.partition(": ")
            for index in indices(words):
                cells.setdefault(index, set()).update(numbers(lanes.split(" ", 1)[1]))
        # The request that brings lane 9 just that.
        fits = []
        for line, request in recording.of(("load", "ldmatrix")):
            if request.warp == 1 and line.line == load["line"]:
                elements = {tuple(e) for e in request.elements[9] if e}
                if elements == {e[:3] for e in mine}:
                    fits.append((line, request))
        line, request = fits[0]
        expected = {}
        for lane, elements in enumerate(request.elements):
            for n in range(len(elements)):
                index = place(context, step, line, address_of(line, request, lane, n), recording)
                expected.setdefault(index, set()).add(lane)
        assert cells == expected
        assert load["code"].startswith(source[load["line"] - 1].split("//")[0].strip())


MARKS = """
return [...document.querySelectorAll(".play-load")].map((box) => ({
  red: box.querySelector(".play-verdict").matches(".conflict"),
  words: [...box.querySelectorAll("text.mark")].map((text) => text.textContent),
}));
"""


def test_conflicts_are_marked(opened):
    browser = opened("06_vectorization")
    verdicts = [line[0]["verdict"] for line in browser.run(LOADS)]
    assert verdicts == ["2 wavefronts: no bank conflict.", "8 wavefronts; without bank conflicts 4."]
    marks = browser.run(MARKS)
    assert marks[0] == {"red": False, "words": []}
    assert marks[1] == {"red": True, "words": ["2"] * 16}  # of each quarter of the lanes four groups of banks
    browser = opened("05_2d_tiling")
    assert [line[0]["verdict"] for line in browser.run(LOADS)] == ["1 wavefront: no bank conflict."] * 2
    browser = opened("25_ldmatrix")
    assert browser.run(LOADS)[0][0]["verdict"] == "4 wavefronts: no bank conflict."
    browser = opened("21_tensor_cores")
    verdicts = [line[0]["verdict"] for line in browser.run(LOADS)]
    assert verdicts[0] == "128 bytes wanted, 8 sectors = 256 bytes moved."


def test_it_begins_as_the_picture(opened):
    """The block asked for warp 1 and lane 6; the picture marks the second terms."""
    chosen = {"warp": 1, "lane": 6, "tile": 0}
    assert opened("08_warp_tiling").run(CHOSEN) == {**chosen, "k": 1}
    assert opened("25_ldmatrix").run(CHOSEN) == {**chosen, "k": 8}


# ---- Ways to choose ----------------------------------------------------------------------------------------


def at_element(browser, row, col, m=128, n=128):
    """Where an element of C is on the screen."""
    browser.run("document.querySelector('.play-matrices').scrollIntoView({ block: 'center' })")
    x, y, width, height = browser.run("""
        const empty = document.querySelectorAll(".play-matrices rect.empty")[2];
        const { x, y, width, height } = empty.getBoundingClientRect();
        return [x, y, width, height];
    """)
    return x + (col + 0.5) * width / n, y + (row + 0.5) * height / m


def mouse(browser, kind, x, y, **more):
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})


def test_pointing_and_clicking(opened, context):
    browser = opened("08_warp_tiling")
    owners = recorded(context, "08_warp_tiling").owners()
    before = browser.run(CHOSEN)
    for row, col in (0, 0), (70, 33), (127, 127), (31, 64):
        x, y = at_element(browser, row, col)
        warp, lane = owners[row, col]
        mouse(browser, "mouseMoved", x, y)
        assert {**browser.run(CHOSEN), "k": 0} == {"warp": warp, "lane": lane, "k": 0, "tile": 0}
        assert browser.run("return document.querySelector('.play-says').getAttribute('aria-live')") == "off"
        mouse(browser, "mouseMoved", x, 5)  # away again
        assert browser.run(CHOSEN) == before
    press = {"button": "left", "clickCount": 1}
    x, y = at_element(browser, 70, 33)
    mouse(browser, "mousePressed", x, y, **press)
    mouse(browser, "mouseReleased", x, y, **press)
    mouse(browser, "mouseMoved", x, 5)
    warp, lane = owners[70, 33]
    assert browser.run(CHOSEN) == {**before, "warp": warp, "lane": lane}
    assert browser.run("return document.querySelector('.play-says').getAttribute('aria-live')") == "polite"
    # A lane of the warp's enlarged tile, and one among the banks.
    browser.run("""
        const texts = [...document.querySelectorAll(".play-warp text")];
        const piece = texts.find((text) => text.textContent === "21");
        const { x, y, width, height } = piece.getBoundingClientRect();
        const at = { clientX: x + width / 2, clientY: y + height / 2, bubbles: true };
        piece.dispatchEvent(new MouseEvent("click", at));
    """)
    assert browser.run(CHOSEN) == {**before, "warp": warp, "lane": 21}
    browser.find_element("css selector", ".play-banks [data-lane='2']").click()
    assert browser.run(CHOSEN)["lane"] == 2


def test_touch(opened, context):
    browser = opened("08_warp_tiling", PHONE)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        owners = recorded(context, "08_warp_tiling").owners()
        for row, col in (40, 10), (100, 90):
            x, y = at_element(browser, row, col)
            points = [{"x": x, "y": y}]
            browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": points})
            browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
            warp, lane = owners[row, col]
            wanted = f"const c = (() => {{ {CHOSEN} }})(); return c.warp === {warp} && c.lane === {lane}"
            browser.wait(wanted, what=f"the owner of C[{row}][{col}]")
        # A finger that moves along a row goes from lane to lane, and to the next warp.
        (x, y), (to, _) = at_element(browser, 100, 4), at_element(browser, 100, 60)
        touch = [("touchStart", x), *(("touchMove", x + (to - x) * n / 8) for n in range(1, 9))]
        for kind, at in touch:
            browser.execute_cdp_cmd(
                "Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": at, "y": y}]}
            )
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        warp, lane = owners[100, 60]
        wanted = f"const c = (() => {{ {CHOSEN} }})(); return c.warp === {warp} && c.lane === {lane}"
        browser.wait(wanted, what="the lane at which the finger ended")
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_keys(opened, context):
    browser = opened("08_warp_tiling")
    owners = recorded(context, "08_warp_tiling").owners()
    picture = browser.find_element("css selector", ".play-matrices")
    browser.run(SET, {"warp": 0, "lane": 0, "k": 15, "tile": 0})

    def press(*keys):
        browser.run("document.querySelector('.play-matrices').focus()")
        ActionChains(browser).send_keys(*keys).perform()
        chosen = browser.run(CHOSEN)
        return chosen["warp"], chosen["lane"]

    assert picture.get_attribute("tabindex") == "0"
    assert press(Keys.ARROW_UP) == owners[0, 0]  # there is nothing above
    assert press(Keys.ARROW_RIGHT) == owners[0, 4]
    assert press(Keys.ARROW_DOWN) == owners[4, 4]
    assert press(*[Keys.ARROW_RIGHT] * 7) == owners[4, 32]  # the next warp
    assert press(Keys.ARROW_LEFT, Keys.ARROW_LEFT) == owners[4, 24]
    assert press(Keys.PAGE_UP) == owners[4, 24]
    assert (browser.run(CHOSEN)["tile"], browser.run(CHOSEN)["k"]) == (1, 0)
    press(Keys.PAGE_DOWN, Keys.PAGE_DOWN)
    assert (browser.run(CHOSEN)["tile"], browser.run(CHOSEN)["k"]) == (0, 14)


def test_sliders_and_numbers(opened):
    browser = opened("25_ldmatrix")
    browser.run("document.querySelector(\".play [name='lane']\").focus()")
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    assert browser.run(CHOSEN)["lane"] == 7
    browser.run("document.querySelector(\".play [name='k']\").focus()")
    ActionChains(browser).send_keys(Keys.ARROW_RIGHT).perform()
    assert browser.run(CHOSEN)["k"] == 16  # eight terms at once
    assert browser.run("return document.activeElement.getAttribute('aria-valuetext')") == "16, k = 16–23"
    browser.run("document.querySelector(\".play [name='tile']\").focus()")
    ActionChains(browser).send_keys(Keys.END).perform()
    assert browser.run("return document.activeElement.getAttribute('aria-valuetext')") == "2, in stage 2 of 3"
    number = browser.find_element("css selector", ".play [name='lane_number']")
    number.send_keys(Keys.CONTROL, "a")
    number.send_keys("29")
    assert browser.run(CHOSEN)["lane"] == 29
    number.send_keys("9", Keys.TAB)  # 299 is no lane
    assert browser.run(CHOSEN)["lane"] == 31
    assert number.get_attribute("value") == "31"
    number = browser.find_element("css selector", ".play [name='k_number']")
    number.send_keys(Keys.CONTROL, "a")
    number.send_keys("2")  # not yet a value
    assert (browser.run(CHOSEN)["k"], number.get_attribute("value")) == (16, "2")
    number.send_keys("4")
    assert browser.run(CHOSEN)["k"] == 24
    number.send_keys(Keys.ARROW_DOWN)
    assert (browser.run(CHOSEN)["k"], number.get_attribute("value")) == (16, "16")
    number.send_keys(Keys.CONTROL, "a")
    number.send_keys(Keys.BACKSPACE, Keys.TAB)
    assert (browser.run(CHOSEN)["k"], number.get_attribute("value")) == (16, "16")


REACHED = """
const e = document.activeElement;
if (!e.closest(".play")) return null;
return `${e.getAttribute("aria-label") || e.textContent.trim()}`;
"""


@WIDTHS
def test_tab_reaches_everything_and_all_has_a_name(opened, width):
    browser = opened("12_larger_tiles", width)
    browser.run("document.querySelector('.play-matrices').focus()")
    seen = [browser.run(REACHED)]
    for _ in range(40):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        reached = browser.run(REACHED)
        if reached is None:
            break
        seen.append(reached)
    assert seen[0].startswith("C: 128 × 256 elements. Arrow keys")
    names = [
        name
        for label in ("Warp", "Lane", "k in the tile", "Tile of K")
        for name in (label, f"{label}, as a number")
    ]
    assert seen[1:9] == names
    assert seen[9:12] == ["line 80", "Previous load of A", "Next load of A"]
    assert seen[12:] == ["line 81", "Previous load of B", "Next load of B"]
    unnamed = browser.run("""
        return [...document.querySelectorAll(".play :is(input, button, [role], section)")]
          .filter((e) => !e.getAttribute("aria-label") && e.getAttribute("role") !== "status")
          .map((e) => e.outerHTML.slice(0, 80));
    """)
    assert unnamed == []


def test_the_line_leads_to_the_source(opened):
    browser = opened("08_warp_tiling")
    browser.find_element("css selector", ".play-load a").click()
    browser.wait("return location.pathname.endsWith('/kernel.cu.html')", what="the source")
    assert "float4_at(&As[k]" in browser.run("return document.querySelector(':target').innerText")


# ---- On any screen -----------------------------------------------------------------------------------------

FITS = """
const box = document.querySelector(".play-box").getBoundingClientRect();
const out = [...document.querySelectorAll(".play *")].filter((e) => {
  const { right, width } = e.getBoundingClientRect();
  return width && right > box.right + 1;
});
const small = [...document.querySelectorAll(".play text")].filter((e) => {
  const svg = e.ownerSVGElement;
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return Number(e.getAttribute("font-size")) * scale < 10.5;
});
return {
  right: box.right, out: out.map((e) => e.outerHTML.slice(0, 80)), small: small.map((e) => e.textContent),
  columns: getComputedStyle(document.querySelector(".play")).gridTemplateColumns.split(" ").length,
  page: document.documentElement.scrollWidth,
};
"""


@WIDTHS
@EACH
def test_it_fits(opened, step, width):
    browser = opened(step, width)
    found = browser.run(FITS)
    assert found["out"] == found["small"] == []
    assert found["page"] <= width
    assert found["columns"] == (2 if width == DESKTOP else 1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_page(opened, browser, scheme):
    browser.system_colours(scheme)
    opened("08_warp_tiling")
    paper, here = browser.run("""
        const of = (selector, property) => getComputedStyle(document.querySelector(selector))[property];
        return [of(".play", "backgroundColor"), of(".play-matrices .here", "fill")];
    """)
    assert paper == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(23, 25, 31)")
    assert here == ("rgb(213, 94, 0)" if scheme == "light" else "rgb(255, 154, 77)")


def test_without_javascript_there_is_the_picture(opened, browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        opened("08_warp_tiling")
        shown = browser.run("""
            const image = document.querySelector(".figure img");
            return [image.naturalWidth, image.checkVisibility(), document.querySelector(".play") === null];
        """)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert shown == [660, True, True]


def test_pages_of_the_site_have_it(browser, built):
    """Where there is such a picture, there is what to play with."""
    site = built("docs")
    pages = {page: page.read_text().count("_tiling_warp_") for page in site.rglob("*.html")}
    assert any(pages.values())
    for page in sorted(page for page, count in pages.items() if count):
        browser.get(page.as_uri())
        assert browser.run("return document.querySelectorAll('.play').length") == pages[page], page
    assert browser.errors() == []
