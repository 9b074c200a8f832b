"""Equations in prose: finding them and seeing whether they hold.

  2 × 4096³ = 137 438 953 472 FLOP ≈ 137 GFLOP

Numbers may have their digits in groups of three (by commas or spaces), units with prefixes (k M G T, Ki Mi
Gi, m µ n), or words (thousand ... trillion, %). Operators are × · * / ÷ + − - ^ and raised digits. Apart
from their prefixes units are not looked at. "=" is exact, or correct to the last digit that is written if
there is a decimal point or a prefix; "≈" is within 2 %.

A side is rewritten as an expression of values.py, each number with its power and its unit as one value.
"""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tools.claims.context import Context
from tools.claims.objects import ExpressionError
from tools.claims.values import evaluate, number
from tools.pages.page import CODE, VALUE_BEGIN, VALUE_END

TOLERANCE = 0.02  # of ≈
SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
OPERATORS = {"·": "*", "×": "*", "÷": "/", "−": "-", "(": "(("}  # the second bracket ends before the unit

PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "µ": 1e-6, "μ": 1e-6}
PREFIXES |= {"n": 1e-9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
BASES = ("B", "byte", "bytes", "FLOP", "FLOPs", "FLOPS", "s", "Hz", "W", "FFMA", "FFMAs", "bit", "bits")
WORDS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "%": 0.01, "percent": 0.01}
WORDS |= {prefix: PREFIXES[prefix] for prefix in ("k", "M", "G", "T", "Ki", "Mi", "Gi")}
SCALES = dict.fromkeys((*BASES, "×"), 1.0) | WORDS
SCALES |= {prefix + base: scale for prefix, scale in PREFIXES.items() for base in BASES}


def pattern(names: Mapping[str, float]) -> re.Pattern[str]:
    """Of the pieces of a passage. A value, or a bracket that ends one, has its power, its unit and the words
    behind that with it; what is emphasised or an inline value has marks within."""
    name = "|".join(map(re.escape, names)) or "(?!)"
    word = rf"(?!(?:{name})\b)(?:%|[^\W\d_](?:[\w'’]*(?:/[^\W\d_]+)?)*)"
    gap = rf"[\s*{VALUE_BEGIN}{VALUE_END}]"
    return re.compile(
        rf"""
          (?: (?P<number>\d{{1,3}}(?:[,\ \u00a0\u2009\u202f]\d{{3}})+(?!\d)(?:\.\d+)?(?!-[a-z])|\d+(?:\.\d+)?)
            | (?P<name>{CODE}(?:{name}){CODE}|(?:{name})\b) | (?P<bracket>\)) )
          (?P<power>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\^\d+(?![\d.]))?
          (?: (?P<gap>{gap}*)(?P<unit>{word}|×(?=\s+[a-z])) (?:{gap}+{word}){{0,4}} )?
        | (?P<relation>[=≈])
        | (?P<operator>[×·/÷+−(]|(?<=\s)[-*](?=\s))
        | (?P<other>{CODE}[^{CODE}\n]*{CODE}|\w+|[^\s*{VALUE_BEGIN}{VALUE_END}])
        """,
        re.VERBOSE,
    )


class Piece(NamedTuple):
    """Of a passage, as a part of an expression of values.py, or a whole side of an equation. python: "" for
    what is part of neither; slack: half of the last written digit, None of what is no number; explains: it is
    more than a number: an operation, a prefix, a constant."""

    python: str
    begin: int
    end: int
    slack: float | None = None
    explains: bool = True
    value: float = 0.0  # of a side


class Equation(NamedTuple):
    left: Piece
    relation: str
    right: Piece

    @property
    def holds(self) -> bool:
        a, b = self.left.value, self.right.value
        if self.relation == "≈":
            return abs(a - b) <= TOLERANCE * max(abs(a), abs(b))
        slack = max(self.left.slack or 0, self.right.slack or 0)
        return abs(a - b) <= slack * 1.0001 + 1e-12 * abs(a)


def scale_of(unit: str) -> float:
    """Of a unit: 1e12 for TFLOP/s, 1 for one without a prefix or an unknown one."""
    above, _, below = unit.partition("/")
    return SCALES.get(above, 1.0) / SCALES.get(below, 1.0)


def piece(match: re.Match[str], names: Mapping[str, float]) -> Piece:
    if content := match["relation"] or match["operator"]:
        return Piece(OPERATORS.get(content, content), *match.span())
    unit, scale = match["unit"] or "", scale_of(match["unit"] or "")
    glued = unit and not match["gap"] and scale == 1.0 and unit not in SCALES
    if match["other"] or glued:  # "2MNK"
        return Piece("", *match.span())
    power = int((match["power"] or "1").lstrip("^").translate(SUPERSCRIPTS))
    factors = f" ** {power}" * (power != 1) + f" * {scale}" * (scale != 1.0)
    if match["bracket"]:
        return Piece(f"){factors})", *match.span())
    if match["name"]:
        return Piece(f"({names[match['name'].strip(CODE)]!r}{factors})", *match.span(), 0.0)
    digits = re.sub(r"[^\d.]", "", match["number"])
    decimals = len(digits.partition(".")[2])
    slack = 0.5 * 10.0**-decimals if decimals and power == 1 else 0.0
    slack = (slack or 0.5) * scale if scale != 1.0 else slack
    return Piece(f"({digits.lstrip('0') or 0}{factors})", *match.span(), slack, bool(factors))


def read(part: list[Piece]) -> Piece | None:
    """An expression as one side; None if the pieces are none."""
    if part[0].python == "+" or not all(piece.python for piece in part):
        return None
    python = " ".join(piece.python for piece in part)
    try:
        value = number(evaluate(python, Context(None, "")))
    except ExpressionError:
        return None
    slacks = [piece.slack for piece in part if piece.slack is not None]
    explains = len(part) > 1 or part[0].explains
    return Piece(python, part[0].begin, part[-1].end, slacks[0] if len(slacks) == 1 else 0.0, explains, value)


def side(pieces: list[Piece], begin: int, end: int, left: bool) -> Piece | None:
    """The longest expression that ends right at `end` or, on the right, begins right at `begin`. None if it
    is a part of one with unknown names."""
    for n in range(end - begin):
        first, last = (begin + n, end) if left else (begin, end - n)
        if found := read(pieces[first:last]):
            beside = pieces[first - 1 : first] if left else pieces[last : last + 1]
            return None if beside and beside[0].python in ("+", "-", "*", "/") else found
    return None


def equations(text: str, names: Mapping[str, float]) -> Iterator[Equation]:
    """The equations of a passage both sides of which are numbers; whether they hold is theirs to say. names:
    the constants that words may stand for."""
    pieces = [piece(match, names) for match in pattern(names).finditer(text)]
    ends = [n for n, piece in enumerate(pieces) if piece.python in ("=", "≈")]
    last = None
    for begin, at, end in zip([-1, *ends], ends, [*ends[1:], len(pieces)], strict=False):
        left, right = side(pieces, begin + 1, at, True), side(pieces, at + 1, end, False)
        if not left or not right:
            continue
        if left.explains or right.explains or last == left.begin:  # "54 = 54" does not
            yield Equation(left, pieces[at].python, right)
            last = right.begin
