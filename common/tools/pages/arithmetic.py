"""Equations in prose: finding them and seeing whether they hold.

  2 × 4096³ = 137 438 953 472 FLOP ≈ 137 GFLOP

Numbers may have their digits in groups of three (by commas or spaces), units with prefixes (k M G T, Ki Mi
Gi, m µ n), or words (thousand ... trillion, %). Operators are × · * / ÷ + − - ^ and raised digits. Apart
from their prefixes units are not looked at. "=" is exact, or correct to the last digit that is written if
there is a decimal point or a prefix; "≈" is within 2 %.

A side is rewritten as an expression of values.py, each number with its power and its unit as one value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tools.claims.context import Context
from tools.claims.objects import ExpressionError
from tools.claims.values import evaluate, number
from tools.pages.page import CODE, VALUE_BEGIN, VALUE_END

TOLERANCE = 0.02  # of ≈
MOST_UNIT_WORDS = 5

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
TOKEN = re.compile(
    rf"""
      (?P<number>\d{{1,3}}(?:[,\ \u00a0\u2009\u202f]\d{{3}})+(?!\d)(?:\.\d+)?(?!-[a-z])|\d+(?:\.\d+)?)
    | (?P<power>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+|\^\s*\d+(?![\d.]))
    | (?P<relation>[=≈])
    | (?P<operator>[×·/÷+−()]|(?<=[\s\u00a0])[-*](?=[\s\u00a0]))
    | (?P<word>%|[^\W\d_](?:[\w'’]*(?:/[^\W\d_]+)?)*)
    | [{VALUE_BEGIN}{VALUE_END}*]  # an asterisk elsewhere is emphasis
    | {CODE}(?P<code>[^{CODE}\n]*){CODE}
    | (?P<other>\S)
    """,
    re.VERBOSE,
)
OPERATORS = {"·": "*", "×": "*", "÷": "/", "−": "-"}

PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3, "µ": 1e-6, "μ": 1e-6}
PREFIXES |= {"n": 1e-9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
BASES = ("B", "byte", "bytes", "FLOP", "FLOPs", "FLOPS", "s", "Hz", "W", "FFMA", "FFMAs", "bit", "bits")
WORDS = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "%": 0.01, "percent": 0.01}
WORDS |= {prefix: PREFIXES[prefix] for prefix in ("k", "M", "G", "T", "Ki", "Mi", "Gi")}
SCALES = WORDS | {prefix + base: scale for prefix, scale in PREFIXES.items() for base in BASES}


@dataclass
class Token:
    """A relation, an operator, what is no part of an equation ("other"), or a value: a number, a constant or
    what stands in brackets, with its power and its unit. slack: half of its last written digit."""

    kind: str
    text: str
    begin: int
    end: int
    value: float = 0.0
    slack: float = 0.0
    explains: bool = False  # it is more than a number: an operation, a prefix, a constant
    words: int = 0  # behind it


@dataclass(frozen=True)
class Equation:
    left: Token
    relation: str
    right: Token

    @property
    def holds(self) -> bool:
        a, b = self.left, self.right
        difference = abs(a.value - b.value)
        if self.relation == "≈":
            return difference <= TOLERANCE * max(abs(a.value), abs(b.value))
        return difference <= max(a.slack, b.slack) * 1.0001 + 1e-12 * abs(a.value)


def scale_of(unit: str) -> float:
    """Of a unit: 1e12 for TFLOP/s, 1 for one without a prefix or an unknown one."""
    above, _, below = unit.partition("/")
    return SCALES.get(above, 1.0) / SCALES.get(below, 1.0)


def tokens(text: str, names: Mapping[str, float]) -> list[Token]:
    """`names` are the constants that words may stand for."""
    found = [Token("other", "", 0, 0)]
    matches = [match for match in TOKEN.finditer(text) if match.lastgroup]
    for match, after in zip(matches, [*matches[1:], None], strict=True):
        kind = match.lastgroup or ""
        content = match[kind]
        last, token = found[-1], Token(kind, OPERATORS.get(content, content), *match.span())
        if kind == "number":
            digits = re.sub(r"[^\d.]", "", content)
            token.kind, token.value = "value", float(digits) if "." in digits else int(digits)
            token.slack = 0.5 * 10.0 ** -len(digits.partition(".")[2]) if "." in digits else 0.0
        elif kind in ("word", "code") and content in names:
            token.kind, token.value, token.explains = "value", names[content], True
        elif kind == "power":
            power = int(content.lstrip("^").translate(SUPERSCRIPTS))
            if last.kind == "value" and not last.words and abs(power) <= 64 and (last.value or power > 0):
                last.value, last.slack, last.explains, last.end = last.value**power, 0.0, True, token.end
                continue
        elif kind == "word" and last.kind == "value" and last.words < MOST_UNIT_WORDS:
            scale = 1.0 if last.words else scale_of(content)
            if scale == 1.0 and content not in BASES and last.end == token.begin:
                last.kind = "other"  # "2MNK"
            else:
                if scale != 1.0:
                    last.value, last.slack = last.value * scale, (last.slack or 0.5) * scale
                last.words, last.explains, last.end = last.words + 1, last.explains or scale != 1.0, token.end
                continue
        elif content == ")":
            opening = max((n for n, other in enumerate(found) if other.text == "("), default=len(found))
            if inside := read(found[opening + 1 :]):
                token = replace(inside, begin=found[opening].begin, end=token.end, slack=0.0, explains=True)
                del found[opening:]
        elif content == "×" and last.end == token.begin and text[last.end - 1].isdigit():
            is_factor = after and (
                after.lastgroup == "number" or after[after.lastgroup or 0] in ("(", *names)
            )
            if not is_factor:  # "2.5× faster"
                last.words, last.end = 1, token.end
                continue
        found.append(token)
    return found


def read(part: list[Token]) -> Token | None:
    """An expression as one value; None if the tokens are none."""
    if not part or part[0].text == "+" or any(token.kind not in ("value", "operator") for token in part):
        return None
    try:
        words = (repr(token.value) if token.kind == "value" else token.text for token in part)
        value = number(evaluate(" ".join(words), Context(None, "")))
    except ExpressionError:
        return None
    numbers = [token for token in part if token.kind == "value"]
    slack = numbers[0].slack if len(numbers) == 1 else 0.0
    explains = len(numbers) < len(part) or any(token.explains for token in part)
    return Token("value", "", part[0].begin, part[-1].end, value, slack, explains)


def side(all_tokens: list[Token], begin: int, end: int, left: bool) -> Token | None:
    """The longest expression that ends right at `end` or, on the right, begins right at `begin`. None if it
    is a part of one with unknown names."""
    for n in range(end - begin):
        first, last = (begin + n, end) if left else (begin, end - n)
        if found := read(all_tokens[first:last]):
            beside = all_tokens[first - 1 : first] if left else all_tokens[last : last + 1]
            goes_on = beside and beside[0].kind in ("operator", "power")
            return None if goes_on and beside[0].text != (")" if left else "(") else found
    return None


def equations(text: str, names: Mapping[str, float]) -> list[Equation]:
    """The equations of a passage both sides of which are numbers; whether they hold is theirs to say."""
    found: list[Equation] = []
    all_tokens = tokens(text, names)
    ends = [n for n, token in enumerate(all_tokens) if token.kind == "relation"]
    for begin, at, end in zip([-1, *ends], ends, [*ends[1:], len(all_tokens)], strict=False):
        left, right = side(all_tokens, begin + 1, at, True), side(all_tokens, at + 1, end, False)
        if not left or not right:
            continue
        goes_on_from_last = bool(found) and found[-1].right.begin == left.begin
        if left.explains or right.explains or goes_on_from_last:  # "54 = 54" does not
            found.append(Equation(left, all_tokens[at].text, right))
    return found
