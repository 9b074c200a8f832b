"""The grader's messages for honest mistakes, and its compiler cache."""

import os
import random
import subprocess
import time
from dataclasses import replace

import pytest
from conftest import ROOT
from tools.edits import read_edited
from tools.grading import run
from tools.grading.build import BuildError, Toolchain
from tools.grading.content import Entry, Goal, entry_of_step
from tools.grading.finding import wrapped
from tools.grading.grader import Grader
from tools.grading.source import read
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


def test_other_problems_each_time():
    lists = [run.small_problems(random.Random(seed)) for seed in (1, 2)]
    assert [p.options for p in lists[0]] != [p.options for p in lists[1]]
    for problems in lists:
        seeds = [p.options.split("--seed")[1] for p in problems]
        assert len(set(seeds)) == len(seeds)


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


def test_a_problem_drawn_by_lot_is_named_with_its_seed(grade):
    result, _ = grade(("k < g.K;", "k < g.K - (g.M > 300 && g.M < 1200 && g.M != 1031);"))
    assert "--seed 3" in result.finding.details[-1]
    result, _ = grade(("k < g.K;", "k < g.K - 1;"))
    assert "--seed" not in " ".join(result.finding.details)
