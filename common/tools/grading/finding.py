"""What the grader found, and how it is said. Standard library only."""

import re
import textwrap
from dataclasses import dataclass, field

WIDTH = 96


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
    device: where it was graded; seconds: how long that took."""

    finding: Finding | None
    notes: list[str] = field(default_factory=list)
    device: str = ""
    seconds: float = 0

    @property
    def passed(self) -> bool:
        return self.finding is None


def wrapped(text: str, indent: str = "  ", further: str | None = None) -> str:
    """Text in lines of at most 100 columns; blank lines, lists and lines that begin with spaces are kept."""
    further = indent if further is None else further
    pieces: list[str] = []
    goes_on = False
    for line in text.strip("\n").splitlines():
        kept = re.match(r"\s|[-*] |\d[\d.]|$", line) is not None
        if goes_on and not kept:
            pieces[-1] += f" {line.strip()}"
        else:
            pieces.append(line)
        goes_on = not kept
    out: list[str] = []
    for piece in pieces:
        spaces = piece[: len(piece) - len(piece.lstrip())]
        item = re.match(r"\s|[-*] |\d[\d.]", piece)
        wrapper = textwrap.TextWrapper(WIDTH, break_long_words=False, break_on_hyphens=False)
        wrapper.initial_indent = (further if out or item else indent) + spaces
        wrapper.subsequent_indent = further + spaces + ("  " if item else "")
        out.append(wrapper.fill(piece.strip()))
    return "\n".join(out)


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
    return "\n".join(lines)
