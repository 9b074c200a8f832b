"""Markdown with generated parts: where they are, how they are replaced, and the prose that people wrote."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.base import UsageError

# Around the text of an inline value in prose, and in place of code: no page has these characters.
VALUE_BEGIN, VALUE_END, CODE = "\ue000", "\ue001", "\ue002"

# Code, in which nothing is generated, and the generated parts: blocks, and inline values. What has a marker
# but fits none of them is not well formed.
PART = re.compile(
    r"""
      ^\s*(?P<fence>`{3,}|~{3,}).*\n(?:.*\n)*?(?:\s*(?P=fence)[`~]*\s*$|\Z)
    | (?P<ticks>(?<!`)`+(?!`))(?P<code>.+?)(?<!`)(?P=ticks)(?!`)
    | ^<!--\ generate:\ (?P<kind>\S+)(?:\ (?P<arguments>.*?))?\ -->\n
      (?P<content>(?:(?!\ *<!--\ generate).*\n)*?)\ *<!--\ end\ -->\ *$
    | <!--=(?P<expression>(?:(?!-->).)*)-->(?P<shown>(?:(?!<!--).)*?)<!--/-->
    | (?P<marker><!--=|<!--\ generate|<!--\ end\ -->)
    """,
    re.MULTILINE | re.VERBOSE,
)
BLOCK = re.compile(r"<!-- generate: (\S+)( .*?)? -->$", re.MULTILINE)
# A comment at the beginning of a line is a block of its own in Markdown, and ends the paragraph.
BEGINNING = re.compile(r"[\s>]*(?:[-*+]\s+|\d+[.)]\s+)?")


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def parse(path: Path, text: str) -> list[re.Match[str]]:
    """The generated parts of a Markdown text, each with its `kind` or its `expression`. Raises UsageError,
    with file and line number in front, if one is not well formed."""
    found = []
    for part in PART.finditer(text):
        before = text[text.rfind("\n", 0, part.start()) + 1 : part.start()]
        wrong = ""
        if (part["marker"] or part[0]).startswith("<!--=") and BEGINNING.fullmatch(before):
            wrong = "an inline value cannot begin a line: put a word before it"
        elif part["marker"] == "<!--=":
            wrong = "an inline value is `<!--= EXPRESSION | FORMAT -->TEXT<!--/-->`, all in one line"
        elif part["marker"] == "<!-- end -->":
            wrong = "`<!-- end -->` without a block that it ends"
        elif part["marker"] and not before and (block := BLOCK.match(text, part.start())):
            wrong = f"the block `{block[1]}` lacks its `<!-- end -->`"
        elif part["marker"]:
            wrong = "a block begins with `<!-- generate: KIND ARGUMENTS -->`, alone at the left margin"
        if wrong:
            raise UsageError(f"{path}:{line_of(text, part.start())}: {wrong}")
        if part["kind"] or part["expression"]:
            found.append(part)
    return found


def regenerate(path: Path, text: str, make: Callable[[str, re.Match[str]], str | None]) -> str:
    """The text with its generated parts made anew, each by make(its place, the part); None leaves it."""
    parts = parse(path, text)
    made = [(part, make(f"{path}:{line_of(text, part.start())}", part)) for part in parts]
    for part, new in reversed(made):
        if new is not None:
            group = "content" if part["kind"] else "shown"
            new = f"\n{new.strip(chr(10))}\n\n" if part["kind"] else new
            text = text[: part.start(group)] + new + text[part.end(group) :]
    return text


# ---- Prose -----------------------------------------------------------------------------------------------

# What is not prose. Replaced by blanks of the same length, so that places stay where they are.
NOT_PROSE = [
    re.compile(r"\A---\n(?:.*\n)*?---$", re.MULTILINE),  # front matter
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"</?[a-zA-Z][^<>]*>"),
    re.compile(r"<[a-z]+:[^<>\s]*>"),
    re.compile(r"(?<=\])\((?:[^()]|\([^()]*\))*\)"),  # a link's target
    re.compile(r"^\s*\[[^\]]+\]:.*$", re.MULTILINE),
    re.compile(r"\[\^[^\]]+\]"),
    re.compile(r"https?://\S+"),
    re.compile(r"\{[:.#][^{}]*\}"),  # attributes
    re.compile(r"&#?\w+;"),
    re.compile(r"^\s*(?:\d+[.)])(?=\s)", re.MULTILINE),  # an ordered list's number
]
NEW_PASSAGE = re.compile(r"\s*(?:#{1,6}\s|[-*+]\s|\d+[.)]\s|\||>|</?[a-z])")


def blank(match: re.Match[str]) -> str:
    """As many blanks; code and inline values leave their text, in the marks of this module."""
    left = ""
    if match.re is PART and match["code"]:
        left = f"{CODE}{match['code']}{CODE}"
    elif match.re is PART and match["expression"]:
        left = f"{VALUE_BEGIN}{match['shown']}{VALUE_END}"
    return left + re.sub(r"[^\n]", " ", match[0][len(left) :])


def prose(text: str) -> Iterator[tuple[int, str]]:
    """What people wrote, without generated blocks, links' targets and HTML: paragraphs, headings, list items
    and table rows, each with the number of its first line."""
    for pattern in (PART, *NOT_PROSE):
        text = pattern.sub(blank, text)
    passage, first = "", 0
    for number, line in enumerate([*text.split("\n"), ""], start=1):
        if passage and (not line.strip() or NEW_PASSAGE.match(line) or passage.lstrip().startswith("#")):
            yield first, passage
            passage = ""
        if line.strip():
            first = first if passage else number
            passage += line + "\n"
