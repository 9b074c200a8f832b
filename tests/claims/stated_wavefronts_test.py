"""Every count of wavefronts that a page states is one that a claim recomputes from the GPU's counters. One
that follows from reading the source alone is not let through, however plausible: the compiler merges loads
that stand apart in the source."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest
from conftest import ROOT
from tools.claims.claims import load
from tools.claims.context import Context, all_steps
from tools.claims.values import Comparison, explain, parse, sources
from tools.pages.page import PART, VALUE_END, line_of, prose

# These may state the X-ray's counts, which `ladder calibrate` holds to the counters: as a value, or as a
# number that a claim finds equal to such a count.
BY_THE_XRAY = {"03_shared_memory", "21_tensor_cores", "22_shared_fragments", "23_swizzle", "25_ldmatrix"}
# Not "one": "a cycle for one wavefront" says what it is.
WORDS = {"two": 2, "three": 3, "four": 4, "eight": 8, "twelve": 12, "sixteen": 16, "twenty": 20}
COUNT = rf"\d[\d ]*(?:\.\d+)?|\b(?:{'|'.join(WORDS)})"
NUMBER = rf"(?<!step )(?<![\dL])(?:{COUNT})"
STATED = re.compile(rf"({NUMBER})[\s{VALUE_END}]*\*?wavefronts?\b", re.IGNORECASE)
IN_A_CELL = re.compile(rf"({NUMBER})[\s{VALUE_END}]*$", re.IGNORECASE)
COUNTED = re.compile(r"(?:profile|variant)\(.*(?:wavefronts|excess)")
SEEN = re.compile(r"xray\(.*wavefronts")


def number(text: str) -> float:
    return float(WORDS.get(text.lower(), text.replace(" ", "") if text[0].isdigit() else 0))


def stated(page: str, *sources: re.Pattern[str]) -> Iterator[tuple[int, float]]:
    """Counts in prose and in tables' rows about wavefronts, each with its line. Not those that an inline
    value takes from such a source itself."""

    def without_counted(part: re.Match[str]) -> str:
        counted = part["expression"] and any(source.search(part["expression"]) for source in sources)
        return " " * len(part[0]) if counted else part[0]

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


def seen(checks: list[str]) -> set[float]:
    """The numbers, or first factors of products, that the claims compare with the X-ray's counts by ==."""
    found: set[float] = set()
    for node in (node for check in checks for node in ast.walk(parse(check))):
        if isinstance(node, ast.Compare) and all(isinstance(sign, ast.Eq) for sign in node.ops):
            sides = [node.left, *node.comparators]
            if any(SEEN.search(ast.unparse(side)) for side in sides):
                factors = [side.left if isinstance(side, ast.BinOp) else side for side in sides]
                found |= {float(one.value) for one in factors if isinstance(one, ast.Constant)}
    return found


@cache
def known_in(step: str) -> set[float]:
    checks = [claim.check for claim in load(ROOT / "steps" / step / "claims.toml")]
    return recomputed(checks, Context(None, step)) | (seen(checks) if step in BY_THE_XRAY else set())


@pytest.mark.parametrize("step", all_steps())
def test_each_count_is_recomputed(step):
    page = (ROOT / "docs" / "steps" / f"{step}.md").read_text()
    known = known_in(step)
    counts = list(stated(page, COUNTED, *([SEEN] if step in BY_THE_XRAY else [])))
    assert counts or step not in ("06_vectorization", "07_bank_conflicts", "08_warp_tiling", "09_async_copy")
    unknown = [f"{step}.md:{line}: {count:g}" for line, count in counts if count not in known]
    assert not unknown, f"no claim counts these wavefronts on the GPU: {unknown}; counted are {sorted(known)}"


OTHER_PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "steps")


@pytest.mark.parametrize("page", [ROOT / "README.md", *OTHER_PAGES], ids=lambda page: page.stem)
def test_each_count_on_another_page_is_a_steps(page):
    """Of some step, whose claims recompute it."""
    known = set[float]().union(*map(known_in, all_steps()))
    unknown = [(line, count) for line, count in stated(page.read_text(), COUNTED, SEEN) if count not in known]
    assert not unknown


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
    assert [count for _, count in stated(page, COUNTED)] == [4, 8, 20, 4, 36]
    assert [count for _, count in stated(page, COUNTED, SEEN)] == [4, 20, 4, 36]
    assert list(stated("| wavefronts | counted, step 22 |\n", COUNTED)) == []


def test_what_counts_as_seen():
    of_a = "xray(here).load('A').wavefronts_per_request"
    assert seen([f"{of_a} == 8 and 2 < {of_a} < 9", "xray(here).load('B').wavefronts == 2 * (5 * 7)"]) == {
        8,
        2,
    }
    assert seen(["const(here, 'PAD') == 4", "xray(here).requests == 3"]) == set()


def test_what_counts_as_recomputed():
    context = Context(None, "07_bank_conflicts")
    counted = "profile(here).wavefronts('LDS') / profile(here).executed('LDS')"
    assert recomputed([f"{counted} == 3"], context) == {3}
    assert recomputed([f"2 < {counted} < 5", "const(here, 'PAD') == 4"], context) == set()
