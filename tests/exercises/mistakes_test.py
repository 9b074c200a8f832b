"""The grader's messages for mistakes that it knows by name."""

from dataclasses import replace

import pytest
from tools.grading.finding import show
from tools.grading.grader import Grader


@pytest.fixture
def grade(exercises, build):
    """Grades the solution of step 02 with some text replaced."""

    def grade_changed(*changes, goals=None, file="my/02.cu"):
        exercise = exercises["02_coalescing"]
        source = exercise.solution.read_text()
        for old, new in changes:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        if goals is not None:
            exercise = replace(exercise, goals=goals)
        return Grader(exercise, build, "cpu", seed=3).grade(source, file), source

    return grade_changed


def line_with(text, source):
    return 1 + next(n for n, line in enumerate(source.splitlines()) if text in line)


@pytest.fixture
def grade_other(exercises, build):
    """Grades any exercise's solution with some text replaced."""

    def grade_changed(name, *changes, seed=3):
        source = exercises[name].solution.read_text()
        for old, new in changes:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        return Grader(exercises[name], build, "cpu", seed=seed).grade(source, "my/it.cu").finding, source

    return grade_changed


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("03_shared_memory", "__syncthreads();  // the tiles are complete"),
        ("09_async_copy", "__syncthreads();       // ..."),
    ],
)
def test_a_forgotten_first_barrier(grade_other, name, line):
    finding, _ = grade_other(name, (line, "//"))
    assert finding.code == "read of uninitialised shared memory"
    assert "a barrier is missing between filling and reading" in finding.look


SHARED_32 = ("BK = 128;", "BK = 32;")  # of step 03, whose tiles are then square


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        (
            "02_coalescing",
            [("float sum = 0.0f;", "float sum;")],
            "a variable that was used before it had a value",
        ),
        ("02_coalescing", [("float sum = 0.0f;", "int sum = 0;")], "a sum of nothing"),
        ("02_coalescing", [("B[k * g.ldb + col]", "B[col * g.ldb + k]")], "B read as if it were transposed"),
        ("02_coalescing", [("A[row * g.lda + k]", "A[k * g.lda + row]")], "A read as if it were transposed"),
        ("03_shared_memory", [SHARED_32, ("As[ty][k] *", "As[k][ty] *")], "A read as if it were transposed"),
        ("03_shared_memory", [SHARED_32, ("* Bs[k][tx]", "* Bs[tx][k]")], "B read as if it were transposed"),
        ("03_shared_memory", [("k0 += BK, a += BK, b", "k0 += BK, b")], "copy leaves out k0"),
        ("03_shared_memory", [("a += BK, b += BK * g.ldb", "a += BK")], "copy leaves out k0"),
        (
            "03_shared_memory",
            [
                (
                    "    __syncthreads();  // the tiles are",
                    "    if (row < g.M) __syncthreads();  // the tiles are",
                )
            ],
            "wait at different barriers",
        ),
        (
            "05_2d_tiling",
            [("col = col0 + tx + j * TX", "col = col0 + tx * TN + j")],
            "C[0][1] holds C[0][16]",
        ),
        ("05_2d_tiling", [(" || col >= g.N", "")], "reaches outside a matrix"),
        ("07_bank_conflicts", [("PAD = 4", "PAD = 1")], "padding included, has to be a multiple of 4 floats"),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) else "",
)
def test_the_cause_is_named(grade_other, name, changes, words):
    finding, source = grade_other(name, *changes)
    assert words in " ".join(show(finding, "my/it.cu", source).split())


def test_what_gcc_warns_of(exercises, student):
    exercise = exercises["02_coalescing"]
    student.writes(exercise, exercise.solution.read_text().replace("float sum = 0.0f;", "int sum = 0;"))
    said = student("check", "02", "--device", "cpu").stdout
    assert "GCC warns: conversion from 'float' to 'int'" in said
    student.writes(exercise, exercise.solution.read_text())
    assert "GCC warns" not in student("check", "02", "--device", "cpu").stdout


def test_a_place_in_shared_memory_has_indices(grade_other):
    finding, _ = grade_other("03_shared_memory", ("__syncthreads();  // nobody needs the tiles", "//"))
    assert finding.code == "data race on shared memory"
    assert " bytes" not in finding.details[0]
    assert "[" in finding.details[0]


def test_a_forgotten_shared(grade_other):
    finding, source = grade_other("03_shared_memory", ("__shared__ float As", "float As"))
    assert finding.code == "wrong result"
    assert "As is declared without __shared__" in finding.says
    assert finding.line == line_with("float As[", source)


def test_a_private_array_is_no_forgotten_shared(grade_other):
    """Where the result is wrong for another reason."""
    finding, _ = grade_other("04_1d_tiling", ("g.beta == 0.0f ? g.alpha * sum", "g.beta == 0.0f ? 2 * sum"))
    assert finding.code == "wrong result"
    assert "__shared__" not in finding.says


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" + blockIdx.z * g.strideA;", ";"),
        (" + blockIdx.z * g.strideB;", ";"),
        (" + blockIdx.z * g.strideC;", ";"),
        (", g.batch);", ", 1);"),
    ],
)
def test_a_forgotten_batch(grade_other, old, new):
    finding, source = grade_other("02_coalescing", (old, new))
    assert "blockIdx.z counts its matrices" in finding.look
    assert "batch = 2" in show(finding, "my/it.cu", source)


def test_a_block_with_too_many_threads(grade):
    result, source = grade(("TILE = 32", "TILE = 64"), ("__launch_bounds__(THREADS) ", ""))
    finding = result.finding
    assert finding.code == "launch"
    assert finding.line == line_with("launch(sgemm", source)
    assert "1024" in finding.details[0]


def test_a_crash_is_looked_at_with_every_access_checked(grade):
    """Far outside, and on the larger problems only, which run unchecked."""
    result, source = grade(("float& c", "if (g.M > 2000) sum += A[1ll << 40];\n  float& c"))
    assert result.finding.code.startswith(("out-of-bounds access", "access to host memory"))
    assert result.finding.line == line_with("1ll << 40", source)


def test_a_crash_names_no_option_that_is_not_there(grade):
    result, source = grade(
        ("float& c", "float own[1 << 22];\n  own[row] = sum;\n  float& c"),
        ("= g.beta", "= own[col] + g.beta"),
    )
    assert result.finding.code == "crash"
    message = show(result.finding, "my/02.cu", source)
    assert "--check" not in message
    assert "0x" not in message
    assert "arrays of its own" in result.finding.look


def test_a_problem_drawn_by_lot_is_named_with_its_seed(grade):
    result, _ = grade(("k < g.K;", "k < g.K - (g.M > 300 && g.M < 1200 && g.M != 1031);"))
    assert "--seed 3" in result.finding.details[-1]
    result, _ = grade(("k < g.K;", "k < g.K - 1;"))
    assert "--seed" not in " ".join(result.finding.details)


def test_a_missed_goal_is_shown_where_it_is_missed(grade_other):
    """The load of Bs in the product, not the copying of the tiles, which asks for more sectors."""
    finding, source = grade_other(
        "04_1d_tiling", ("      const float b = Bs[k][tx];\n", ""), ("[k] * b;", "[k] * Bs[k][tx];")
    )
    assert finding.says.startswith("Right, but not there yet: One load of an element of Bs")
    assert finding.line == line_with("* Bs[k][tx];", source)


def test_another_name_for_a_tile(grade_other, exercises):
    source = exercises["04_1d_tiling"].solution.read_text()
    lines = [line for line in source.splitlines() if "Bs" in line]
    finding, _ = grade_other("04_1d_tiling", *((line, line.replace("Bs", "b_tile")) for line in lines))
    assert "accesses no array 'Bs'" in finding.details[0]
    assert finding.look.startswith("the names")
