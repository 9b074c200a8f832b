"""Equations in prose: finding them and seeing whether they hold.

  2 × 4096³ = 137 438 953 472 FLOP ≈ 137 GFLOP

Numbers may have their digits in groups of three (by commas or spaces), units with prefixes (k M G T, Ki Mi
Gi, m µ n), or words (thousand ... trillion, %). Operators are × · * / ÷ + − - ^ and raised digits. Apart
from their prefixes units are not looked at. "=" is exact, or correct to the last digit that is written if
there is a decimal point or a prefix; "≈" is within 2 %.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tools.pages.page import CODE, VALUE_BEGIN, VALUE_END

TOLERANCE = 0.02  # of ≈
MOST_UNIT_WORDS = 5

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
TOKEN = re.compile(
    rf"""
      (?P<number>\d{{1,3}}(?:[,\ \u00a0\u2009\u202f]\d{{3}})+(?!\d)(?:\.\d+)?(?!-[a-z])|\d+(?:\.\d+)?)
    | (?P<power>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)
    | (?P<relation>[=≈])
    | (?P<operator>\*\*|[×·*/÷+−^()]|(?<=[\s\u00a0])-(?=[\s\u00a0]))
    | (?P<word>%|[^\W\d_](?:[\w'’]*(?:/[^\W\d_]+)?)*)
    | (?P<mark>[{VALUE_BEGIN}{VALUE_END}])
    | (?P<code>{CODE}[^{CODE}\n]*{CODE})
    | (?P<other>\S)
    """,
    re.VERBOSE,
)
OPERATORS = {"·": "×", "*": "×", "÷": "/", "−": "-", "**": "^"}


@dataclass(frozen=True)
class Token:
    kind: str
    text: str
    begin: int
    end: int


@dataclass(frozen=True)
class Side:
    """One side of an equation: its value, the half of its last written digit, and where it stands."""

    value: float
    slack: float
    begin: int
    end: int
    explains: bool  # holds an operation, a prefix or a constant


@dataclass(frozen=True)
class Equation:
    left: Side
    relation: str
    right: Side

    @property
    def holds(self) -> bool:
        a, b = self.left, self.right
        difference = abs(a.value - b.value)
        if self.relation == "≈":
            return difference <= TOLERANCE * max(abs(a.value), abs(b.value))
        return difference <= max(a.slack, b.slack) * 1.0001 + 1e-12 * abs(a.value)


def tokens(text: str) -> list[Token]:
    found = []
    for match in TOKEN.finditer(text):
        kind, content = match.lastgroup or "", match[0]
        if kind == "mark":
            continue
        if kind == "operator":
            # Emphasis, not multiplication.
            if content in ("*", "**") and not (
                text[match.start() - 1 : match.start()].isspace()
                and text[match.end() : match.end() + 1].isspace()
            ):
                continue
            content = OPERATORS.get(content, content)
        if kind == "code":
            content = content.strip(CODE)
        found.append(Token(kind, content, match.start(), match.end()))
    return found


# ---- Units -----------------------------------------------------------------------------------------------

PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "µ": 1e-6, "μ": 1e-6}
PREFIXES |= {"n": 1e-9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
BASES = ("B", "byte", "bytes", "FLOP", "FLOPs", "FLOPS", "s", "Hz", "W", "FFMA", "FFMAs", "bit", "bits")
WORDS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "%": 0.01, "percent": 0.01}
WORDS |= {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
SCALES = WORDS | {prefix + base: scale for prefix, scale in PREFIXES.items() for base in BASES}


def scale_of(word: str) -> float:
    """Of a unit: 1e12 for TFLOP/s, 1 for one without a prefix or an unknown one."""
    above, _, below = word.partition("/")
    return SCALES.get(above, 1.0) / (SCALES.get(below, 1.0) if below else 1.0)


# ---- Expressions -----------------------------------------------------------------------------------------


class NoExpression(Exception):
    pass


class Parser:
    """Reads an expression from tokens[at] on. `names` are the constants that words may stand for."""

    def __init__(self, all_tokens: list[Token], at: int, names: Mapping[str, float]):
        self.tokens, self.at, self.names = all_tokens, at, names
        self.numbers = 0
        self.slack = 0.0  # of the last number

    def peek(self, kind: str, *texts: str) -> bool:
        if self.at >= len(self.tokens):
            return False
        token = self.tokens[self.at]
        return token.kind == kind and (not texts or token.text in texts)

    def sum(self) -> float:
        value = self.product()
        while self.peek("operator", "+", "-"):
            sign = 1 if self.tokens[self.at].text == "+" else -1
            self.at += 1
            value += sign * self.product()
        return value

    def product(self) -> float:
        value = self.factor()
        while self.peek("operator", "×", "/"):
            multiply = self.tokens[self.at].text == "×"
            before = self.at
            self.at += 1
            try:
                factor = self.factor()
            except NoExpression:
                if multiply and self.is_times_sign(before):  # "2.5×": no factor follows
                    break
                raise
            if not multiply and factor == 0:
                raise NoExpression
            value = value * factor if multiply else value / factor
        return value

    def is_times_sign(self, at: int) -> bool:
        """Whether the × at a place stands behind a number like a unit."""
        self.at = at + 1
        return self.tokens[at - 1].kind == "number" and self.tokens[at - 1].end == self.tokens[at].begin

    def factor(self) -> float:
        if self.peek("operator", "-"):
            self.at += 1
            return -self.factor()
        value = self.atom()
        if self.peek("operator", "^"):
            self.at += 1
            value = self.raised(value, self.factor())
        elif self.peek("power"):
            value = self.raised(value, int(self.tokens[self.at].text.translate(SUPERSCRIPTS)))
            self.at += 1
        return value * self.units()

    def raised(self, value: float, power: float) -> float:
        self.slack = 0.0  # a power is exact
        if abs(power) > 64 or (value == 0 and power < 0):
            raise NoExpression
        return value**power

    def atom(self) -> float:
        if self.peek("operator", "("):
            self.at += 1
            value = self.sum()
            if not self.peek("operator", ")"):
                raise NoExpression
            self.at += 1
            return value
        if self.at >= len(self.tokens):
            raise NoExpression
        token = self.tokens[self.at]
        self.at += 1
        self.numbers += 1
        if token.kind == "number":
            digits = re.sub(r"[^\d.]", "", token.text)
            self.slack = 0.5 * 10.0 ** -len(digits.partition(".")[2]) if "." in digits else 0.0
            return float(digits) if "." in digits else int(digits)
        if token.kind in ("word", "code") and token.text in self.names:
            return self.names[token.text]
        raise NoExpression

    def units(self) -> float:
        """Skips the words behind a number and returns what the first of them multiplies it by."""
        scale = 1.0
        for n in range(MOST_UNIT_WORDS):
            if not self.peek("word") or self.tokens[self.at].text in self.names:
                break
            token = self.tokens[self.at]
            word = token.text
            if token.begin == self.tokens[self.at - 1].end and scale_of(word) == 1.0 and word not in BASES:
                raise NoExpression  # "2MNK"
            self.at += 1
            if self.peek("operator", "/") and self.at + 1 < len(self.tokens):
                below = self.tokens[self.at + 1]
                if below.kind == "word" and below.text not in self.names:  # "TFLOP / s"
                    word += "/" + below.text
                    self.at += 2
            if n == 0:
                scale = scale_of(word)
        if scale != 1.0:
            self.slack = (self.slack or 0.5) * scale
        return scale


def read(
    all_tokens: list[Token], begin: int, end: int, names: Mapping[str, float]
) -> tuple[Side, int] | None:
    """The longest expression from `begin` on that ends at or before `end`, and where it ends."""
    parser = Parser(all_tokens[:end], begin, names)
    try:
        value = parser.sum()
    except (NoExpression, OverflowError):
        return None
    at = parser.at
    slack = parser.slack if parser.numbers == 1 else 0.0
    used = all_tokens[begin:at]
    return Side(value, slack, used[0].begin, used[-1].end, explains(used, names)), at


def explains(part: list[Token], names: Mapping[str, float]) -> bool:
    """Whether there is more than a number: an operation, a prefix, a constant."""
    return any(
        token.kind in ("operator", "power") or scale_of(token.text) != 1.0 or token.text in names
        for token in part
    )


def equations(text: str, names: Mapping[str, float]) -> list[Equation]:
    """The equations of a passage both sides of which are numbers; whether they hold is theirs to say."""
    found: list[Equation] = []
    all_tokens = tokens(text)
    relations = [n for n, token in enumerate(all_tokens) if token.kind == "relation"]
    for index, at in enumerate(relations):
        begin = relations[index - 1] + 1 if index else 0
        end = relations[index + 1] if index + 1 < len(relations) else len(all_tokens)
        left = left_side(all_tokens, begin, at, names)
        right = right_side(all_tokens, at + 1, end, names)
        if not left or not right:
            continue
        goes_on_from_last = bool(found) and found[-1].right.begin == left.begin
        if left.explains or right.explains or goes_on_from_last:  # "54 = 54" does not
            found.append(Equation(left, all_tokens[at].text, right))
    return found


def left_side(all_tokens: list[Token], begin: int, end: int, names: Mapping[str, float]) -> Side | None:
    """The longest expression that ends right at `end`. None if it is a part of one with unknown names."""
    for start in range(begin, end):
        result = read(all_tokens, start, end, names)
        if result and result[1] == end:
            before = all_tokens[start - 1] if start > begin else None
            return (
                None if before and before.kind in ("operator", "power") and before.text != ")" else result[0]
            )
    return None


def right_side(all_tokens: list[Token], begin: int, end: int, names: Mapping[str, float]) -> Side | None:
    """The longest expression that begins right at `begin`; None as above."""
    for stop in range(end, begin, -1):
        result = read(all_tokens, begin, stop, names)
        if result:
            after = all_tokens[result[1]] if result[1] < end else None
            return None if after and after.kind in ("operator", "power") and after.text != "(" else result[0]
    return None
