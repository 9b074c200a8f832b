"""Markdown with generated parts: where they are, how they are replaced, and the prose that people wrote."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.base import UsageError

# Around the text of an inline value in prose, and in place of code: no page has these characters.
VALUE_BEGIN, VALUE_END, CODE = "\ue000", "\ue001", "\ue002"

FENCE = re.compile(r"\s*(?P<fence>`{3,}|~{3,})(?P<rest>.*)")
BLOCK = re.compile(r"<!-- generate: (?P<kind>\S+)(?: (?P<arguments>.*?))? -->")
END = "<!-- end -->"
VALUE = re.compile(r"<!--=(?P<expression>.*?)-->(?P<shown>.*?)<!--/-->")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
# A comment at the beginning of a line is a block of its own in Markdown, and ends the paragraph.
VALUE_FIRST = re.compile(r"[\s>]*(?:[-*+]\s+|\d+[.)]\s+)?<!--=")


class PageError(UsageError):
    """What is wrong with a page, in one line, with file and line number in front."""

    def __init__(self, path: Path, line: int, message: str):
        super().__init__(f"{path}:{line + 1}: {message}")


@dataclass
class Part:
    """A generated part. A block: lines[line] is its marker, lines[last] its end. An inline value: its kind is
    "=", arguments are its expression and format, and lines[line][begin:end] is what it shows."""

    kind: str
    arguments: str
    line: int
    old: str = ""
    last: int = 0
    begin: int = 0
    end: int = 0


@dataclass
class Page:
    path: Path  # as it is named in messages
    lines: list[str]
    parts: list[Part] = field(default_factory=list)
    fenced: set[int] = field(default_factory=set)  # lines of code fences outside generated blocks


def parse(path: Path, text: str) -> Page:
    """The page of a Markdown text. Raises PageError if a generated part is not well formed."""
    page = Page(path, text.split("\n"))
    block: Part | None = None
    fence = ""
    for number, line in enumerate(page.lines):
        stripped = line.strip()
        opens = stripped.startswith("<!-- generate")
        if block and stripped == END:
            block.last, block.old = number, "\n".join(page.lines[block.line + 1 : number])
            page.parts.append(block)
            block = None
        elif block and opens:
            break
        elif block:
            pass
        elif fence or FENCE.fullmatch(line):
            page.fenced.add(number)
            fence = fence_after(fence, line)
        elif opens:
            if not (match := BLOCK.fullmatch(line)):
                wanted = "a block begins with `<!-- generate: KIND ARGUMENTS -->`, alone at the left margin"
                raise PageError(path, number, wanted)
            block = Part(match["kind"], (match["arguments"] or "").strip(), number)
        elif stripped == END:
            raise PageError(path, number, f"`{END}` without a block that it ends")
        else:
            page.parts += values_of_line(path, number, line)
    if block:
        raise PageError(path, block.line, f"the block `{block.kind}` lacks its `{END}`")
    return page


def fence_after(fence: str, line: str) -> str:
    """The fence that is open after a line, "" if none."""
    match = FENCE.fullmatch(line)
    if not match or not fence:
        return match["fence"] if match else fence
    closes = match["fence"].startswith(fence) and not match["rest"].strip()
    return "" if closes else fence


def values_of_line(path: Path, number: int, line: str) -> Iterator[Part]:
    masked = CODE_SPAN.sub(lambda span: " " * len(span[0]), line)
    if VALUE_FIRST.match(masked):
        raise PageError(path, number, "an inline value cannot begin a line: put a word before it")
    at = 0
    while (begin := masked.find("<!--=", at)) >= 0:
        match = VALUE.match(line, begin)
        if not match or "<!--" in match["shown"]:
            wanted = "an inline value is `<!--= EXPRESSION | FORMAT -->TEXT<!--/-->`, all in one line"
            raise PageError(path, number, wanted)
        # Within a table the bar has to be escaped.
        expression = match["expression"].replace("\\|", "|")
        yield Part("=", expression, number, match["shown"], number, *match.span("shown"))
        at = match.end()


def regenerate(page: Page, make: Callable[[Part], str | None]) -> str:
    """The page's text with its generated parts made anew; where make() gives None, they stay."""
    lines = list(page.lines)
    made = [(part, make(part)) for part in page.parts]
    for part, text in reversed(made):
        if text is None:
            continue
        if part.kind == "=":
            line = lines[part.line]
            lines[part.line] = line[: part.begin] + text + line[part.end :]
        else:
            lines[part.line + 1 : part.last] = ["", *text.strip("\n").split("\n"), ""]
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


def prose(page: Page) -> list[Passage]:
    """What people wrote: no generated blocks, no code. Inline values stand between VALUE_BEGIN and _END."""
    left_out = set(page.fenced)
    for part in page.parts:
        left_out.update(range(part.line, part.last + 1) if part.kind != "=" else ())
    if page.lines[0] == "---" and "---" in page.lines[1:]:  # front matter
        left_out.update(range(page.lines.index("---", 1) + 1))
    text = "\n".join("" if n in left_out else line for n, line in enumerate(page.lines))
    text = VALUE.sub(lambda m: f"{VALUE_BEGIN}{m['shown']}{VALUE_END}".ljust(len(m[0])), text)
    text = CODE_SPAN.sub(lambda m: f"{CODE}{m[2]}{CODE}".ljust(len(m[0])), text)
    for pattern in NOT_PROSE:
        text = pattern.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
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
