"""Numbers in prose: each is generated, defined, or follows from others before the reader's eyes.

A number that people typed, outside code, is fine if
- a pattern of docs/definitions.toml covers it: what is so by definition ("32 lanes", "FP32", "step 05"), or
- it stands in an equation that holds: "2 × 4096³ = 137 438 953 472". Inline values count as numbers there,
  and a step's page may use the constants of its kernel, as in "`BM` × `BK` × 4 bytes = 8192 bytes".
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.base import UsageError, read_toml
from tools.pages.arithmetic import equations
from tools.pages.page import CODE, VALUE_BEGIN, VALUE_END, line_of, prose

FILE = "docs/definitions.toml"
DIGITS = re.compile(r"\d+(?:[.,\u00a0\u2009\u202f]\d+)*")
NOT_TYPED = re.compile(rf"{VALUE_BEGIN}[^{VALUE_END}]*{VALUE_END}|{CODE}[^{CODE}]*{CODE}")
HEADING_NUMBER = re.compile(r"\s*#{1,6}\s+(?:\d+\b)")


def definitions(root: Path) -> list[re.Pattern[str]]:
    """The patterns of docs/definitions.toml. A blank in a pattern stands for any white space."""
    path, found = root / FILE, []
    for number, entry in enumerate(read_toml(path).get("definition", []), 1):
        pattern, reason = entry.get("pattern"), entry.get("reason")
        if not isinstance(pattern, str) or not isinstance(reason, str) or not reason.strip():
            raise UsageError(f"{path}: definition {number} lacks its pattern or its reason")
        try:
            found.append(re.compile(pattern.replace(" ", r"[\s\u00a0\u2009\u202f]+")))
        except re.error as error:
            raise UsageError(f"{path}: definition {number}: '{pattern}': {error}") from None
    return found


def check(path: Path, page: str, known: list[re.Pattern[str]], names: Mapping[str, float]) -> Iterator[str]:
    """One line for each number without a derivation and each equation that does not hold. names: constants
    that equations may use."""
    for first, text in prose(page):
        numbers = list(DIGITS.finditer(text))
        patterns = (NOT_TYPED, HEADING_NUMBER, *known) if numbers else ()
        covered = [m.span() for p in patterns for m in p.finditer(text)]
        for equation in equations(text, names):
            left, right = equation.left, equation.right
            covered.append((left.begin, right.end))
            if not equation.holds:
                values = f"{plain(left.value)} {equation.relation} {plain(right.value)}"
                shown = f"'{excerpt(text, left.begin, right.end)}' does not hold: {values}; put it right"
                yield f"{path}:{first - 1 + line_of(text, left.begin)}: {shown}"
        for match in numbers:
            if not any(begin <= match.start() and match.end() <= end for begin, end in covered):
                around = f"{match[0]} in '{excerpt(text, match.start(), match.end(), 24)}'"
                remedy = f"write an inline value or an equation, or add what it means to {FILE}"
                yield f"{path}:{first - 1 + line_of(text, match.start())}: {around}: {remedy}"


def plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:.6g}"


def excerpt(text: str, begin: int, end: int, margin: int = 0) -> str:
    """Some of a text in one line, without the marks."""
    part = text[max(0, begin - margin) : end + margin]
    return " ".join(re.sub(f"[{VALUE_BEGIN}{VALUE_END}{CODE}]", "", part).split())
