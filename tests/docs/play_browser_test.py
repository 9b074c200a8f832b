"""The pictures to play with, in a real browser: what they show is what was recorded, whichever way a reader
chooses it. Skipped where there is no Chromium."""

import functools
import os
import re
from pathlib import Path

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
from browser import DESKTOP, PHONE
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from tools.claims.constants import extents
from tools.claims.context import Context
from tools.claims.objects import NotAvailable
from tools.pages import layouts
from tools.pages.blocks import Request

BUILD = Path(os.environ.get("BUILD", "build"))
# Elements one by one; bank conflicts; buffers in struct Tiles; from global memory; ldmatrix.
STEPS = ["05_2d_tiling", "06_vectorization", "12_larger_tiles", "21_tensor_cores", "25_ldmatrix"]
EACH = pytest.mark.parametrize("step", STEPS)


@pytest.fixture(scope="module")
def recorded():
    """A function: a step's block and the recording that its page plays with."""
    request = Request(Context(BUILD, "05_2d_tiling"), Path("page.md"), Path("figures"))

    def find(step):
        try:
            return layouts.recording_of(request, step)
        except NotAvailable as reason:
            pytest.skip(str(reason))

    return find


@pytest.fixture
def opened(browser, built):
    """A function that opens a step's page. At the end nothing may have gone wrong."""

    def go(step, width=DESKTOP):
        browser.size(width)
        browser.get((built("docs") / "steps" / f"{step}.html").as_uri())
        browser.run("for (const folded of document.querySelectorAll('details')) folded.open = true")
        return browser

    yield go
    assert browser.errors() == []


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
      red: box.querySelector(".play-verdict").matches(".conflict"),
      marked: [...box.querySelectorAll("text.mark")].map((text) => text.textContent),
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


def requests_of(recording):
    """Every request that loads operands: its line, itself, and of each lane the elements with their places in
    the array and their banks or bytes."""
    source = Context(BUILD, "").kernel(recording.step).read_text()
    space = "shared" if any(line.space == "shared" for line in recording.lines) else "global"
    sizes = {"A": [recording.m, recording.k], "B": [recording.k, recording.n]}
    declared = functools.cache(lambda array: extents(source, array))
    for line, request in recording.of(("load", "ldmatrix"), space):
        dims = sizes[line.array] if space == "global" else declared(line.array)
        lanes = [[] for _ in request.addresses]
        for lane, element, address in request.words(line):
            place, rest = (), address // 4
            for extent in reversed(dims):
                rest, index = divmod(rest, extent)
                place = (index, *place)
            lanes[lane].append((element, place, address // 4 % 32 if space == "shared" else address))
        yield line, request, lanes


@EACH
def test_it_shows_what_was_recorded(opened, recorded, step):
    of, recording = recorded(step)
    browser = opened(step)
    assert browser.run(CHOSEN) == {"warp": 0, "lane": 5, "k": of.terms % of.bk, "tile": 0}  # as the picture
    requests = list(requests_of(recording))
    for warp, lane, group, tile in (1, 31, 1, 1), (3, 18, 2, 0), (2, 0, 3, max(2, of.stages) - 1):
        k = group * of.terms % of.bk
        browser.run(SET, {"tile": tile, "k": k, "warp": warp, "lane": lane})
        assert browser.run(CHOSEN) == {"warp": warp, "lane": lane, "k": k, "tile": tile}
        terms = range(tile * of.bk + k, tile * of.bk + k + of.terms)
        expected, wanted = set(), []  # by this lane; by the warp, of each request: place -> lanes
        for line, request, lanes in requests:
            mine = {
                (*e, place, where)
                for e, place, where in lanes[lane]
                if e and e.matrix in "AB" and (e.col if e.matrix == "A" else e.row) in terms
            }
            if request.warp == warp and mine:
                expected |= mine
                words = {}
                for each, elements in enumerate(lanes):
                    for _, place, _ in elements:
                        words.setdefault(place, set()).add(each)
                wanted.append((line.line, words))
        loads = [load for line in browser.run(LOADS) for load in line]
        assert set().union(*(shown_elements(load["lane"]) for load in loads)) == expected
        for load in loads:
            cells = {}
            for run in (run for cell in load["cells"] for run in cell.split("; ")):
                words, _, lanes = run.partition(": ")
                for index in indices(words):
                    cells.setdefault(index, set()).update(numbers(lanes.split(" ", 1)[1]))
            assert (load["line"], cells) in wanted
        # In words, what a reader who sees nothing of it hears.
        named = f"k = {terms[0]}" if of.terms == 1 else f"k = {terms[0]}–{terms[-1]}"
        assert f"Warp {warp}, lane {lane}, {named}: " in browser.run(SAYS)


def test_conflicts_are_marked(opened):
    [[a, *_], [b, *_]] = opened("06_vectorization").run(LOADS)
    assert (a["verdict"], a["red"], a["marked"]) == ("2 wavefronts: no bank conflict.", False, [])
    assert (b["verdict"], b["red"]) == ("8 wavefronts; without bank conflicts 4.", True)
    assert b["marked"] == ["2"] * 16  # of each quarter of the lanes four groups of banks
    [[a, *_], _] = opened("21_tensor_cores").run(LOADS)
    assert a["verdict"] == "128 bytes wanted, 8 sectors = 256 bytes moved."


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


def test_mouse(opened, recorded):
    browser = opened("08_warp_tiling")
    owners = recorded("08_warp_tiling")[1].owners()
    live = "return document.querySelector('.play-says').getAttribute('aria-live')"

    def mouse(kind, x, y, **more):
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **more})

    before = browser.run(CHOSEN)
    for row, col in (0, 0), (127, 127), (70, 33):
        warp, lane = owners[row, col]
        x, y = at_element(browser, row, col)
        mouse("mouseMoved", x, y)
        assert browser.run(CHOSEN) == {**before, "warp": warp, "lane": lane}
        assert browser.run(live) == "off"
        mouse("mouseMoved", x, 5)  # away again
        assert browser.run(CHOSEN) == before
    for kind in "mousePressed", "mouseReleased":
        mouse(kind, x, y, button="left", clickCount=1)
    mouse("mouseMoved", x, 5)
    assert browser.run(CHOSEN) == {**before, "warp": warp, "lane": lane}
    assert browser.run(live) == "polite"
    browser.click(".play-banks [data-lane='2']")
    assert browser.run(CHOSEN)["lane"] == 2


def test_touch(opened, recorded):
    """A finger that moves along a row goes from lane to lane, and to the next warp."""
    browser = opened("08_warp_tiling", PHONE)
    owners = recorded("08_warp_tiling")[1].owners()

    def touch(kind, *points):
        points = [{"x": x, "y": y} for x, y in points]
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        for begin, end in ((40, 10), (40, 10)), ((100, 4), (100, 60)):
            (x, y), (to, _) = at_element(browser, *begin), at_element(browser, *end)
            touch("touchStart", (x, y))
            for n in range(1, 9):
                touch("touchMove", (x + (to - x) * n / 8, y))
            touch("touchEnd")
            warp, lane = owners[end]
            wanted = f"const c = (() => {{ {CHOSEN} }})(); return c.warp === {warp} && c.lane === {lane}"
            browser.wait(wanted, what=f"the owner of C[{end[0]}][{end[1]}]")
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_keys(opened, recorded):
    browser = opened("08_warp_tiling")
    owners = recorded("08_warp_tiling")[1].owners()
    browser.run(SET, {"warp": 0, "lane": 0, "k": 15, "tile": 0})

    def press(*keys):
        browser.run("document.querySelector('.play-matrices').focus()")
        ActionChains(browser).send_keys(*keys).perform()
        chosen = browser.run(CHOSEN)
        return chosen["warp"], chosen["lane"]

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

    def slide(name, key):
        browser.run(f"document.querySelector(\".play [name='{name}']\").focus()")
        ActionChains(browser).send_keys(key).perform()
        return browser.run("return document.activeElement.getAttribute('aria-valuetext')")

    def enter(name, *keys):
        number = browser.find_element("css selector", f".play [name='{name}_number']")
        number.send_keys(Keys.CONTROL, "a")
        number.send_keys(*keys)
        return browser.run(CHOSEN)[name], number.get_attribute("value")

    slide("lane", Keys.ARROW_RIGHT)
    assert browser.run(CHOSEN)["lane"] == 6
    assert slide("k", Keys.ARROW_RIGHT) == "16, k = 16–23"  # eight terms at once
    assert slide("tile", Keys.END) == "2, in stage 2 of 3"
    assert enter("lane", "29")[0] == 29
    assert enter("lane", "299", Keys.TAB) == (31, "31")  # there is no such lane
    assert enter("k", "2") == (16, "2")  # not yet a value
    assert enter("k", "24")[0] == 24
    assert enter("k", "24", Keys.ARROW_DOWN) == (16, "16")
    assert enter("k", Keys.BACKSPACE, Keys.TAB) == (16, "16")


REACHED = """
const e = document.activeElement;
if (!e.closest(".play")) return null;
return `${e.getAttribute("aria-label") || e.textContent.trim()}`;
"""


def test_tab_reaches_everything_and_all_has_a_name(opened):
    browser = opened("12_larger_tiles")
    lines = [f"line {line[0]['line']}" for line in browser.run(LOADS)]
    browser.run("document.querySelector('.play-matrices').focus()")
    seen = []
    for _ in range(60):
        reached = browser.run(REACHED)
        seen += [reached] if reached else []
        ActionChains(browser).send_keys(Keys.TAB).perform()
    assert seen[0].startswith("C: 128 × 256 elements. Arrow keys")
    controls = ("Warp", "Lane", "k in the tile", "Tile of K")
    assert seen[1:] == [
        *(name for control in controls for name in (control, f"{control}, as a number")),
        *(
            name
            for line, m in zip(lines, "AB", strict=True)
            for name in (line, f"Previous load of {m}", f"Next load of {m}")
        ),
    ]
    unnamed = browser.run("""
        return [...document.querySelectorAll(".play :is(input, button, [role], section)")]
          .filter((e) => !e.getAttribute("aria-label") && e.getAttribute("role") !== "status")
          .map((e) => e.outerHTML.slice(0, 80));
    """)
    assert unnamed == []


def test_the_line_leads_to_the_source(opened):
    browser = opened("08_warp_tiling")
    browser.click(".play-load a")
    browser.wait("return location.pathname.endsWith('/kernel.cu.html')", what="the source")
    assert "float4_at(&As[k]" in browser.run("return document.querySelector(':target').innerText")


# ---- On any screen -----------------------------------------------------------------------------------------

FITS = """
const out = [...document.querySelectorAll(".play *")].filter((e) => {
  const { right, width } = e.getBoundingClientRect();
  return width && right > e.closest(".play-box").getBoundingClientRect().right + 1;
});
const small = [...document.querySelectorAll(".play text")].filter((e) => {
  const svg = e.ownerSVGElement;
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return Number(e.getAttribute("font-size")) * scale < 10.5;
});
return {
  out: out.map((e) => e.outerHTML.slice(0, 80)), small: small.map((e) => e.textContent),
  columns: [...document.querySelectorAll(".play")].map((play) => getComputedStyle(play).gridTemplateColumns)
    .map((columns) => columns.split(" ").length),
};
"""


@EACH
def test_it_fits(opened, step):
    browser = opened(step)
    for width in DESKTOP, PHONE:
        browser.size(width)
        # In a folded part, which is narrower, a desktop shows one column, too. On top of a page stands the
        # block, and below it its loads.
        columns = [1] if step > "20" else [1, 3] if width == DESKTOP else [1, 1]
        assert browser.run(FITS) == {"out": [], "small": [], "columns": columns}, width


def test_colours_follow_the_page(opened, browser):
    for scheme, expected in (
        ("light", ["rgb(255, 255, 255)", "rgb(213, 94, 0)"]),
        ("dark", ["rgb(23, 25, 31)", "rgb(255, 154, 77)"]),
    ):
        browser.system_colours(scheme)
        assert expected == opened("08_warp_tiling").run("""
            const of = (selector, property) => getComputedStyle(document.querySelector(selector))[property];
            return [of(".play", "backgroundColor"), of(".play-matrices .here", "fill")];
        """)


def test_without_javascript_there_is_the_picture(opened, browser):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        shown = opened("08_warp_tiling").run("""
            const image = document.querySelector("[data-play] img");
            return [image.naturalWidth, image.checkVisibility(), document.querySelector(".play") === null];
        """)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert shown == [660, True, True]
