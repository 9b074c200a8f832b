"""What the grader found, and how it is said. Standard library only."""

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
    """Text in lines of at most 100 columns; blank lines and lines that begin with spaces are kept."""
    further = indent if further is None else further
    out: list[str] = []
    paragraph: list[str] = []

    def flush() -> None:
        if paragraph:
            first = indent if not out else further
            out.append(
                textwrap.fill(
                    " ".join(paragraph),
                    WIDTH,
                    initial_indent=first,
                    subsequent_indent=further,
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
            paragraph.clear()

    for line in text.strip("\n").splitlines():
        if not line.strip():
            flush()
            out.append("")
        elif line.startswith((" ", "\t", "- ", "* ")) or line[:2].rstrip(".").isdigit():
            flush()
            out.append(
                textwrap.fill(
                    line.strip(),
                    WIDTH,
                    initial_indent=further + line[: len(line) - len(line.lstrip())],
                    subsequent_indent=further + " " * (len(line) - len(line.lstrip()) + 2),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
        else:
            paragraph.append(line.strip())
    flush()
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
