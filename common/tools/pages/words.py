"""How long the first layer of a page is, what a reader meets without unfolding anything, and how soon its
first picture comes."""

import re

from tools.pages.page import PART, prose

MOST_WORDS = 900  # ten minutes' reading
MOST_BEFORE_PICTURE = 150  # so that the picture begins on the first screen

FOLD = re.compile(r"<details\b(?:(?!<details\b).)*?</details>", re.DOTALL)
CLAIMS = re.compile(r"^## Checked claims[ \t]*$.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
IMAGE = re.compile(r"^[ \t]*!\[.*$", re.MULTILINE)
PREDICT = re.compile(r"^## Predict[ \t]*$", re.MULTILINE)
PICTURES = re.compile(r"^## The picture[ \t]*$.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
WORD = re.compile(r"\S*[^\W_]\S*")


def blanks(text: str) -> str:
    """As many blanks, in as many lines."""
    return re.sub(r"[^\n]", " ", text)


def first_layer(text: str) -> str:
    """The page with blanks in place of what is folded, and of the list of checked claims."""
    tags = PART.sub(lambda part: part[0] if part["kind"] else blanks(part[0]), text)  # not those in code
    while fold := FOLD.search(tags):  # from the inner ones to the outer ones
        begin, end = fold.span()
        tags, text = (t[:begin] + blanks(t[begin:end]) + t[end:] for t in (tags, text))
    return CLAIMS.sub(lambda claims: blanks(claims[0]), text)


def count(text: str) -> int:
    """The words of the first layer: headings and prose, not tables, code, pictures or generated blocks."""
    passages = prose(IMAGE.sub("", first_layer(text)))
    told = (passage for _, passage in passages if not passage.lstrip().startswith("|"))
    # The narrow space within a number parts no words.
    return sum(len(WORD.findall(passage.replace("\N{NARROW NO-BREAK SPACE}", ""))) for passage in told)


def first_picture(text: str) -> int | None:
    """Where the first picture of the first layer stands, or the generated block that holds it; None without
    one."""
    layer = first_layer(text)
    section = PICTURES.search(layer)
    drawn = IMAGE.search(layer, *section.span()) if section else IMAGE.search(layer)
    if drawn is None:
        return None
    blocks = (part.span() for part in PART.finditer(layer) if part["kind"])
    return next((start for start, end in blocks if start <= drawn.start() < end), drawn.start())


def faults(text: str) -> list[str]:
    """What keeps a step's page from being read in ten minutes, from a picture on: a line each."""
    found = []
    if (words := count(text)) > MOST_WORDS:
        found.append(f"{words} words outside of what is folded; at most {MOST_WORDS}")
    picture, predict = first_picture(text), PREDICT.search(first_layer(text))
    if picture is None:
        found.append("no picture outside of what is folded")
    elif predict and predict.start() < picture:
        found.append("its first picture comes after `## Predict`")
    elif (words := count(text[:picture])) > MOST_BEFORE_PICTURE:
        found.append(f"{words} words before its first picture; at most {MOST_BEFORE_PICTURE}")
    return found
