"""Markdown with generated parts: where they are, how they are replaced, and the prose that people wrote."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

# Around the text of an inline value in prose, and in place of code: no page has these characters.
VALUE_BEGIN, VALUE_END, CODE = "\ue000", "\ue001", "\ue002"

FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
BLOCK = re.compile(r"<!-- generate: (?P<kind>\S+)(?: (?P<arguments>.*?))? -->")
END = "<!-- end -->"
VALUE = re.compile(r"<!--=(?P<expression>.*?)-->(?P<shown>.*?)<!--/-->")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
# A comment at the beginning of a line is a block of its own in Markdown, and ends the paragraph.
VALUE_FIRST = re.compile(r"[\s>]*(?:[-*+]\s+|\d+[.)]\s+)?<!--=")


class PageError(Exception):
    """What is wrong with a page, in one line, with file and line number in front."""

    def __init__(self, path: Path, line: int, message: str):
        super().__init__(f"{path}:{line}: {message}")


@dataclass
class Block:
    """A generated block: lines[first] is its marker, lines[last] its end."""

    kind: str
    arguments: str
    first: int
    last: int


@dataclass
class Value:
    """An inline value: lines[line][begin:end], its marks included. `format` may be empty."""

    expression: str
    format: str
    shown: str
    line: int
    begin: int
    end: int


@dataclass
class Page:
    path: Path  # as it is named in messages
    lines: list[str]
    blocks: list[Block] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    fenced: set[int] = field(default_factory=set)  # lines of code fences outside generated blocks


def parse(path: Path, text: str) -> Page:
    """The page of a Markdown text. Raises PageError if a generated part is not well formed."""
    page = Page(path, text.split("\n"))
    block: Block | None = None
    fence = ""
    for number, line in enumerate(page.lines):
        stripped = line.strip()
        if block:
            if stripped == END:
                block.last = number
                page.blocks.append(block)
                block = None
            elif stripped.startswith("<!-- generate"):
                break
        elif fence or FENCE.fullmatch(line):
            page.fenced.add(number)
            fence = fence_after(fence, line)
        elif stripped.startswith("<!-- generate"):
            match = BLOCK.fullmatch(line)
            if not match:
                raise PageError(
                    path,
                    number + 1,
                    "a block begins with `<!-- generate: KIND ARGUMENTS -->`, alone at the left margin",
                )
            block = Block(match["kind"], (match["arguments"] or "").strip(), number, number)
        elif stripped == END:
            raise PageError(path, number + 1, f"`{END}` without a block that it ends")
        else:
            page.values += values_of_line(page, number)
    if block:
        raise PageError(path, block.first + 1, f"the block `{block.kind}` lacks its `{END}`")
    return page


def fence_after(fence: str, line: str) -> str:
    """The fence that is open after a line, "" if none."""
    match = FENCE.fullmatch(line)
    if not match:
        return fence
    if not fence:
        return match["fence"]
    closes = match["fence"].startswith(fence) and not match["rest"].strip()
    return "" if closes else fence


def values_of_line(page: Page, number: int) -> list[Value]:
    line = page.lines[number]
    masked = CODE_SPAN.sub(lambda span: " " * len(span[0]), line)
    if "<!--=" not in masked:
        return []
    if VALUE_FIRST.match(masked):
        raise PageError(page.path, number + 1, "an inline value cannot begin a line: put a word before it")
    found = []
    at = 0
    while (begin := masked.find("<!--=", at)) >= 0:
        match = VALUE.match(line, begin)
        if not match or "<!--" in match["shown"]:
            raise PageError(
                page.path,
                number + 1,
                "an inline value is `<!--= EXPRESSION | FORMAT -->TEXT<!--/-->`, all in one line",
            )
        # Within a table the bar has to be escaped.
        expression, _, form = match["expression"].replace("\\|", "|").partition("|")
        found.append(
            Value(expression.strip(), form.strip(), match["shown"], number, match.start(), match.end())
        )
        at = match.end()
    return found


def regenerate(
    page: Page,
    make_block: Callable[[Block], str | None],
    make_value: Callable[[Value], str | None],
) -> str:
    """The page's text with its generated parts made anew; None from a maker leaves the part as it is."""
    lines = list(page.lines)
    for value in reversed(page.values):
        shown = make_value(value)
        if shown is not None:
            line = lines[value.line]
            marker = line[value.begin : line.index("-->", value.begin) + 3]
            lines[value.line] = f"{line[: value.begin]}{marker}{shown}<!--/-->{line[value.end :]}"
    for block in reversed(page.blocks):
        content = make_block(block)
        if content is not None:
            lines[block.first + 1 : block.last] = ["", *content.strip("\n").split("\n"), ""]
    return "\n".join(lines)


# ---- Prose -----------------------------------------------------------------------------------------------


@dataclass
class Passage:
    """A paragraph, heading, list item or table row, without code, links' targets and HTML."""

    text: str
    lines: list[int]  # of each character, from 1

    def line_at(self, position: int) -> int:
        return self.lines[min(position, len(self.lines) - 1)]


# What is not prose. Replaced by blanks of the same length, so that places stay where they are.
NOT_PROSE = [
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
    return re.sub(r"[^\n]", " ", match[0])


def prose(page: Page) -> list[Passage]:
    """What people wrote: no generated blocks, no code. Inline values stand between VALUE_BEGIN and _END."""
    left_out = set(page.fenced)
    for block in page.blocks:
        left_out.update(range(block.first, block.last + 1))
    if page.lines[0] == "---" and "---" in page.lines[1:]:  # front matter
        left_out.update(range(page.lines.index("---", 1) + 1))
    text = "\n".join("" if n in left_out else line for n, line in enumerate(page.lines))
    text = VALUE.sub(mark_value, text)
    text = CODE_SPAN.sub(lambda m: CODE + m[2] + CODE + " " * (len(m[0]) - len(m[2]) - 2), text)
    for pattern in NOT_PROSE:
        text = pattern.sub(blank, text)
    passages: list[Passage] = []
    open_passage = False
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            open_passage = False
            continue
        if not open_passage or NEW_PASSAGE.match(line):
            passages.append(Passage("", []))
        open_passage = not line.lstrip().startswith("#")
        passages[-1].text += line + "\n"
        passages[-1].lines += [number] * (len(line) + 1)
    return passages


def mark_value(match: re.Match[str]) -> str:
    return f"{VALUE_BEGIN}{match['shown']}{VALUE_END}".ljust(len(match[0]))
