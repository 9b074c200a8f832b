"""The site in a real browser, as a desktop and a phone show it. Skipped where there is no Chromium."""

import base64
import math
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
from browser import DESKTOP, PHONE, Browser
from conftest import ROOT

LEGIBLE_PX = 11  # text in figures


# ---- What must hold of every page --------------------------------------------------------------------------

# Boxes that scroll hold what is wider than the screen; what is not in one must fit.
STATE = """
const scrolls = (element) => {
  for (let box = element; box && box !== document.body; box = box.parentElement) {
    if (["auto", "scroll", "hidden"].includes(getComputedStyle(box).overflowX)) return true;
  }
  return false;
};
const main = document.querySelector("article") || document.body;
const width = document.documentElement.clientWidth;
return {
  heading: (main.querySelector("h1") || { innerText: "" }).innerText.trim(),
  contentWidth: Math.max(document.documentElement.scrollWidth, document.body.scrollWidth),
  tooWide: [...main.querySelectorAll("*")]
    .filter((e) => e.getBoundingClientRect().right > width + 1)
    .filter((e) => e.checkVisibility() && !scrolls(e.parentElement))
    .map((e) => `${e.tagName.toLowerCase()}: ${e.textContent.trim().slice(0, 40)}`),
  players: document.querySelectorAll(".play-matrices, .play-pieces").length,
  images: [...main.querySelectorAll("img")].map((image) => {
    const box = image.closest(".figure") || image;
    const { left, right } = box.getBoundingClientRect();
    const { width, height } = image.getBoundingClientRect();
    const visible = image.checkVisibility();
    return {
      source: image.src, alt: image.alt, natural: image.naturalWidth, shown: width, height, left, right,
      hidden: !visible && !image.closest("details:not([open]), [hidden]"), folded: !visible,
    };
  }),
};
"""


def look(browser: Browser, url: str) -> list[str]:
    """Loads a page and returns what is wrong with it, a line each."""
    browser.get(url)
    state = browser.run(STATE)
    found = [f"console: {message}" for message in browser.errors()]
    for address in browser.requests():
        parts = urlsplit(address)
        if parts.scheme not in ("file", "data", "about", "blob") and parts.hostname != "127.0.0.1":
            found.append(f"asks another machine: {address}")
    html = Path(unquote(urlsplit(url).path)).read_text()
    if state["players"] != html.count(" data-play="):
        found.append("a picture of a tiling without what plays with it")
    found += [
        f"Markdown in a summary: {title}" for title in re.findall("<summary>([^<]*`.*)</summary>", html)
    ]
    if not state["heading"]:
        found.append("no heading")
    return found + layout_faults(state, browser.width)


def layout_faults(state: dict, screen: int) -> list[str]:
    """What is wrong with how a page is laid out on a screen of this width."""
    found = []
    if state["contentWidth"] > screen:
        found.append(f"the page is {state['contentWidth']} px wide: {'; '.join(state['tooWide'][:3])}")
    elif state["tooWide"]:
        found.append(f"reaches beyond the screen: {'; '.join(state['tooWide'][:3])}")
    for image in state["images"]:
        name = image["source"].rpartition("/")[2]
        found += [f"{name}: {fault}" for fault in image_faults(image, screen)]
    return found


def image_faults(image: dict, width: int) -> list[str]:
    faults = []
    if not image["alt"].strip():
        faults.append("no text in its place (alt)")
    if image["natural"] == 0:
        return [*faults, "not loaded"]
    if image["hidden"]:
        return [*faults, "not visible"]
    if image["folded"]:
        return faults
    if image["shown"] < min(image["natural"], 300) - 1 or image["height"] < 20:
        faults.append(f"only {image['shown']:.0f} x {image['height']:.0f} px large")
    if image["left"] < 0 or image["right"] > width + 1:
        faults.append(f"its box lies at {image['left']:.0f} to {image['right']:.0f} px")
    if image["source"].endswith(".svg"):
        text = smallest_text(Path(unquote(urlsplit(image["source"]).path)))
        shown = text * image["shown"] / image["natural"]
        if shown < LEGIBLE_PX - 0.05:
            faults.append(f"text of {shown:.1f} px")
    return faults


# Where the pictures of the page's first layer lie.
FIRST_PICTURES = """
const seen = (element) => element.checkVisibility() && !element.closest("details, header");
const pictures = [...document.querySelectorAll(".figure img, .play-matrices")].filter(seen);
const boxes = pictures.map((picture) => picture.getBoundingClientRect());
return boxes.map(({ left, right, top, bottom, width }) => ({
  left, right, top: top + scrollY, bottom: bottom + scrollY, width, wide: innerWidth, high: innerHeight,
}));
"""


def out_of_sight(browser: Browser) -> list[str]:
    """The first picture of a step's page must be whole on the first screen; of two that are compared, on a
    desktop both."""
    pair = browser.run("return document.querySelector('.opening.pair') !== null")
    pictures = browser.run(FIRST_PICTURES)[: 2 if pair and browser.width == DESKTOP else 1]
    whole = [p for p in pictures if 0 <= p["left"] < p["right"] <= p["wide"] and p["bottom"] <= p["high"]]
    return [] if pictures and whole == pictures else [f"not whole on the first screen: {pictures}"]


def smallest_text(svg: Path) -> float:
    """The font size in pixels of an SVG's smallest text at its natural size; inf without text."""
    drawing = svg.read_text()
    width, view = (
        float(re.search(part, drawing)[1]) for part in (r' width="([\d.]+)', r'viewBox="0 0 ([\d.]+)')
    )
    sizes = re.findall(r'font-size="([\d.]+)"', drawing)
    return min(map(float, sizes), default=math.inf) * width / view


# To load a page takes longest: it is loaded on a desktop and then laid out for a phone. The pages of the
# sample are loaded on a phone, too.
@pytest.mark.parametrize(
    ("name", "widths"), [("docs", (DESKTOP, PHONE)), ("sample", (DESKTOP, PHONE)), ("sample", (PHONE,))]
)
def test_pages_look_right(layouts, built, name, widths):
    site = built(name)
    sources = sorted((site / "source").rglob("*.html"))
    pages = [page for page in sorted(site.rglob("*.html")) if page not in sources and page.name != "404.html"]
    pages += sources[:2]  # all are made alike
    found = {}
    for page in pages:
        for width in widths:
            layouts.size(width)
            loads = width == widths[0]
            faults = look(layouts, page.as_uri()) if loads else layout_faults(layouts.run(STATE), width)
            if name == "docs" and page.parent.name == "steps":
                faults += out_of_sight(layouts)
            found[f"{page.relative_to(site)} at {width} px"] = faults
    assert {page: faults for page, faults in found.items() if faults} == {}


PLANTED = [
    ("<h1></h1>", "no heading"),
    ("<h1>a</h1><pre>" + "x" * 400 + "</pre>", "the page is "),
    ("<h1>a</h1><script>no_such_function()</script>", "console: "),
    (
        "<h1>a</h1><script>fetch('https://example.org/x').catch(() => 0)</script>",
        "asks another machine: https://exa",
    ),
    ("<h1>a</h1><img src='gone.svg' alt='a'>", "gone.svg: not loaded"),
    ("<h1>a</h1><img src='good.svg'>", "good.svg: no text in its place (alt)"),
    ("<h1>a</h1><img src='good.svg' alt='a' style='display: none'>", "good.svg: not visible"),
    ("<h1>a</h1><img src='good.svg' alt='a' style='max-width: 100%'>", "good.svg: text of 5."),
    ("<h1>a</h1><img src='good.svg' alt='a' style='margin-left: -99px'>", "good.svg: its box lies at -"),
    ("<h1>a</h1><details><summary>`As`</summary></details>", "Markdown in a summary: `As`"),
    ("<h1>a</h1><div style='overflow-x: auto'><pre>" + "x" * 400 + "</pre></div>", None),
]


def test_faults_are_seen(layouts, tmp_path):
    (tmp_path / "good.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="100" viewBox="0 0 800 100">'
        '<rect width="800" height="100" fill="red"/><text x="9" y="50" font-size="12">twelve</text></svg>'
    )
    page = '<!doctype html><meta name="viewport" content="width=device-width,initial-scale=1">'
    layouts.size(PHONE)
    for html, expected in PLANTED:
        (tmp_path / "page.html").write_text(f"{page}<body style='margin: 8px'>{html}</body>")
        found = look(layouts, (tmp_path / "page.html").as_uri())
        if expected is None:
            assert found == []
        else:
            assert any(fault.startswith(expected) for fault in found), (html, found)


# ---- What a reader does ------------------------------------------------------------------------------------

RESULTS = """
return [...document.querySelectorAll(".md-search-result__item > a")].map((link) => link.href)
"""


def test_search_works_from_a_file(browser, built):
    """As javascripts/iframe-worker.js has it; browsers allow no Worker there."""
    browser.get((built("docs") / "index.html").as_uri())
    browser.type(".md-search__input", "claims.toml")
    results = browser.wait(RESULTS, what="the search for claims.toml")
    assert any("index.html" in link for link in results)
    assert browser.errors() == []


def test_search_leads_to_an_explanation(browser, built):
    browser.get((built("docs") / "index.html").as_uri())
    browser.type(".md-search__input", "LDS.128")
    found = """
        const first = document.querySelector(".md-search-result__item");
        return first && [...first.querySelectorAll("a")].map((link) => [link.href, link.innerText]);
    """
    results = browser.wait(found, what="the search for LDS.128")
    assert any("#lds128" in link and text.startswith("LDS.128") for link, text in results), results


BRIGHTNESS = """
const colour = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number);
return colour.reduce((a, b) => a + b) / 3 / 255;
"""


def corner(browser, name):
    """The colour of a figure's corner on the screen, averaged over red, green and blue: 0 to 255."""
    x, y = browser.run(
        """
        const { x, y } = document.querySelector(arguments[0]).getBoundingClientRect();
        return [Math.round(x), Math.round(scrollY + y)];
        """,
        f"img[src$='{name}']",
    )
    return browser.execute_async_script(
        """
        const [png, x, y, done] = arguments;
        const image = new Image();
        image.onload = () => {
          const context = new OffscreenCanvas(1, 1).getContext("2d");
          context.drawImage(image, -x, -y);
          const [red, green, blue] = context.getImageData(0, 0, 1, 1).data;
          done((red + green + blue) / 3);
        };
        image.src = "data:image/png;base64," + png;
        """,
        base64.b64encode(browser.png()).decode(),
        x + 3,
        y + 3,
    )


@pytest.mark.parametrize("system", ["light", "dark"])
def test_figures_in_light_and_dark(browser, built, system):
    browser.system_colours(system)
    browser.get((built("sample") / "steps" / "01_naive.html").as_uri())
    for page in ("light", "dark"):  # whatever the system prefers
        browser.click("form[data-md-component=palette] > label:not([hidden])")
        assert (browser.run(BRIGHTNESS) > 0.5) == (page == "light")
        if page == "light":
            assert corner(browser, "banks.svg") == corner(browser, "sectors.svg") == 255
        else:
            assert corner(browser, "banks.svg") < 50  # its own dark colours
            assert 200 < corner(browser, "sectors.svg") < 250  # white, dimmed


PLACES = """
return [...document.querySelectorAll(".beside > div")].map((column) => {
  const { left, right, top, bottom } = column.getBoundingClientRect();
  return { left, right, top, bottom };
});
"""


def test_code_stands_beside_prose(browser, built):
    browser.get((built("sample") / "steps" / "01_naive.html").as_uri())
    prose, code = browser.run(PLACES)
    assert code["left"] > prose["right"]
    assert code["top"] < prose["bottom"]
    # While the prose is read, the code stays in view.
    browser.run("document.querySelector('.beside').firstElementChild.style.minHeight = '3000px'")
    browser.run("document.querySelector('.beside').scrollIntoView(); scrollBy(0, 1500)")
    prose, code = browser.run(PLACES)
    assert prose["top"] < -1000
    assert 0 <= code["top"] < code["bottom"] <= 900
    browser.size(PHONE)
    prose, code = browser.run(PLACES)
    assert code["top"] >= prose["bottom"]
    assert code["left"] == prose["left"]


def test_wide_parts_scroll_on_a_phone(browser, built):
    browser.size(PHONE)
    browser.get((built("sample") / "steps" / "01_naive.html").as_uri())
    for selector in (".md-typeset__scrollwrap", ".figure", ".language-diff code"):
        wide, room, moved = browser.run(
            """
            const box = document.querySelector(arguments[0]);
            box.scrollLeft = 99;
            return [box.scrollWidth, box.clientWidth, box.scrollLeft];
            """,
            selector,
        )
        assert wide > room + 100 and room <= PHONE and moved == 99, selector


def test_the_first_page_on_a_phone(browser, built):
    """The chart has all of its steps in sight; a swipe over the picture to play with moves the page."""
    browser.size(PHONE)
    browser.get((built("docs") / "index.html").as_uri())
    chart, room = browser.run("""
        const figure = document.querySelector(".landing .figure");
        return [figure.scrollWidth, figure.clientWidth];
    """)
    assert chart == room
    browser.run("document.querySelector('.play-matrices').scrollIntoView({ block: 'center' })")
    before, x, y = browser.run("""
        const { x, y, width, height } = document.querySelector(".play-matrices").getBoundingClientRect();
        return [scrollY, x + width / 2, y + height / 2];
    """)
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True})
    try:
        for n in range(11):
            kind = "touchMove" if n else "touchStart"
            point = {"x": x, "y": y - 30 * n}
            browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
        browser.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        browser.wait(f"return scrollY > {before + 200}", what="the swipe")
    finally:
        browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_a_table_that_scrolls_keeps_its_first_column_in_sight(browser, built):
    browser.size(PHONE)
    browser.get((built("sample") / "steps" / "01_naive.html").as_uri())
    left, covers, hit, hint = browser.run("""
        const box = document.querySelector(".md-typeset__scrollwrap");
        box.scrollIntoView({ block: "center" });
        box.scrollLeft = 99;
        const cell = box.querySelector("tbody td"), { left, top, height } = cell.getBoundingClientRect();
        const hit = document.elementFromPoint(left + 5, top + height / 2);
        const colour = getComputedStyle(cell).backgroundColor;
        return [left, colour, cell.contains(hit), getComputedStyle(box).backgroundImage];
    """)
    assert 0 <= left < 20 and hit
    assert not covers.startswith("rgba")  # what slides under it does not shine through
    assert "linear-gradient" in hint


def test_names_in_tables_are_not_broken(browser, built):
    browser.size(PHONE)
    browser.get((built("sample") / "steps" / "01_naive.html").as_uri())
    heights = browser.run("""
        const codes = [...document.querySelectorAll("td code")];
        const names = codes.filter((code) => /^\\w+$/.test(code.innerText));
        return Object.fromEntries(names.map((code) => [code.innerText, code.offsetHeight]));
    """)
    assert {"06_vectorization", "07_bank_conflicts", "l1tex__t_sectors"} <= heights.keys()
    assert max(heights.values()) < 25  # one line


def test_a_link_to_a_line_shows_the_line(browser, built):
    browser.get((built("sample") / "steps" / "01_naive.html").as_uri())
    browser.click("article a[href$='#L29']")
    browser.wait("return location.pathname.endsWith('/kernel.cu.html')", what="the source")
    text, top, marked = browser.run("""
        const line = document.querySelector(":target");
        return [line.innerText, line.getBoundingClientRect().top, getComputedStyle(line).backgroundColor];
    """)
    assert text.rstrip("\n") == (ROOT / "steps/01_naive/kernel.cu").read_text().splitlines()[28]
    assert 0 < top < 900
    assert marked != "rgba(0, 0, 0, 0)"
