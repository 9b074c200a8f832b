"""What the grader found, and how it is said. Standard library only."""

import re
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

WIDTH = 96
COMMAND = "./build/exercises"  # in messages and texts; with NAME of the exercise that the file is of


@dataclass
class Finding:
    """The first thing that is wrong. code: its kind, one word or two; line: of the student's file, 0 if none;
    says: in plain words; details: further lines, as they are; look: what to look at next."""

    code: str
    says: str
    line: int = 0
    details: list[str] = field(default_factory=list)
    look: str = ""


class Failed(Exception):
    """Grading ends with this finding."""

    def __init__(self, finding: Finding):
        super().__init__(finding.says)
        self.finding = finding


@dataclass
class Grade:
    """finding: None if the exercise is passed; notes: what was seen and is fine, or could not be checked;
    device: where it was graded; seconds: how long that took; questions: of a prediction, which are right;
    warnings: of the compiler, and of what does not count."""

    finding: Finding | None
    notes: list[str] = field(default_factory=list)
    device: str = ""
    seconds: float = 0
    questions: dict[str, bool] = field(default_factory=dict)
    warnings: list[Finding] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return self.finding is None

    @property
    def points(self) -> float:
        """1 for what is passed, of a prediction as much of 1 as is right."""
        if self.passed or not self.questions:
            return float(self.passed)
        return round(sum(self.questions.values()) / len(self.questions), 2)


@contextmanager
def graded(device: str = "") -> Iterator[Grade]:
    """A grade to be filled in; Failed is its finding."""
    begun = time.monotonic()
    grade = Grade(None, device=device)
    try:
        yield grade
    except Failed as failed:
        grade.finding = failed.finding
    grade.seconds = time.monotonic() - begun


def wrapped(text: str, indent: str = "  ", further: str | None = None) -> str:
    """Text in lines of at most 100 columns; commands, blank lines, lists and lines that begin with spaces are
    kept."""
    further = indent if further is None else further
    out: list[str] = []
    text = re.sub(r"`\./build/[^`]*`", lambda match: re.sub(r"\s", "\0", match[0]), text)  # no break in it
    lines = text.strip("\n").splitlines()
    for kept, group in groupby(lines, lambda line: bool(re.match(r"\s|[-*] |\d[\d.]|$", line))):
        for piece in group if kept else [" ".join(map(str.strip, group))]:
            spaces = piece[: len(piece) - len(piece.lstrip())]
            first, others = (further if out or kept else indent) + spaces, further + spaces + "  " * kept
            wrapper = textwrap.TextWrapper(
                WIDTH, first, others, break_long_words=False, break_on_hyphens=False
            )
            out.append(wrapper.fill(piece.strip()))
    return "\n".join(out).replace("\0", " ")


def show(finding: Finding, file: str, source: str) -> str:
    """The finding as a student reads it; file: the student's file as it is to be named."""
    lines = [wrapped(finding.says)]
    text = source.splitlines()
    if finding.line:
        lines.append(f"  at {file}:{finding.line}")
        if 0 < finding.line <= len(text):
            code = text[finding.line - 1].strip()
            code = code if len(code) <= 84 else code[:81] + "..."
            lines.append(f"    {finding.line:>5} | {code}")
    lines += [wrapped(detail, "    ") for detail in finding.details]
    if finding.look:
        lines.append(wrapped(finding.look, "  Look at: ", "           "))
    return "\n".join(lines).replace(f"{COMMAND} reset NAME", f"{COMMAND} reset {Path(file).stem}")
