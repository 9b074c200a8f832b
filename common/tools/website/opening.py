"""A page's picture comes first on the screen: beside the question, on a phone above it. In the Markdown, and
so on a code host, it stays in its section."""

import re

from tools.pages.page import PART
from tools.pages.words import IMAGE, PICTURES, first_layer

TITLE = re.compile(r"\A# .*\n")
HEADING = re.compile(r"^## .*$|\Z", re.MULTILINE)


def with_opening(markdown: str) -> str:
    """The page with the first picture of `## The picture` behind its title; and the second if both are
    accesses to be compared. What plays with a tiling shows its loads behind the prediction, so as not to give
    it away."""
    layer = first_layer(markdown)
    title, section = TITLE.match(layer), PICTURES.search(layer)
    if not title or not section:
        return markdown
    drawn = [part for part in PART.finditer(layer, *section.span()) if part["kind"] and IMAGE.search(part[0])]
    image = IMAGE.search(layer, *section.span())
    if image is None:
        return markdown
    kinds = [part["kind"] for part in drawn[:2]]
    chosen: list[re.Match[str]] = [image]
    if drawn and drawn[0].start() < image.start():  # the image is the block's
        chosen = drawn[:2] if kinds == ["picture", "picture"] else drawn[:1]
    boxes = "\n\n".join(f'<div markdown="1">\n\n{match[0]}\n\n</div>' for match in chosen)
    name = "opening pair" if len(chosen) > 1 else "opening"
    parts, end = [title[0], f'\n<div class="{name}" markdown="1">\n\n{boxes}\n\n</div>\n'], title.end()
    for match in chosen:
        parts.append(markdown[end : match.start()])
        end = match.end()
    after = HEADING.search(layer, section.end())
    if after and after[0].strip() == "## Predict":
        after = HEADING.search(layer, after.end())
    place = after.start() if after else len(markdown)
    loads = '<div class="play-loads-here"></div>\n\n' if chosen[0] in drawn and kinds[0] == "tiling" else ""
    return "".join([*parts, markdown[end:place], loads, markdown[place:]])
