"""The grader's messages for honest mistakes, and its compiler cache."""

import os
import re
import subprocess
import time
from dataclasses import replace

import pytest
from conftest import ROOT, line_with
from tools.edits import read_edited
from tools.grading import run
from tools.grading.build import BuildError, Toolchain
from tools.grading.content import Entry, Goal, entry_of_step
from tools.grading.finding import Finding, Grade, wrapped
from tools.grading.grader import Grader
from tools.grading.source import read
from tools.grading.verify import verify
from tools.grading.words import fault_finding


@pytest.fixture
def grade(exercises, build):
    """Grades the solution of step 02 with some text replaced."""

    def grade_changed(*changes, goals=None, file="my/02.cu"):
        exercise = exercises["02_coalescing"]
        source = exercise.solution
        for old, new in changes:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        if goals is not None:
            exercise = replace(exercise, goals=goals)
        return Grader(exercise, build, "cpu", seed=3).grade(source, file), source

    return grade_changed


def test_a_kernel_that_does_not_end(grade):
    result, _ = grade(("++k)", "k += 0)"))
    assert result.finding.code == "endless"
    assert "K = " in result.finding.says
    assert result.seconds < 30


def test_goals_that_cannot_be_checked_are_said(grade, build):
    goal = Goal("It has no local memory.", "sass(mine).count('LDL') == 0", "Registers.")
    result, _ = grade(goals=[goal])
    assert result.finding is None
    has_nvcc = Toolchain(build, "02_coalescing").has_nvcc
    wanted = "It has no local memory." if has_nvcc else "not checked here, only nvcc shows it"
    assert any(note.startswith(wanted) for note in result.notes)


def test_machine_code_goals(grade, build):
    if not Toolchain(build, "02_coalescing").has_nvcc:
        pytest.skip("needs nvcc")
    goal = Goal("It has local memory.", "sass(mine).count('LDL') > 0", "Registers.")
    result, _ = grade(goals=[goal])
    assert result.finding is None  # or it would be another verdict than without nvcc
    [remark] = result.warnings
    assert "LDL" in remark.details[0]


def test_a_goal_that_counts_says_how_many(grade, build):
    """And not the comparisons that chose what is counted."""
    if not Toolchain(build, "02_coalescing").has_nvcc:
        pytest.skip("needs nvcc")
    check = "len([i.text for i in sass(mine).instructions if 'EXIT' in i.text and 'P9' not in i.text]) == 0"
    result, _ = grade(goals=[Goal("It never ends.", check, "EXIT.")])
    [remark] = result.warnings
    [detail] = remark.details
    assert re.fullmatch(r"machine code: \d+ found; it should be 0\.", detail)


def test_a_goal_about_what_is_not_there(grade):
    goal = Goal("Tiles.", "xray(mine).load('As').wavefronts_per_request == 1", "Shared memory.")
    result, _ = grade(goals=[goal])
    assert result.finding.code == "goal"
    assert "As" in result.finding.details[0]
    assert "mine" not in result.finding.details[0]


def test_other_problems_each_time(exercises):
    import random

    def again(problems):
        return len(problems) - len({p.without_seed for p in problems})

    lists = [run.plain_problems(random.Random(seed)) for seed in (1, 2)]
    assert [p.options for p in lists[0]] != [p.options for p in lists[1]]
    for problems in lists:
        seeds = [p.options.split("--seed")[1] for p in problems]
        assert len(set(seeds)) == len(seeds)
        assert again(problems) >= 4
    observed = run.observed_problems(random.Random(1))
    assert again(observed) == 2


def test_a_problem_in_words_names_every_option():
    problem = run.Problem("--m 33 --n 40 --k 21 --stride-a 700 --beta -0.5 --seed 7")
    assert str(problem) == "M = 33, N = 40, K = 21, stride-a = 700, beta = -0.5"


def test_the_judge_starves_warps_in_turn(build):
    """As --check of a step's program does: one schedule alone does not show this mistake."""
    source = read_edited(ROOT / "tests" / "planted_bugs" / "full_phase_unwatched.toml").source()
    built = Toolchain(build, "01_naive").compile(read(source, source), source)
    problem = run.Problem("--m 40 --n 32 --k 160")
    [record] = run.run(built, [problem], "--check").records
    [complaint] = [text for text in record["complaints"] if "--schedule" in text]
    finding = fault_finding(complaint, "kernel.cu", problem)
    assert finding.code == "deadlock"
    assert "under schedule" in finding.details[0]
    [record] = run.run(built, [problem], "--check", "--schedule", "0").records
    assert record["pass"]


def test_what_was_compiled_is_used_again(build, exercises, monkeypatch):
    toolchain = Toolchain(build, "02_coalescing")
    source = exercises["02_coalescing"].solution
    first = toolchain.compile(read(source, source), source)
    stamp = (first.folder / "worker").stat().st_mtime_ns
    again = toolchain.compile(read(source, source), source)
    assert (again.folder / "worker").stat().st_mtime_ns == stamp
    assert toolchain.compile(read(source, source), source + "\n").folder != first.folder


def test_the_cache_does_not_grow_without_end(build, exercises, monkeypatch, tmp_path):
    from tools.grading import build as module

    monkeypatch.setattr(module, "KEPT", 3)
    toolchain = Toolchain(build, "02_coalescing")
    toolchain.cache = tmp_path
    for n in range(9):
        (tmp_path / f"{n}").mkdir()
        age = 0 if n in (1, 2, 3, 4) else 2 * module.UNUSED_S + n  # somebody may work in these
        os.utime(tmp_path / f"{n}", (time.time() - age,) * 2)
    toolchain._trim()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2", "3", "4"]


def test_a_build_that_is_none(tmp_path):
    with pytest.raises(BuildError, match="cannot build"):
        Toolchain(tmp_path, "02_coalescing")


def test_a_build_that_is_not_built(build, tmp_path, monkeypatch):
    for name in ("build.ninja", "kernel_programs.json"):
        (tmp_path / name).symlink_to(build / name)
    with pytest.raises(BuildError, match="meson compile"):
        Toolchain(tmp_path, "02_coalescing")


def test_wrapping_keeps_lists_and_code():
    text = "One\ntwo.\n\n- a\n- b\n    code\n1. first"
    assert wrapped(text, "  ").splitlines() == [
        "  One two.",
        "",
        "  - a",
        "  - b",
        "      code",
        "  1. first",
    ]


def test_mine_is_known_to_goals_only(build):
    from tools.claims.context import Context
    from tools.claims.objects import NoValue
    from tools.claims.values import evaluate

    with pytest.raises(NoValue, match="goals of exercises"):
        evaluate("xray(mine).excess == 0", Context(build, "02_coalescing"))


def test_the_program_for_the_gpu_is_built(build, exercises):
    toolchain = Toolchain(build, "02_coalescing")
    if not toolchain.has_nvcc:
        pytest.skip("needs nvcc")
    source = exercises["02_coalescing"].solution
    built = toolchain.compile(read(source, source), source, gpu=True)
    program = toolchain.step_program(built, gpu=True)
    for device, statuses in (("cpu", (0,)), ("gpu", (0, 3))):
        command = [program, "--device", device, "--size", "40"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode in statuses, result.stderr
        assert "built without CUDA" not in result.stderr


def test_the_name_of_the_entry_is_the_step_s(build, exercises):
    """Another name would grant another error."""
    exercise = exercises["21_tensor_cores"]
    assert entry_of_step(exercise.step) == Entry("gemm_tf32", "Gemm")
    source = exercise.solution.replace("void gemm_tf32(", "void gemm_tf32_cut_off(")
    finding = Grader(exercise, build, "cpu", seed=1).grade(source, "my/it.cu").finding
    assert finding.code == "compile"
    assert "gemm_tf32" in finding.says


# ---- Mistakes that are known by name; see variants.txt, too ----


def test_what_gcc_warns_of(exercises, student):
    exercise = exercises["02_coalescing"]
    student.writes(exercise, exercise.solution.replace("float sum = 0.0f;", "int sum = 0;"))
    said = student("check", "02", "--device", "cpu").stdout
    assert "GCC warns: conversion from 'float' to 'int'" in said
    student.writes(exercise, exercise.solution)
    assert "GCC warns" not in student("check", "02", "--device", "cpu").stdout


def test_a_place_in_shared_memory_has_indices(grade_other):
    finding, _ = grade_other("03_shared_memory", ("__syncthreads();  // nobody needs the tiles", "//"))
    assert finding.code == "data race on shared memory"
    assert " bytes" not in finding.details[0]
    assert "[" in finding.details[0]


def test_a_private_array_is_no_forgotten_shared(grade_other):
    """Where the result is wrong for another reason."""
    finding, _ = grade_other("04_1d_tiling", ("g.beta == 0.0f ? g.alpha * sum", "g.beta == 0.0f ? 2 * sum"))
    assert finding.code == "wrong result"
    assert "__shared__" not in finding.says


def test_a_crash_is_looked_at_with_every_access_checked(grade):
    """Far outside, and on the larger problems only, which run unchecked."""
    result, source = grade(("float& c", "if (g.M > 2000) sum += A[1ll << 40];\n  float& c"))
    assert result.finding.code.startswith(("out-of-bounds access", "access to host memory"))
    assert result.finding.line == line_with("1ll << 40", source)


def test_a_problem_drawn_by_lot_is_named_with_its_seed(grade):
    result, _ = grade(("k < g.K;", "k < g.K - (g.M > 300 && g.M < 1200 && g.M != 1031);"))
    assert "--seed 3" in result.finding.details[-1]
    result, _ = grade(("k < g.K;", "k < g.K - 1;"))
    assert "--seed" not in " ".join(result.finding.details)


# ---- Whether the exercises are in order ----


def test_verify(student, numbers):
    result = student("verify", "01_naive", numbers.name, "--device", "cpu")
    assert result.returncode == 0, result.stdout
    assert "2 of 2 exercises are in order" in result.stdout
    assert not student.workspace.exists()


@pytest.mark.parametrize(
    ("starter", "solution", "words"),
    [
        (None, None, "the starter passes"),
        (Finding("compile", "It does not compile."), None, "does not even begin"),
        (Finding("rule", "It is forbidden."), None, "does not even begin"),
        (Finding("goal", "Not there yet."), Finding("goal", "Too slow."), "the solution fails: Too slow."),
        (Finding("goal", "Not there yet."), None, ""),
    ],
)
def test_verify_finds_what_is_wrong(exercises, build, capsys, starter, solution, words):
    exercise = exercises["02_coalescing"]

    def grade_source(_, source, __):
        return Grade(solution if source == exercise.solution else starter)

    status = verify([exercise], build, grade_source, print)
    assert status == (1 if words else 0)
    said = capsys.readouterr().out
    assert words in said
    assert said.splitlines()[0].split() == ["FAILED" if words else "ok", "02_coalescing"]
