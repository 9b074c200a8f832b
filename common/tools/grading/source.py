"""A student's file as the compiler gets it: what the preprocessor makes of it, which is what is compiled for
every device, so that no macro, comment or condition shows us something else. Standard library only.
"""

import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.grading import rules
from tools.grading.content import PIECE, without_strings
from tools.grading.finding import Failed, Finding
from tools.grading.isolation import Limits, run_confined
from tools.grading.rules import broken_rule
from tools.grading.state import MOST_BYTES

LIMITS = Limits(cpu_s=5, wall_s=20, memory=1 << 30, file=4 * MOST_BYTES)  # with all macros in place
MOST_LINES, LONGEST_NAME = 10_000, 200
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
FILE = "kernel.cu"
FOR_ASSERT = ("cassert", "assert.h")  # may be included, and is there anyway: build.py
PREPROCESS = ["g++", "-E", "-undef", "-nostdinc", "-std=c++20", "-Iinclude", "-x", "c++"]


@dataclass(frozen=True)
class Code:
    """A file as the compiler sees it: text has the file's lines, without comments and macros; includes: of
    the starter."""

    text: str
    includes: tuple[str, ...]


def read(source: str, starter: str) -> Code:
    """The file's code, if it may be graded. starter: what the student began with; what stands there is
    allowed. Raises Failed with the first rule that is broken."""
    if not source.strip("\ufeff \t\r\n"):
        raise Failed(Finding("rule", "The file is empty.", look=rules.LOOK))
    if len(source.encode()) > MOST_BYTES or source.count("\n") > MOST_LINES:
        raise broken_rule(0, f"the file is too long: more than {MOST_LINES} lines or {MOST_BYTES} bytes.")
    includes = tuple(dict.fromkeys(INCLUDE.findall(starter)))
    code = Code(preprocessed(source, (*includes, *FOR_ASSERT)), includes)
    for piece in PIECE.finditer(code.text):
        if piece["raw"]:
            kind = 'a string of the kind R"(...)" is not allowed here: an exercise needs none.'
            raise broken_rule(1 + code.text.count("\n", 0, piece.start()), kind)
        if piece["text"] is None and len(piece[0]) > LONGEST_NAME:
            line = 1 + code.text.count("\n", 0, piece.start())
            raise broken_rule(line, f"a name or number has more than {LONGEST_NAME} characters.")
    rules.check(without_strings(code.text), _given(starter, includes))
    return code


@cache
def _given(starter: str, includes: tuple[str, ...]) -> str:
    return without_strings(preprocessed(starter, includes))


def preprocessed(source: str, includes: tuple[str, ...]) -> str:
    """As many lines as the source, without comments, directives and macros. What it includes must be among
    `includes`, of which nothing is read here. Raises Failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for header in includes:
            (folder / "include" / header).parent.mkdir(parents=True, exist_ok=True)
            (folder / "include" / header).touch()
        (folder / FILE).write_text(source.removeprefix("\ufeff"), encoding="utf-8")
        ended = run_confined([*PREPROCESS, FILE, "-o", "out"], LIMITS, writable=[folder], cwd=folder)
        if ended.status == 0:
            return _in_lines(
                (folder / "out").read_text(encoding="utf-8", errors="replace"), source.count("\n") + 1
            )
    found = re.search(rf"^{FILE}:(\d+):\d+: (?:fatal )?error: (.*)", ended.said, re.MULTILINE)
    endless = "the preprocessor does not come to its end: macros make too much of the file"
    line, said = (int(found[1]), found[2]) if found else (0, endless)
    if missing := re.search(r"(.*): No such file|#include", said):
        only = f"only the starter's includes are allowed: {', '.join(includes)}."
        raise broken_rule(line, f"it includes {missing[1] or 'something'}; {only}")
    raise Failed(
        Finding("compile", f"It does not compile: {said}.", line, look="the line, and the ones before it.")
    )


def _in_lines(made: str, count: int) -> str:
    """What the preprocessor made, each line where it is in the source."""
    lines, at, mine = [list[str]() for _ in range(count + 1)], 1, True
    no_line = "`#line` and `_Pragma` are not allowed here: an exercise needs none."
    for text in made.split("\n"):
        marker = re.match(r'# (\d{1,9}) "([^"]*)"', text)
        if marker is None:
            if mine and text and at <= count:
                if lines[at] and text.startswith("#"):
                    raise broken_rule(at, no_line)
                lines[at].append(text)
            at += mine
        elif mine := marker[2] == FILE:
            if 0 < int(marker[1]) < at:
                raise broken_rule(min(int(marker[1]), count), no_line)
            at = int(marker[1]) or at
        elif not marker[2].startswith(("include/", "<")):
            raise broken_rule(min(at, count), no_line)
    return "\n".join(map(" ".join, lines[1:]))
