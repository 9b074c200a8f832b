"""Slides for the lectures of docs/teaching.md, one deck each, made of the pages that a lecture names.

  ladder slides --out slides                 every lecture
  ladder slides 2 --out slides               the second
  ladder slides coalescing --out slides      those whose title holds the word

A deck is one HTML file that needs nothing else, DIR/02_who_reads_what_coalescing.html, and the same as PDF
where Chromium is installed (./setup.sh --browser). Arrow keys turn the slides.

It takes what stands outside of the notebooks: questions and first sentences, lists by their first sentence,
and every picture, table and listing. The numbers are the pages' own, which `ladder pages --check` holds to
the build and the recordings.
"""

import base64
import html
import mimetypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown import markdown
from pygments.formatters import HtmlFormatter

from tools.base import ROOT, Parser, UsageError, read_text, write_whole

DOCS = ROOT / "docs"
STYLE = Path(__file__).with_suffix(".css")
EXTENSIONS = ["tables", "attr_list", "sane_lists", "pymdownx.superfences", "pymdownx.highlight"]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ENDS = "Checked claims"  # of what a page explains
ON_A_SLIDE = 5  # texts
NOTEBOOKS = re.compile(r"^<details.*?^</details>\n?", re.MULTILINE | re.DOTALL)
INNER = re.compile(r"^<details(?:(?!^<details).)*?^</details>\n?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]*)\)")
SENTENCE = re.compile(r"(?<=[.?!:])(?<!\be\.g\.)(?<!\bvs\.)\s+(?=[A-Z(`*])")
TURN = """addEventListener("keydown", event => {
  const by = {ArrowRight: 1, ArrowDown: 1, PageDown: 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1}[event.key];
  if (!by) return;
  event.preventDefault();
  scrollTo(0, (Math.round(scrollY / innerHeight) + by) * innerHeight);
});"""


@dataclass(frozen=True)
class Lecture:
    """number: in the order of teaching.md; pages: below docs/."""

    number: int
    title: str
    pages: list[str]
    exercises: list[str]

    @property
    def name(self) -> str:
        return f"{self.number:02}_{re.sub(r'[^a-z0-9]+', '_', self.title.lower()).strip('_')[:60]}"


def lectures() -> list[Lecture]:
    """The rows of teaching.md's tables of lectures."""
    found: list[Lecture] = []
    inside = False
    for line in read_text(DOCS / "teaching.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == "lecture":
            inside = True
        elif inside and line.startswith("|") and "---" not in line:
            pages = [target.partition("#")[0] for _, _, target in LINK.findall(cells[1])]
            found.append(Lecture(len(found) + 1, cells[0], pages, re.findall(r"`(\w+)`", cells[2])))
        elif not line.startswith("|"):
            inside = False
    return found


# ---- What goes on slides ---------------------------------------------------------------------------------


def pieces(text: str) -> Iterator[str]:
    """Paragraphs, lists' items, tables and fenced code."""
    fenced = re.compile(r"^(`{3,}).*?^\1[ ]*$", re.MULTILINE | re.DOTALL)
    at = 0
    for fence in [*fenced.finditer(text), None]:
        for block in re.split(r"\n\s*\n", text[at : fence.start() if fence else len(text)]):
            yield from (item.strip("\n") for item in re.split(r"\n(?=[-*] |\d+\. )", block) if item.strip())
        if fence:
            yield fence[0]
            at = fence.end()


def brief(piece: str) -> str:
    """Of a text its questions, else its first sentence; of a list's item what stands in bold there."""
    mark, text = re.match(r"((?:[-*]|\d+\.) )?(.*)", " ".join(piece.split())).groups()  # type: ignore[union-attr]
    bold = re.match(r"\*\*.+?\*\*", text)
    sentences = SENTENCE.split(text)
    asked = [sentence for sentence in sentences if sentence.endswith("?")]
    return (mark or "") + (bold[0] if mark and bold else " ".join(asked) or sentences[0])


def slides_of(page: str) -> Iterator[tuple[str, list[str]]]:
    """The slides of a page: a heading and pieces of Markdown."""
    text = re.sub(r"<!--.*?-->", "", read_text(DOCS / page))
    while (outer := INNER.sub("", text)) != text:
        text = outer
    text = re.sub(r"^</?div.*>$", "", text, flags=re.MULTILINE)
    title, *sections = re.split(r"^##? ", text, flags=re.MULTILINE)[1:]
    heading = title.splitlines()[0]
    yield heading, []
    for section in sections:
        name, _, content = section.partition("\n")
        if name == ENDS:
            return
        texts: list[str] = []
        if name == "Predict":
            yield f"{heading}: predict", ["Write down a number, and how you came to it."]
        for piece in pieces(content):
            if piece.startswith(("![", "|", "`" * 3)):
                if len(texts) > 1:  # one stands above it
                    yield name, texts
                    texts = []
                yield name, [*texts, piece]
                texts = []
            elif not piece.startswith(("`", "#", "*line*")):  # what a picture or a listing is of
                texts = [*texts, brief(piece)]
            if len(texts) == ON_A_SLIDE:
                yield name, texts
                texts = []
        yield from ([(name, texts)] if texts else [])


# ---- A deck ----------------------------------------------------------------------------------------------


def as_html(piece: str, folder: Path) -> str:
    """A piece of a page in that folder, with its pictures within and without links."""

    def replace(link: re.Match[str]) -> str:
        image, text, target = link.groups()
        if not image:
            return text
        path = folder / target
        kind, _ = mimetypes.guess_type(path)
        try:
            data = base64.b64encode(path.read_bytes()).decode()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
        return f"![{text}](data:{kind};base64,{data})"

    made = markdown(piece if piece.startswith("```") else LINK.sub(replace, piece), extensions=EXTENSIONS)
    kind = "picture" if piece.startswith("![") else "text"
    lines = max(piece.count("\n"), len(piece) // 90, 1)
    return f'<div class="{kind}" style="--lines: {lines}">{made}</div>'


def deck(lecture: Lecture) -> str:
    """The HTML file."""
    slides = [f"<h1>{html.escape(lecture.title.replace('`', ''))}</h1>"]
    for page in lecture.pages:
        folder = (DOCS / page).parent
        for heading, texts in slides_of(page):
            head = as_html(f"{'##' if texts else '#'} {heading}", folder)
            # Items of a list belong together, whatever stood between them.
            body = "\n".join(as_html(text, folder) for text in joined(texts))
            slides.append(head + body)
    if lecture.exercises:
        listed = "\n".join(f"- `./build/exercises check {name}`" for name in lecture.exercises)
        slides.append(as_html(f"## Exercises\n\n{listed}", DOCS))
    style = read_text(STYLE) + HtmlFormatter().get_style_defs(".highlight")
    sections = "\n".join(f"<section>{slide}</section>" for slide in slides)
    title = html.escape(lecture.title)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>\n{style}\n</style></head>\n<body>\n{sections}\n<script>\n{TURN}\n</script></body></html>\n"
    )


def joined(texts: list[str]) -> list[str]:
    """With the items of a list in one text."""
    made: list[str] = []
    for text in texts:
        item = re.match(r"[-*] |\d+\. ", text)
        if item and made and re.match(r"[-*] |\d+\. ", made[-1]):
            made[-1] += f"\n{text}"
        else:
            made.append(text)
    return made


def print_pdf(browser: str, page: Path, out: Path) -> None:
    """Raises UsageError."""
    with tempfile.TemporaryDirectory() as profile:
        words = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        words += ["--no-pdf-header-footer", f"--print-to-pdf={out.resolve()}", page.resolve().as_uri()]
        said = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    if said.returncode or not out.exists():
        raise UsageError(f"{browser} makes no {out}: {said.stderr.strip()[-200:]}")


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("lecture", nargs="?", metavar="LECTURE", help="its number, or words of its title")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the decks go")
    arguments = parser.parse_args()
    every, wanted = lectures(), arguments.lecture
    by_number = {str(lecture.number): [lecture] for lecture in every}
    by_title = [e for e in every if wanted is None or wanted.lower() in e.title.lower()]
    chosen = by_number.get(wanted, by_title)
    if not chosen:
        raise UsageError(f"there is no lecture '{wanted}'; there are {len(every)}: give a number, or a word")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for lecture in chosen:
        write_whole(page := arguments.out / f"{lecture.name}.html", deck(lecture))
        if browser:
            print_pdf(browser, page, page.with_suffix(".pdf"))
        print(page)
    if browser is None:
        print("no PDF: there is no Chromium; ./setup.sh --browser installs it")
    return 0
