"""The site in a real browser, as a desktop and a phone show it. Skipped where there is no Chromium."""

import base64
import threading
import xml.etree.ElementTree as ElementTree
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
from browser import DESKTOP, PHONE, Browser, page_paths

LEGIBLE_PX = 11  # text in figures
WIDTHS = pytest.mark.parametrize("width", [DESKTOP, PHONE])


@pytest.fixture
def served():
    """A function that serves a directory over HTTP and returns its address."""
    servers = []

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    def serve(directory):
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=directory))
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


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
  images: [...main.querySelectorAll("img")].map((image) => {
    const box = image.closest(".figure") || image;
    const { left, right } = box.getBoundingClientRect();
    const { width, height } = image.getBoundingClientRect();
    const visible = image.checkVisibility();
    return {
      source: image.src, alt: image.alt, natural: image.naturalWidth, shown: width, height, left, right,
      hidden: !visible && !image.closest("details:not([open])"), folded: !visible,
    };
  }),
};
"""


def look(browser: Browser, url: str) -> list[str]:
    """What is wrong with a page, a line each."""
    browser.get(url)
    state = browser.run(STATE)
    found = [f"console: {message}" for message in browser.errors()]
    for address in browser.requests():
        parts = urlsplit(address)
        if parts.scheme not in ("file", "data", "about", "blob") and parts.hostname != "127.0.0.1":
            found.append(f"asks another machine: {address}")
    if not state["heading"]:
        found.append("no heading")
    if state["contentWidth"] > browser.width:
        found.append(f"the page is {state['contentWidth']} px wide: {'; '.join(state['tooWide'][:3])}")
    elif state["tooWide"]:
        found.append(f"reaches beyond the screen: {'; '.join(state['tooWide'][:3])}")
    for image in state["images"]:
        found += [
            f"{image['source'].rpartition('/')[2]}: {fault}" for fault in image_faults(image, browser.width)
        ]
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


def smallest_text(svg: Path) -> float:
    """The font size in pixels of the smallest text of an SVG at its natural size; inf without text."""
    root = ElementTree.parse(svg).getroot()
    pixels = {"px": 1.0, "pt": 4 / 3}

    def number(text):
        unit = pixels.get(text[-2:])
        return float(text[:-2]) * unit if unit else float(text)

    view = root.get("viewBox", "").split()
    scale = number(root.get("width")) / float(view[2]) if view and root.get("width") else 1.0

    def sizes(element, size):
        declared = [("font-size", element.get("font-size"))]
        declared += [part.split(":", 1) for part in (element.get("style") or "").split(";") if ":" in part]
        for name, value in declared:
            if value and name.strip() == "font-size":
                size = number(value.strip())
            elif value and name.strip() == "font":
                size = number(next(word for word in value.split() if word.endswith(("px", "pt"))))
        if element.tag.endswith(("}text", "}tspan")) and (element.text or "").strip():
            yield size
        for child in element:
            yield from sizes(child, size)

    return min((size * scale for size in sizes(root, 16.0)), default=float("inf"))


@WIDTHS
@pytest.mark.parametrize("name", ["docs", "sample"])
def test_pages_look_right(browser, built, name, width):
    site = built(name)
    browser.size(width)
    found = {str(page): look(browser, (site / page).as_uri()) for page in page_paths(site)}
    sources = sorted((site / "source").rglob("*.html"))
    found |= {str(page.relative_to(site)): look(browser, page.as_uri()) for page in sources}
    assert {page: faults for page, faults in found.items() if faults} == {}
    assert len(found) > len(sources) > 0


PLANTED = [
    ("<h1></h1>", "no heading"),
    ("<h1>a</h1><div style='width: 2000px'>wide</div>", "the page is 20"),
    ("<h1>a</h1><pre>" + "x" * 400 + "</pre>", "the page is "),
    ("<h1>a</h1><script>console.error('planted')</script>", "console: "),
    ("<h1>a</h1><script>no_such_function()</script>", "console: "),
    (
        "<h1>a</h1><script>fetch('https://example.org/x').catch(() => 0)</script>",
        "asks another machine: https://exa",
    ),
    ("<h1>a</h1><img src='gone.svg' alt='a'>", "gone.svg: not loaded"),
    ("<h1>a</h1><img src='good.svg'>", "good.svg: no text in its place (alt)"),
    ("<h1>a</h1><img src='good.svg' alt='a' style='display: none'>", "good.svg: not visible"),
    ("<h1>a</h1><img src='good.svg' alt='a' style='width: 100px'>", "good.svg: only 100 x"),
    ("<h1>a</h1><img src='good.svg' alt='a' style='max-width: 100%'>", "good.svg: text of 5."),
    ("<h1>a</h1><img src='good.svg' alt='a' style='margin-left: -99px'>", "good.svg: its box lies at -"),
]


@pytest.mark.parametrize(("html", "expected"), PLANTED)
def test_faults_are_seen(browser, tmp_path, html, expected):
    (tmp_path / "good.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="100">'
        '<rect width="800" height="100" fill="red"/>'
        '<g style="font: bold 12px sans-serif"><text x="9" y="50">twelve</text></g></svg>'
    )
    page = '<!doctype html><meta name="viewport" content="width=device-width,initial-scale=1">'
    (tmp_path / "page.html").write_text(f"{page}<body style='margin: 8px'>{html}</body>")
    browser.size(PHONE)
    found = look(browser, (tmp_path / "page.html").as_uri())
    assert any(fault.startswith(expected) for fault in found), found


def test_a_page_without_faults_has_none(browser, tmp_path):
    page = '<!doctype html><meta name="viewport" content="width=device-width,initial-scale=1"><h1>a</h1>'
    (tmp_path / "page.html").write_text(
        page + "<div style='overflow-x: auto'><pre>" + "x" * 400 + "</pre></div>"
    )
    browser.size(PHONE)
    assert look(browser, (tmp_path / "page.html").as_uri()) == []


# ---- What a reader does ------------------------------------------------------------------------------------

RESULTS = """
return [...document.querySelectorAll(".md-search-result__item > a")].map((link) => link.href)
"""


@WIDTHS
@pytest.mark.parametrize("way", ["file", "http"])
def test_search_finds_a_word_and_opens_its_page(browser, built, served, way, width):
    site = built("sample")
    base = site.as_uri() if way == "file" else served(site)
    browser.size(width)
    browser.get(f"{base}/index.html")
    if width == PHONE:  # there the field is behind a button
        browser.click("label.md-header__button[for=__search]")
    browser.type(".md-search__input", "quokka")
    results = browser.wait(RESULTS, what="the search for quokka")
    assert [urlsplit(link).path.rpartition("/")[2] for link in results] == ["01_naive.html"]
    browser.click(".md-search-result__item > a")
    browser.wait("return location.pathname.endsWith('/steps/01_naive.html')", what="opening the result")
    assert browser.run("return document.querySelector('mark').innerText").lower() == "quokka"
    assert browser.errors() == []


def test_search_finds_instructions(browser, built):
    browser.get((built("sample") / "index.html").as_uri())
    browser.type(".md-search__input", "LDG.E.128.CONSTANT")
    results = browser.wait(RESULTS, what="the search for an instruction")
    assert any("reading_sass.html" in link for link in results)


def test_search_finds_nothing_where_nothing_is(browser, built):
    browser.get((built("sample") / "index.html").as_uri())
    browser.type(".md-search__input", "wombat")
    words = "return document.querySelector('.md-search-result__meta').innerText"
    browser.wait(f"{words.replace('return ', 'return /no matching/i.test(')})", what="the search for wombat")
    assert browser.run(RESULTS) == []


def test_search_finds_the_real_pages(browser, built):
    browser.get((built("docs") / "index.html").as_uri())
    browser.type(".md-search__input", "claims.toml")
    results = browser.wait(RESULTS, what="the search for claims.toml")
    assert any("index.html" in link for link in results)


BRIGHTNESS = """
const colour = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number);
return colour.reduce((a, b) => a + b) / 3 / 255;
"""


def test_dark_mode(browser, built):
    site = built("sample")
    page = (site / "index.html").as_uri()
    browser.get(page)
    assert browser.run(BRIGHTNESS) > 0.9
    browser.system_colours("dark")
    browser.wait(BRIGHTNESS.replace("return colour", "return 0.2 > colour"), what="following the system")
    # The button goes through: as the system, light, dark.
    seen = []
    for _ in range(3):
        browser.click("form[data-md-component=palette] > label:not([hidden])")
        seen.append(browser.run(BRIGHTNESS) > 0.5)
    assert seen == [True, False, False]
    browser.click("form[data-md-component=palette] > label:not([hidden])")
    browser.get((site / "steps" / "01_naive.html").as_uri())  # the choice holds on other pages
    assert browser.run(BRIGHTNESS) > 0.9
    assert browser.errors() == []


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


def test_answers_unfold(browser, built):
    browser.get((built("sample") / "steps" / "01_naive.html").as_uri())
    shown = "return document.querySelector('details li').checkVisibility()"
    assert not browser.run(shown)
    browser.click("details summary")
    assert browser.run(shown)
    assert browser.run("return document.querySelector('details em').innerText") == "different rows"
    assert browser.run("return document.querySelectorAll('details li').length") == 2


def test_wide_parts_scroll_on_a_phone(browser, built):
    browser.size(PHONE)
    browser.get((built("sample") / "steps" / "01_naive.html").as_uri())
    for selector in (".md-typeset__scrollwrap", ".figure", ".language-diff code"):
        wide, room = browser.run(
            "const box = document.querySelector(arguments[0]); return [box.scrollWidth, box.clientWidth]",
            selector,
        )
        assert wide > room + 100, selector
        assert room <= PHONE, selector
        moved = browser.run(
            "const box = document.querySelector(arguments[0]); box.scrollLeft = 99; return box.scrollLeft",
            selector,
        )
        assert moved == 99, selector


@WIDTHS
def test_names_in_tables_are_not_broken(browser, built, width):
    browser.size(width)
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
    source = Path(__file__).resolve().parents[2] / "steps" / "01_naive" / "kernel.cu"
    assert text.rstrip("\n") == source.read_text().splitlines()[28]
    assert 0 < top < 900
    assert marked != "rgba(0, 0, 0, 0)"


def test_evidence_opens(browser, built, served):
    browser.get(f"{served(built('sample'))}/steps/01_naive.html")
    browser.click("article a[href$='counters.json']")
    browser.wait("return document.body.innerText.includes('01_naive')", what="the evidence")
