"""A page's picture comes first on the screen: beside the question, on a phone above it. In the Markdown, and on a
code host, it stays in its section."""

import re

from tools.pages.page import PART
from tools.pages.words import IMAGE, PICTURES, first_layer

TITLE = re.compile(r"\A# .*\n")
HEADING = re.compile(r"^## .*$|\Z", re.MULTILINE)


def with_opening(markdown: str) -> str:
    """The page with the first picture of `## The picture` behind its title; with the next one, if both are accesses
    to be compared. What plays with a tiling shows its loads behind the prediction, so as not to give it away."""
    layer = first_layer(markdown)
    title, section = TITLE.match(layer), PICTURES.search(layer)
    if not title or not section:
        return markdown
    blocks = [part for part in PART.finditer(layer, *section.span()) if part["kind"] and IMAGE.search(part[0])]
    images = [image for image in IMAGE.finditer(layer, *section.span())]
    images = [i for i in images if not any(b.start() <= i.start() < b.end() for b in blocks)]
    drawn = sorted([*blocks, *images], key=lambda match: match.start())
    if not drawn:
        return markdown
    kinds = [match["kind"] if match in blocks else "" for match in drawn[:2]]
    chosen = drawn[:2] if kinds == ["picture", "picture"] else drawn[:1]
    name = "opening pair" if len(chosen) > 1 else "opening"
    opening = "\n\n".join(f'<div markdown="1">\n\n{match[0]}\n\n</div>' for match in chosen)
    loads = '<div class="play-loads-here"></div>\n\n' if kinds[0] == "tiling" else ""
    parts = [title[0], f'\n<div class="{name}" markdown="1">\n\n{opening}\n\n</div>\n']
    end = title.end()
    for match in chosen:
        parts.append(markdown[end : match.start()])
        end = match.end()
    after = HEADING.search(layer, section.end())
    if after and after[0].strip() == "## Predict":
        after = HEADING.search(layer, after.end())
    place = after.start() if after else len(markdown)
    return "".join([*parts, markdown[end:place], loads, markdown[place:]])
