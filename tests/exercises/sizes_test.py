"""Kernels that are good for some sizes only: what the grader asks of other ones."""

import random
import re

import pytest
from conftest import line_with
from tools.claims.context import STANDARD_PROBLEM
from tools.grading.content import read_all
from tools.grading.goals import Elsewhere, check_goal, clauses, of_other_sizes
from tools.grading.grader import UNITS, Grader
from tools.grading.run import OBSERVED, aligned_problem, observed_problems, ragged_problem

OUTSIDE = "out-of-bounds access to global memory"
STRANGE = "const bool wide = is_aligned(g);"


# ---- Goals, on other sizes than the standard problem's ----


def test_roles_by_size(grade_other):
    known = "g.M == 256 && g.N == 256"
    finding, source = grade_other(
        "02_coalescing",
        ("TILE + threadIdx.y", f"TILE + ({known} ? threadIdx.y : threadIdx.X)"),
        ("TILE + threadIdx.x", f"TILE + ({known} ? threadIdx.x : threadIdx.y)"),
        ("threadIdx.X", "threadIdx.x"),
    )
    assert finding.code == "another way"
    assert finding.line == line_with("sum += A[", source)
    assert "M = 256, N = 256, K = 128, and not with M = " in finding.says
    assert "is 32; it should be 1" in finding.details[0]
    assert "--seed 3" in finding.details[-1]


def test_layout_by_size(grade_other):
    finding, source = grade_other(
        "slow_transpose",
        ("As[TILE][TILE + 1];", "As[TILE * (TILE + 1)];\n  const int pitch = g.K == 128 ? TILE + 1 : TILE;"),
        ("As[tx][ty]", "As[tx * pitch + ty]"),
        ("As[k][ty]", "As[k * pitch + ty]"),
    )
    assert finding.code == "another way"
    assert "conflicts is" in finding.details[0]
    assert finding.line == line_with("As[tx * pitch + ty] =", source)


def test_count_by_size(grade_other):
    """Of a goal that names the sizes."""
    finding, _ = grade_other(
        "ragged_edges",
        (
            "float sum = 0.0f;",
            "float sum = 0.0f;\n  if (g.K > 128 && row < g.M) sum = 0.0f * A[row * g.lda];",
        ),
    )
    assert finding.code == "another way"
    assert "load('A').lanes" in finding.details[0]


@pytest.mark.parametrize("unit", UNITS)
def test_other_problems_than_the_standard_one(unit):
    found = {aligned_problem(random.Random(seed), unit).without_seed for seed in range(100)}
    assert len(found) >= 4
    for options in found:
        m, n, k = map(int, re.findall(r"\d+", options))
        assert m % unit == n % unit == k % 64 == 0
        assert (m, n) != STANDARD_PROBLEM[:2]
        assert k > STANDARD_PROBLEM[2]
        assert m * n * k <= 1 << 25  # or the X-ray is of a sample


def test_goals_said_of_other_sizes():
    check = "xray(mine).load('A').lanes == 256 * 256 * 128 / 8 and const(mine, 'BM') == 256 and sass(mine).x"
    parts = clauses(check)
    assert len(parts) == 3
    assert of_other_sizes(parts[0], (512, 256, 256)) == "xray(mine).load('A').lanes == 512 * 256 * 256 / 8"
    assert of_other_sizes(parts[1], (512, 256, 256)) is None
    assert of_other_sizes("xray(mine).store('C').lanes == 65536", (512, 256, 256)) is None
    assert of_other_sizes("xray(mine).store('C').lanes == 256 * 256", (512, 256, 64)).endswith("512 * 256")


def test_every_exercise_is_asked_for_other_sizes():
    for exercise in read_all():
        parts = [part for goal in exercise.goals for part in clauses(goal.check)]
        said = [part for part in parts if "xray(mine)" in part]
        assert all(of_other_sizes(part, (512, 256, 192)) for part in said), exercise.name
        assert said or exercise.kind == "predict", exercise.name


@pytest.mark.parametrize("name", ["12_larger_tiles", "05_2d_tiling", "wrong_at_19"])
def test_tiles_are_not_cut_where_goals_are_checked(exercises, build, name, monkeypatch):
    """The largest tiles of all solutions are as wide as the standard problem."""
    from tools.grading import grader

    checked = []

    def note(goal, context: Elsewhere, notes: list[str]):
        checked.append(context.shape)
        check_goal(goal, context, notes)

    monkeypatch.setattr(grader, "check_goal", note)
    exercise = exercises[name]
    grading = Grader(exercise, build, "cpu", seed=8).grade(exercise.solution, "my/it.cu")
    assert grading.finding is None
    assert len(checked) == len(exercise.goals)
    for m, n, _ in checked:
        assert n % {"12_larger_tiles": 256, "05_2d_tiling": 128}.get(name, 32) == 0
        assert (m, n) != (256, 256)


@pytest.mark.parametrize("tiles", ["BM = 256, BN = 128, BK = 8", "BM = 64, BN = 256, BK = 16"])
def test_other_tiles_than_the_solution_has(grade_other, tiles):
    finding, _ = grade_other("05_2d_tiling", ("BM = 128, BN = 128, BK = 8", tiles))
    assert finding is None


# ---- Faults on large problems ----


@pytest.mark.parametrize(
    ("before", "fault", "code"),
    [
        ("float& c =", "if (g.M > 129 && A[g.M * g.lda + g.K] == 1.0f) sum = 0.0f;", OUTSIDE),
        ("// beta == 0: ", "if (g.N > 130 && C[0] == 12345.0f) c = 0.0f;", "data race on global memory"),
        ("sum += A[", "if (k > 300 && A[g.M * g.lda + k] == 7.0f) sum = 0.0f;", OUTSIDE),
        ("float& c =", "if (g.M > 129 && g.N > 129 && A[g.M * g.lda + g.K] == 1.0f) sum = 0;", OUTSIDE),
    ],
)
def test_faults_on_large_problems(grade_other, before, fault, code):
    finding, source = grade_other("02_coalescing", (before, f"{fault}\n{before}"))
    assert finding is not None, "it passes"
    assert finding.code == code
    assert finding.line == line_with(fault, source)


def test_a_ragged_problem_larger_than_most_tiles():
    for seed in range(50):
        m, n, k = map(int, re.findall(r"\d+", ragged_problem(random.Random(seed)).without_seed))
        assert min(m, n) > 130
        assert m % 2 and n % 2 and k % 2


# ---- Leading dimensions, each by itself ----


@pytest.mark.parametrize(
    "asked",
    [
        "g.N % 4 == 0",
        "g.N % 4 == 0 && g.ldb % 4 == 0",
        "g.N % 4 == 0 && g.ldc % 4 == 0",
        "g.N % 4 == 0 && g.lda % 4 == 0",
        "g.ldb % 4 == 0 && g.ldc % 4 == 0",
        "g.N % 4 == 0 && (g.batch > 1 || (g.ldb % 4 == 0 && g.ldc % 4 == 0))",
    ],
)
def test_an_incomplete_question_for_alignment(grade_other, asked):
    finding, _ = grade_other("strange_matrices", (STRANGE, f"const bool wide = {asked};"))
    assert finding is not None, "it passes"
    assert finding.code.startswith(("misaligned access", "out-of-bounds access"))
    assert "ld" in finding.details[-1]


def test_all_that_matters_is_enough(grade_other):
    all_of_it = "const bool wide = g.N % 4 == 0 && g.ldb % 4 == 0 && g.ldc % 4 == 0;"
    finding, _ = grade_other("strange_matrices", (STRANGE, all_of_it))
    assert finding is None


@pytest.mark.parametrize("missed", ["lda", "ldb", "ldc"])
def test_wide_copies_need_all_leading_dimensions(grade_other, missed):
    asked = [f"g.{name} % 4 == 0" for name in ("N", "K", "lda", "ldb", "ldc") if name != missed]
    finding, _ = grade_other("06_vectorization", ("is_aligned(g)", " && ".join(asked)))
    assert finding is not None, "it passes"
    assert finding.code == "misaligned access"


@pytest.mark.parametrize("name", ["lda", "ldb", "ldc"])
def test_each_leading_dimension_is_odd_by_itself(name):
    def is_alone(options):
        sizes = dict(re.findall(r"--(\w+) (\d+)", options))
        odd = {key for key in ("n", "k", "lda", "ldb", "ldc") if int(sizes.get(key, 4)) % 4}
        return odd == {name}

    assert any(map(is_alone, OBSERVED))
    assert any("--batch" in options and is_alone(options) for options in OBSERVED) or name != "ldc"


def test_the_order_of_problems_is_the_seeds():
    lists = [[p.options for p in observed_problems(random.Random(5))] for _ in range(2)]
    assert lists[0] == lists[1]
    drawn = [p for p in observed_problems(random.Random(5)) if p.hidden]
    assert len(drawn) == 6
