"""Every count of wavefronts that a step's page states is one that a claim of the step recomputes from the
GPU's counters. One that follows from reading the source alone is not let through, however plausible: the
compiler merges loads that stand apart in the source."""

import ast
import re
from collections.abc import Iterator

import pytest
from conftest import ROOT
from tools.claims.claims import load
from tools.claims.context import Context, all_steps
from tools.claims.values import Comparison, explain, parse, sources
from tools.pages.page import PART, VALUE_END, line_of, prose

# These state counts of the X-ray, which `ladder calibrate` holds to the counters, and counts by the source.
BY_THE_XRAY = {"03_shared_memory", "21_tensor_cores", "22_shared_fragments", "23_swizzle", "25_ldmatrix"}
STEPS = [step for step in all_steps() if step not in BY_THE_XRAY]
# Not "one": "a cycle for one wavefront" says what it is.
WORDS = {"two": 2, "three": 3, "four": 4, "eight": 8, "twelve": 12, "sixteen": 16, "twenty": 20}
NUMBER = rf"\d[\d ]*(?:\.\d+)?|\b(?:{'|'.join(WORDS)})"
STATED = re.compile(rf"({NUMBER})[\s{VALUE_END}]*\*?wavefronts?\b", re.IGNORECASE)
IN_A_CELL = re.compile(rf"({NUMBER})[\s{VALUE_END}]*$", re.IGNORECASE)
COUNTED = re.compile(r"(?:profile|variant)\(.*(?:wavefronts|excess)")


def number(text: str) -> float:
    return float(WORDS.get(text.lower(), text.replace(" ", "") if text[0].isdigit() else 0))


def stated(page: str) -> Iterator[tuple[int, float]]:
    """Counts in prose and in tables' rows about wavefronts, each with its line. Not those that an inline
    value takes from the counters itself."""

    def without_counted(part: re.Match[str]) -> str:
        return " " * len(part[0]) if part["expression"] and COUNTED.search(part["expression"]) else part[0]

    for first, text in prose(PART.sub(without_counted, page)):
        cells = text.strip().strip("|").split("|") if text.lstrip().startswith("|") else []
        if cells and "wavefronts" in cells[0]:
            found = [match for cell in cells[1:] if (match := IN_A_CELL.search(cell))]
            yield from ((first, number(match[1])) for match in found)
        else:
            yield from ((first - 1 + line_of(text, m.start()), number(m[1])) for m in STATED.finditer(text))


def recomputed(checks: list[str], context: Context) -> set[float]:
    """What the claims find equal to a GPU's counts of wavefronts, or to within 5 % if a claim bounds it."""
    found: set[float] = set()
    for one in (one for check in checks for one in made(check, context)):
        if COUNTED.search(one.left) or COUNTED.search(one.right):
            slack = 0 if one.sign == "==" else 0.05
            if abs(one.left_value - one.right_value) <= slack * abs(one.right_value):
                found |= {float(one.left_value), float(one.right_value)}
    return found


def made(check: str, context: Context) -> Iterator[Comparison]:
    """A claim's comparisons with counters, which need no build; each part of an `and` by itself."""
    tree = parse(check)
    for part in map(ast.unparse, tree.values if isinstance(tree, ast.BoolOp) else [tree]):
        if COUNTED.search(part) and not {"xray", "sass"} & set(sources(part)):
            yield from explain(part, context).comparisons


@pytest.mark.parametrize("step", STEPS)
def test_each_count_is_recomputed(step):
    page = (ROOT / "docs" / "steps" / f"{step}.md").read_text()
    checks = [claim.check for claim in load(ROOT / "steps" / step / "claims.toml")]
    known = recomputed(checks, Context(None, step))
    counts = list(stated(page))
    assert counts or step not in ("06_vectorization", "07_bank_conflicts", "08_warp_tiling", "09_async_copy")
    unknown = [f"{step}.md:{line}: {count:g}" for line, count in counts if count not in known]
    assert not unknown, f"no claim counts these wavefronts on the GPU: {unknown}; counted are {sorted(known)}"


def test_what_counts_as_stated():
    inline = "<!--= profile(here).wavefronts('LDS') / 1e6 | .0f -->403<!--/-->"
    seen = "<!--= xray(here).load('Bs').wavefronts_per_request | .0f -->8<!--/-->"
    page = f"""A load takes {inline} million wavefronts, not 4\nwavefronts; `Bs` {seen} wavefronts.

| a | b |
|---|---|
| wavefronts of loads | 2 × 2 + 2 × 8 = 20 | four |
| others | 7 |

| *twelve wavefronts* of stores | 36 |
"""
    assert [count for _, count in stated(page)] == [4, 8, 20, 4, 36]


def test_what_counts_as_recomputed():
    context = Context(None, "07_bank_conflicts")
    counted = "profile(here).wavefronts('LDS') / profile(here).executed('LDS')"
    assert recomputed([f"{counted} == 3"], context) == {3}
    assert recomputed([f"2 < {counted} < 5", "const(here, 'PAD') == 4"], context) == set()
