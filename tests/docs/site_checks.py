"""What must hold of every page of the built site, read as files."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes that make a browser fetch something when the page is loaded.
FETCHED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("object", "data")}
# Markdown that was not taken for such: a list without an empty line before it, a table, emphasis, a fence.
UNRENDERED = re.compile(
    r"(?<=\n)(?:[-*+] |1\. )|^(?:\||#{1,6} |```)|\]\(|\*\*\w|<!--|-->|:---|---:", re.MULTILINE
)


class Html(HTMLParser):
    """A page: its ids, links, what it fetches, and the text of its paragraphs, without code."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.paragraphs: list[str] = []
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        values = {name: value or "" for name, value in attributes}
        if "id" in values:
            self.ids.add(values["id"])
        for name, value in values.items():
            if (tag, name) in FETCHED:
                self.fetched.append(value)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("p", "li", "td", "th", "h1", "h2", "h3"):
            self.paragraphs.append("")
        if tag in ("code", "pre", "script", "style"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data):
        if self.paragraphs and not self._open:
            self.paragraphs[-1] += data


def problems(site: Path) -> list[str]:
    """What is wrong with the pages of a site, a line each."""
    # 404.html is for web servers that keep the site at their root: its links begin with "/".
    pages = {path: Html(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        for address in page.links + page.fetched:
            reason = broken(address, path, pages)
            if reason:
                found.append(f"{name}: {address}: {reason}")
        for address in page.fetched:
            if urlsplit(address).netloc:
                found.append(f"{name}: {address}: comes from another machine")
        for text in page.paragraphs:
            left = UNRENDERED.search(text)
            if left:
                found.append(f"{name}: Markdown left as it is: {text[left.start() :][:60]!r}")
    return found


def broken(address: str, path: Path, pages: dict[Path, Html]) -> str:
    """Why a link of a page leads nowhere in the site; "" if it does not, or leads elsewhere."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if address in (".", "./", ""):
        return ""
    if not target.is_file():
        return "no such file"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
        return "no such place on that page"
    return ""
