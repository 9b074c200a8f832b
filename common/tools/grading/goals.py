"""An exercise's goals: whether a kernel reaches them, on the standard problem and on another.
Standard library only.
"""

import ast
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tools.claims.context import MINE, STANDARD_PROBLEM, Context
from tools.claims.objects import ExpressionError, NotAvailable, rows_of
from tools.claims.values import Comparison, evaluate, explain
from tools.grading.build import BuildError
from tools.grading.content import Goal, names_of
from tools.grading.finding import Failed, Finding
from tools.grading.run import Problem

SIZES = "what the sizes decide: multiples of 4 may take a faster way, and all of them the same."
STANDARD = "M = {}, N = {}, K = {}".format(*STANDARD_PROBLEM)


def is_mine(row: dict[str, Any]) -> bool:
    """Whether an access stands in the student's file."""
    return str(row["file"]).endswith("kernel.cu")


@dataclass
class Elsewhere(Context):
    """As Context, with another problem in place of the standard one."""

    shape: tuple[int, int, int] = STANDARD_PROBLEM
    problem: Problem | None = None  # which this is

    def xray_record(self, step: str, m: int = 256, n: int = 256, k: int = 128) -> dict[str, Any]:
        return super().xray_record(step, *(self.shape if (m, n, k) == STANDARD_PROBLEM else (m, n, k)))


UNCOUNTED = "The machine code, which only nvcc shows and which does not count, misses this:"
NAMES = "the names: this goal finds tiles and constants by those that the starter or its task gives them."


def check_goal(goal: Goal, context: Elsewhere, notes: list[str], remarks: list[Finding]) -> None:
    """Notes a goal that is reached, or cannot be checked here. Raises Failed. The machine code, which only
    nvcc shows, does not decide, so that everybody has the same verdict: it gives a remark."""
    parts = clauses(goal.check)
    try:
        if missed := what_is_missed([part for part in parts if not in_machine_code(part)], context):
            look = NAMES if re.search("accesses no array|has no constant", missed[1][0]) else goal.look
            raise Failed(Finding("goal", f"Right, but not there yet: {goal.says}", *missed, look))
        if missed := what_is_missed([part for part in parts if in_machine_code(part)], context):
            remarks.append(Finding("goal", f"{UNCOUNTED} {goal.says}", *missed, goal.look))
            return
    except NotAvailable as reason:
        why = "only nvcc shows it" if in_machine_code(goal.check) else str(need_built(reason, context))
        notes.append(f"not checked here, {why}: {goal.says}")
        return
    notes.append(goal.says)


def in_machine_code(check: str) -> bool:
    return "sass" in names_of(check)


def need_built(reason: NotAvailable, context: Context) -> NotAvailable:
    """The reason. If it is that a step is not built, raises BuildError."""
    if "is not built" in str(reason):
        raise BuildError(f"{reason}; run `.venv/bin/meson compile -C {context.build}` first") from None
    return reason


def check_elsewhere(goal: Goal, context: Elsewhere, expected: list[bool] | None = None) -> Finding | None:
    """Whether a goal that is reached on the standard problem is reached on the context's, too. expected: of a
    ragged one, which clauses the solution reaches there: the kernel must do so nearly."""
    parts = clauses(goal.check)
    nearly = holds_nearly(goal.check, context) if expected else [False] * len(parts)
    for clause, near, wanted in zip(parts, nearly, expected or [True] * len(parts), strict=True):
        if near or not wanted or in_machine_code(clause):
            continue
        missed = None
        with suppress(NotAvailable):
            missed = what_is_missed([clause], context)
        if missed or expected:
            says = f"Only for some sizes: {goal.says} That holds with {STANDARD}, and not "
            says += f"{'nearly ' if expected else ''}with {context.problem}."
            return Finding("another way", says, *(missed or (0, [])), SIZES)
    return None


def holds_nearly(check: str, context: Elsewhere) -> list[bool]:
    """Of each clause whether it holds for the context's sizes, of which no tile is a divisor, or nearly."""
    held = []
    for clause in clauses(check):
        held.append(False)
        with suppress(NotAvailable, ExpressionError):
            if general := of_other_sizes(clause, context.shape):
                held[-1] = all(_nearly(c) for c in explain(general, context).comparisons)
    return held


def _nearly(comparison: Comparison) -> bool:
    """Whether the comparison holds or is missed by a factor of 2.5 at most; nothing is near 0."""
    sides = comparison.left_value, comparison.right_value
    if comparison.holds or not all(isinstance(side, (int, float)) for side in sides):
        return comparison.holds
    return max(sides) <= 2.5 * min(sides)


def what_is_missed(parts: list[str], context: Elsewhere) -> tuple[int, list[str]] | None:
    """The line that most likely misses what is asked for, and the evidence; None if nothing does."""
    for standard in parts:
        clause = of_other_sizes(standard, context.shape) or standard
        try:
            if evaluate(clause, context) is not True:
                return line_of_goal(clause, context), what_failed(clause, context)
        except ExpressionError as error:
            return 0, [str(error).replace(MINE, "your kernel") + "."]
    return None


def clauses(check: str) -> list[str]:
    """What an expression joins by `and`."""
    match ast.parse(check.strip(), mode="eval").body:
        case ast.BoolOp(op=ast.And(), values=nodes):
            return [ast.unparse(node) for node in nodes]
        case node:
            return [ast.unparse(node)]


def of_other_sizes(clause: str, shape: tuple[int, int, int]) -> str | None:
    """The clause with the standard problem's sizes, 256 * 256 * 128 and 256 * 256, replaced by others; None
    if it says nothing of the X-ray of the student's kernel, or holds sizes in another form."""
    if f"xray({MINE})" not in clause:
        return None
    m, n, k = shape
    sizes = re.compile(r"\b256 \* 256( \* 128)?\b")
    if re.search(r"\b(?:256|512|32768|65536|8388608)\b", sizes.sub("", clause)):
        return None
    return sizes.sub(lambda found: f"{m} * {n} * {k}" if found[1] else f"{m} * {n}", clause)


def what_failed(check: str, context: Context) -> list[str]:
    """The comparisons of an expression that failed, in words: at most two."""
    tree = ast.parse(check.strip(), mode="eval")
    lists = [node for node in ast.walk(tree) if isinstance(node, (ast.ListComp, ast.GeneratorExp))]
    choosing = {id(node) for within in lists for node in ast.walk(within)}  # the elements of a list
    plain: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and id(node) not in choosing:
            plain.update(pairwise(ast.unparse(side) for side in (node.left, *node.comparators)))
    made = [c for c in explain(check, context).comparisons if (c.left, c.right) in plain]
    wrong = [c for c in made if not c.holds] or made
    return [sides(comparison) for comparison in wrong[:2]]


def line_of_goal(check: str, context: Context) -> int:
    """The line that most likely misses the goal: of the accesses that it speaks of, the most expensive."""
    try:
        rows = [row for row in rows_of(context.xray_record(MINE)) if is_mine(row)]
    except (NotAvailable, ExpressionError):
        return 0
    wanted: list[dict[str, Any]] = []
    for operation, words in re.findall(
        rf"xray\({MINE}\)\.(load|store|copy|ldmatrix|access)\(([^()]*)\)", check
    ):
        named = re.findall(r"(array|space)='([^']*)'", re.sub("^'", "array='", words))  # ('A') is (array='A')
        asked = dict(named) | ({} if operation == "access" else {"operation": operation})
        wanted += [row for row in rows if asked.items() <= row.items()]
    if not wanted and "xray(mine)" in check.replace(" ", ""):
        space = "shared" if re.search(r"\.(shared_\w+|excess|conflicts)", check) else "global"
        wanted = [row for row in rows if row["space"] == space]

    def cost(row: dict[str, Any]) -> tuple[float, int]:
        if ".lanes" in check:  # the number of accesses, not their pattern
            return row["lanes"], 0
        if row["space"] == "global":
            return row["sectors"] / max(row["requests"], 1), row["lanes"]
        return row["wavefronts"] - row["ideal_wavefronts"], row["lanes"]

    return max(wanted, key=cost)["line"] if wanted else 0


def sides(c: Comparison) -> str:
    """A comparison that failed, in words: what it is, and what it should be."""
    right, is_value = number(c.right_value), number(c.left_value)
    words = {"==": "", "!=": "other than ", "<": "below ", "<=": "at most ", ">": "above ", ">=": "at least "}
    of = f" ({c.right})" if not re.fullmatch(r"[\d.+*/ -]+", c.right) else ""
    names = names_of(c.left)
    source = "X-ray" if "xray" in names else "machine code" if "sass" in names else "your file"
    left = re.sub(rf"(?:xray|sass)\({MINE}\)\.", "", c.left) + f" is {is_value}"
    left = f"{is_value} found" if c.left.startswith("len(") else left
    return f"{source}: {left}; it should be {words.get(c.sign, f'{c.sign} ')}{right}{of}."


def number(value: object) -> str:
    """A value as people read it: "3,145,730", "0.125"; never in scientific notation."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"{value}"
    if value % 1 == 0:
        return f"{value:,.0f}"
    return f"{value:,.{3 if abs(value) > 1 else 6}f}".rstrip("0").rstrip(".")
