"""The problems that the grader has kernels compute; variants.toml has kernels that are good for some only."""

import random
import re

import pytest
from tools.claims.context import STANDARD_PROBLEM
from tools.grading.content import read_all
from tools.grading.goals import Elsewhere, check_goal, clauses, of_other_sizes
from tools.grading.grader import RAGGED, UNITS, Grader
from tools.grading.run import BELOW, OBSERVED, TALL, WIDE, aligned_problem, ragged_problem, small_problems


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

    def note(goal, context: Elsewhere, *said):
        checked.append(context.shape)
        check_goal(goal, context, *said)

    monkeypatch.setattr(grader, "check_goal", note)
    exercise = exercises[name]
    grading = Grader(exercise, build, "cpu", seed=8).grade(exercise.solution, "my/it.cu")
    assert grading.finding is None
    assert len(checked) == len(exercise.goals)
    for m, n, _ in checked:
        assert n % {"12_larger_tiles": 256, "05_2d_tiling": 128}.get(name, 32) == 0
        assert (m, n) != (256, 256)


@pytest.mark.parametrize("guess, programs", [([], 2), ([128], 1), ([256, 64], 2)])
def test_the_sizes_that_an_earlier_kernel_needed_are_a_guess(exercises, build, guess, programs, monkeypatch):
    from tools.grading import grader

    given, checked, run = [], set(), grader.run

    def count(built, problems, *options, **how):
        given.append(options)
        return run(built, problems, *options, **how)

    def note(goal, context: Elsewhere, *said):
        checked.add(context.problem.options)
        check_goal(goal, context, *said)

    monkeypatch.setattr(grader, "run", count)
    monkeypatch.setattr(grader, "check_goal", note)
    monkeypatch.setitem(grader.LATEST_UNITS, "05_2d_tiling", guess)
    exercise = exercises["05_2d_tiling"]
    assert Grader(exercise, build, "cpu", seed=8).grade(exercise.solution, "my/it.cu").passed
    assert given.count(("--xray",)) == programs
    chooser = random.Random(8)  # whose problems are the same whatever the guess
    small_problems(chooser)
    ragged_problem(chooser, BELOW)
    ragged_problem(chooser, chooser.choice((TALL, WIDE)))
    assert checked == {aligned_problem(chooser, 128).options}
    assert grader.LATEST_UNITS["05_2d_tiling"] == [128]


@pytest.mark.parametrize("how", ["return", "return launch(sgemm_2d_tiling, grid, dim3(2048), 0, g)"])
def test_what_a_kernel_does_in_a_problem_only_guessed_does_not_count(exercises, build, how, monkeypatch):
    from tools.grading import grader

    exercise = exercises["05_2d_tiling"]  # whose tiles of 128 x 128 need no multiples of 256
    wrong = f"  if (g.M % 256 == 0 && g.N % 256 == 0) {how};\n  launch("
    monkeypatch.setitem(grader.LATEST_UNITS, exercise.name, [256])
    grade = Grader(exercise, build, "cpu", seed=8).grade(
        exercise.solution.replace("  launch(", wrong), "my/it.cu"
    )
    assert grade.finding is None


@pytest.mark.parametrize("below", RAGGED)
def test_ragged_problems_take_as_many_tiles_as_the_sizes_above(below):
    for seed in range(50):
        sizes = list(map(int, re.findall(r"\d+", ragged_problem(random.Random(seed), below).without_seed)))
        assert all(size % 2 for size in sizes)
        tiles = zip(sorted(sizes[:2]), sorted(below[:2]), strict=True)
        assert all(-(-size // tile) == whole // tile for size, whole in tiles for tile in (16, 32, 64, 128))


@pytest.mark.parametrize("name", ["lda", "ldb", "ldc"])
def test_each_leading_dimension_is_odd_by_itself(name):
    def is_alone(options):
        sizes = dict(re.findall(r"--(\w+) (\d+)", options))
        odd = {key for key in ("n", "k", "lda", "ldb", "ldc") if int(sizes.get(key, 4)) % 4}
        return odd == {name}

    assert any(map(is_alone, OBSERVED))
    assert any("--batch" in options and is_alone(options) for options in OBSERVED) or name != "ldc"


def test_the_order_of_problems_is_the_seeds():
    lists = [[p.options for p in small_problems(random.Random(5))] for _ in range(2)]
    assert lists[0] == lists[1]
    assert sum(p.hidden for p in small_problems(random.Random(5))) == 7
