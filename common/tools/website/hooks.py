"""What MkDocs does beside its own work when it builds the site (mkdocs.yml names this file).

- The navigation: steps by number, in the ladder's parts; concepts and the pages on exercises in the order
  below.
- A step's picture moves to the top of its page (opening.py).
- A link out of docs/ to a text file of the repository, `../../steps/05_2d_tiling/kernel.cu#L29`, works on a
  code host as it stands; in the site it leads to a page that shows the file.
- SVG figures stand in a box of their own, in which they scroll where the screen is narrow. In dark mode one
  that has colours for that shows them; any other stands on white.
- A tiling's picture whose data stand beside it in play/NN_name.js, a schedule's in play/NN_name_schedule.js,
  and that of a descriptor whose name says that it plays, get them and the scripts that play.
- A page that asks for a guess gets the script that does.
- The comments that mark generated parts are taken out (in a table, their "|" would begin a column).
"""

import math
import posixpath
import re
from html import escape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import find_lexer_class_for_filename
from pygments.lexers.special import TextLexer

from tools.base import ROOT
from tools.website.opening import with_opening

PARTS = {
    "0": "FP32 on CUDA cores",
    "2": "TF32 on tensor cores",
    "3": "BF16 on Hopper",
    "4": "FP32 from tensor cores",
}
# From the machine to the measurement; pages that are not named here follow.
CONCEPTS = ["gpu_execution", "memory_and_coalescing", "shared_memory_banks", "registers_and_reuse"]
CONCEPTS += ["reading_sass", "other_gpus", "measuring", "roofline", "power", "cpu_device", "machine_code"]
CONCEPTS += ["five_ladders"]
EXERCISES = ["exercises", "teaching", "adding_a_step"]  # for students, for teachers, for authors
START = ["start", "notebook", "map", "glossary", "running", "library"]  # behind the first page
SOURCES = "source/"  # where the pages that show a file of the repository are

# What is found outside of code: the fenced blocks and the spans of code match first, as `code`. A span as a
# link's text does not hide the link, whose `](target)` lies behind it.
FOUND = re.compile(
    r"(?P<code>^[ \t]*(?P<fence>`{3,}|~{3,}).*?(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`+)(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`))"
    r"|(?P<marker><!-- generate: [^\n]*?-->|<!-- end -->|<!--=[^\n]*?-->|<!--/-->)"
    r"|(?P<before>\]\(|\]:[ \t]+)(?P<target>(?:\.\./)+[^\s)#]+)(?:#(?P<anchor>[^\s)]*))?",
    re.MULTILINE | re.DOTALL,
)
FIGURE = re.compile(r'<p>(<img [^>]*?src="([^":?#]+\.svg)"[^>]*?)\s*/?></p>')
TILING = re.compile(r"(?P<step>\w+)_tiling_warp_(?P<warp>\d+)_lane_(?P<lane>\d+)\.svg$")
DESCRIPTOR = re.compile(r"(?P<name>\w+_descriptor)_play_k(?P<k>\d+)\.svg$")
# Each needs those before it.
PLAY = ["elements", "recording", "memory", "matrices", "tiling", "schedule", "descriptor", "start"]
SCRIPTS = {  # what needs which
    " data-play=": [f"javascripts/play/{name}.js" for name in PLAY],
    'class="guess"': ["javascripts/guess.js"],
}
LEGIBLE_PX = 11  # the smallest text in a figure, on any screen


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that show source files, and sets the navigation."""
    pages = files.documentation_pages()
    links = ((page, match["target"]) for page in pages for match in FOUND.finditer(page.content_string))
    shown = (repository_path(target, page.src_uri) for page, target in links if target)
    for path in sorted({path for path in shown if path}):
        content = f"---\nsearch:\n  exclude: true\n---\n# `{path}`\n{lesson_link(path, files)}"
        name = SOURCES + path + ".md"
        files.append(File.generated(config, name, content=content, inclusion=InclusionLevel.NOT_IN_NAV))

    names = sorted(page.src_uri for page in pages)
    place = {f"concepts/{name}.md": n for n, name in enumerate(CONCEPTS)}
    concepts = [name for name in names if name.startswith("concepts/")]
    parts: dict[str, list[str]] = {}
    for name in (name for name in names if name.startswith("steps/")):
        digit = name.removeprefix("steps/")[0].replace("1", "0")
        parts.setdefault(PARTS.get(digit, "Steps"), []).append(name)
    sections = {
        **parts,
        "Concepts": sorted(concepts, key=lambda name: place.get(name, len(place))),
        "Exercises and teaching": [f"{name}.md" for name in EXERCISES if f"{name}.md" in names],
    }
    start: list[str | dict[str, str]] = [{"Start": "index.md"}] if "index.md" in names else []
    start += [f"{name}.md" for name in START if f"{name}.md" in names]
    config.nav = [*start, *({title: listed} for title, listed in sections.items() if listed)]
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Takes out the markers and turns links out of docs/ into links to the pages that show the files."""
    here = page.file.src_uri
    if here.startswith(SOURCES):
        return markdown

    def change(match: re.Match[str]) -> str:
        if match["marker"]:
            return ""
        path = match["target"] and repository_path(match["target"], here)
        if not path:
            return match[0]
        target = posixpath.relpath(SOURCES + path + ".md", posixpath.dirname(here) or ".")
        line = (match["anchor"] or "").partition("-")[0]  # of L10-L20 the first
        return match["before"] + target + ("#" + line if line else "")

    return FOUND.sub(change, with_opening(markdown) if here.startswith("steps/") else markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Puts figures into boxes, and the file's text into a page that shows one."""
    here = page.file.src_uri
    if here.startswith(SOURCES):
        text = (ROOT / here.removeprefix(SOURCES).removesuffix(".md")).read_text(encoding="utf-8")
        lines = {f"L{number}" for number in range(1, text.count("\n") + 2)}
        page.present_anchor_ids = (page.present_anchor_ids or set()) | lines
        return html + source_html(here.removesuffix(".md"), text)

    def box(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), match[2]))
        figure = files.get_file_from_path(target)
        if figure is None or figure.abs_src_path is None:
            return match[0]  # MkDocs has complained already
        svg = Path(figure.abs_src_path).read_text(encoding="utf-8")
        kind = "figure themed" if "prefers-color-scheme" in svg else "figure"
        attributes, data = played(target, page, files)
        least = f'style="min-width: {least_width(svg)}px"'
        return f'<div class="{kind}"{attributes}>{match[1]} {least}></div>{data}'

    html = FIGURE.sub(box, html)
    needed = (path for needs, paths in SCRIPTS.items() if needs in html for path in paths)
    scripts = map(files.get_file_from_path, needed)
    return html + "".join(script_tag(script.url_relative_to(page.file)) for script in scripts if script)


# ---- Links out of docs/ ------------------------------------------------------------------------------------


def repository_path(target: str, here: str) -> str | None:
    """The path in the repository of a link's target on page `here`; None if docs/ has it or nobody does."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(here), target))
    if path.startswith(("../", "docs/", "/")) or not (ROOT / path).is_file():
        return None
    return path


def lesson_link(path: str, files: Files) -> str:
    """On the page of a step's source, the way back to the step's page."""
    parts = path.split("/")
    if parts[0] != "steps" or len(parts) < 2 or f"steps/{parts[1]}.md" not in files.src_uris:
        return ""
    return f"\n[The page on this step]({'../' * len(parts)}steps/{parts[1]}.md)\n"


def source_html(name: str, text: str) -> str:
    """A source file, highlighted, each line with its number and the id L1, L2, ..."""
    lexer = (find_lexer_class_for_filename(name) or TextLexer)(stripnl=False)
    # Pygments ends every span at the end of a line.
    lines = highlight(text, lexer, HtmlFormatter(nowrap=True)).rstrip("\n").split("\n")
    numbered = "".join(
        f'<span class="line" id="L{n}"><a href="#L{n}" data-line="{n}" tabindex="-1" aria-hidden="true"></a>'
        f"{line}\n</span>"
        for n, line in enumerate(lines, start=1)
    )
    return f'<div class="source highlight" title="{escape(name)}"><pre><code>{numbered}</code></pre></div>'


# ---- Figures -----------------------------------------------------------------------------------------------


def script_tag(url: str) -> str:
    return f'<script defer src="{escape(url)}"></script>'


def played(target: str, page: Page, files: Files) -> tuple[str, str]:
    """For the box of a figure with something to play with: what it shows at first, and the data. Else "" """
    folder, file = posixpath.split(target)
    figure, operands = TILING.fullmatch(file), DESCRIPTOR.fullmatch(file)
    name = figure["step"] if figure else operands["name"] if operands else file.removesuffix(".svg")
    data = files.get_file_from_path(f"{folder}/play/{name}.js")
    if not data or not (figure or operands or name.endswith("_schedule")):
        return "", ""
    attributes = f' data-play="{name}"'
    if not figure:
        attributes += f' data-k="{operands["k"]}"' if operands else ""
        return attributes, script_tag(data.url_relative_to(page.file))
    attributes += f' data-warp="{figure["warp"]}" data-lane="{figure["lane"]}"'
    source = files.get_file_from_path(f"{SOURCES}steps/{figure['step']}/kernel.cu.md")
    if source:
        attributes += f' data-source="{escape(source.url_relative_to(page.file))}"'
    return attributes, script_tag(data.url_relative_to(page.file))


def least_width(svg: str) -> int:
    """The width in CSS pixels at which a figure's smallest text can be read; its own width without text."""
    width, view = re.search(r'\swidth="([\d.]+)', svg), re.search(r'viewBox="0 0 ([\d.]+)', svg)
    if width is None or view is None:
        raise ValueError("an SVG figure needs a width and a viewBox")
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)', svg)]
    return math.ceil(float(view[1]) * LEGIBLE_PX / min(sizes)) if sizes else round(float(width[1]))
