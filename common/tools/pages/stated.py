"""Numbers in prose: each is generated, defined, or follows from others before the reader's eyes.

A number that people typed, outside code, is fine if
- a pattern of docs/definitions.toml covers it: what is so by definition ("32 lanes", "FP32", "step 05"), or
- it stands in an equation that holds: "2 × 4096³ = 137 438 953 472". Inline values count as numbers there,
  and a step's page may use the constants of its kernel, as in "`BM` × `BK` × 4 bytes = 8192 bytes".
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from tools.base import ROOT, UsageError
from tools.pages.arithmetic import equations
from tools.pages.page import CODE, VALUE_BEGIN, VALUE_END, Page, Passage, prose

FILE = "docs/definitions.toml"
DIGITS = re.compile(r"\d+(?:[.,\u00a0\u2009\u202f]\d+)*")
NOT_TYPED = re.compile(rf"{VALUE_BEGIN}[^{VALUE_END}]*{VALUE_END}|{CODE}[^{CODE}]*{CODE}")
HEADING_NUMBER = re.compile(r"\s*#{1,6}\s+(?:\d+\b)")


class DefinitionError(UsageError):
    """What is wrong with docs/definitions.toml, in one line."""


@dataclass(frozen=True)
class Definition:
    pattern: re.Pattern[str]
    reason: str


def definitions() -> list[Definition]:
    """The patterns of docs/definitions.toml. A blank in a pattern stands for any white space."""
    path = ROOT / FILE
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise DefinitionError(f"{FILE}: does not exist") from None
    except (OSError, ValueError) as error:
        raise DefinitionError(f"{FILE}: cannot be read: {error}") from None
    found = []
    for number, entry in enumerate(content.get("definition", []), 1):
        pattern, reason = entry.get("pattern"), entry.get("reason")
        if not isinstance(pattern, str) or not isinstance(reason, str) or not reason.strip():
            raise DefinitionError(f"{FILE}: definition {number} lacks its pattern or its reason")
        try:
            compiled = re.compile(pattern.replace(" ", r"[\s\u00a0\u2009\u202f]+"))
        except re.error as error:
            raise DefinitionError(f"{FILE}: definition {number}: '{pattern}': {error}") from None
        if compiled.search(" 1234567.5 "):
            raise DefinitionError(f"{FILE}: definition {number}: '{pattern}' fits any number")
        found.append(Definition(compiled, reason))
    return found


def check(page: Page, known: list[Definition], names: Mapping[str, float]) -> list[str]:
    """One line for each number without a derivation and each equation that does not hold. names: constants
    that equations may use."""
    return [finding for passage in prose(page) for finding in check_passage(page, passage, known, names)]


def check_passage(
    page: Page, passage: Passage, known: list[Definition], names: Mapping[str, float]
) -> list[str]:
    text = passage.text
    covered = [match.span() for match in NOT_TYPED.finditer(text)]
    covered += [match.span() for definition in known for match in definition.pattern.finditer(text)]
    covered += [match.span() for match in HEADING_NUMBER.finditer(text)]
    findings = []
    for equation in equations(text, names):
        left, right = equation.left, equation.right
        covered.append((left.begin, right.end))
        if not equation.holds:
            shown = excerpt(text, left.begin, right.end, 0)
            findings.append(
                f"{page.path}:{passage.line_at(left.begin)}: '{shown}' does not hold: {plain(left.value)} "
                f"{equation.relation} {plain(right.value)}; put it right"
            )
    for match in DIGITS.finditer(text):
        if not any(begin <= match.start() and match.end() <= end for begin, end in covered):
            where = f"{page.path}:{passage.line_at(match.start())}"
            around = excerpt(text, match.start(), match.end(), 24)
            remedy = f"write an inline value or an equation, or add what it means to {FILE}"
            findings.append(f"{where}: {match[0]} in '{around}': {remedy}")
    return findings


def plain(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:.6g}"


def excerpt(text: str, begin: int, end: int, margin: int) -> str:
    """Some of a text in one line, without the marks."""
    part = text[max(0, begin - margin) : end + margin]
    return " ".join(re.sub(f"[{VALUE_BEGIN}{VALUE_END}{CODE}]", "", part).split())
