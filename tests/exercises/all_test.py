"""Every starter fails at first, and says why; every solution passes, and in time; every hint exists.
PART in the environment: which of the exercises."""

import os
from pathlib import Path

import pytest
from conftest import processor_seconds
from tools.grading.content import read_all
from tools.grading.grader import grade_file
from tools.grading.predict import solution_of

LONGEST_S = 10  # of one grading, on two cores
CORES = 2
BUSY = 2  # cores that others work on, too, take longer for as much
NO_BEGINNING = ("compile", "rule", "no CUDA", "toml")  # a starter must get further than this
PART = os.environ.get("PART", "")

ALL = read_all()
KERNELS = [exercise for exercise in ALL if exercise.kind == "kernel"]
PARTS = {
    "": ALL,
    "kernels-1": KERNELS[: len(KERNELS) // 2],
    "kernels-2": KERNELS[len(KERNELS) // 2 :],
    "faults": [exercise for exercise in ALL if exercise.kind == "fault"],
    "predictions": [exercise for exercise in ALL if exercise.kind == "predict"],
}
CHOSEN = PARTS[PART]


def grade(exercise, build: Path, source: str):
    began = processor_seconds()
    grading = grade_file(exercise, build, source, f"my/{exercise.file_name}", "cpu")
    assert processor_seconds() - began < LONGEST_S * CORES * BUSY
    return grading


def test_the_parts_are_all():
    assert sorted(e.name for part in PARTS if part for e in PARTS[part]) == sorted(e.name for e in ALL)


@pytest.mark.parametrize("exercise", CHOSEN, ids=lambda e: e.name)
def test_starter_fails_and_says_why(exercise, build):
    grading = grade(exercise, build, exercise.starter)
    finding = grading.finding
    assert finding is not None
    assert finding.code not in NO_BEGINNING, finding.says  # it compiles, and keeps to the rules
    assert len(finding.says.split()) >= 5
    if exercise.kind != "predict":
        assert finding.look
        assert finding.line or finding.details
    assert not grading.warnings
    if exercise.kind == "fault":
        assert finding.code == exercise.found


@pytest.mark.parametrize("exercise", CHOSEN, ids=lambda e: e.name)
def test_solution_passes(exercise, build):
    grading = grade(exercise, build, solution_of(exercise, build))
    assert grading.finding is None, grading.finding
    assert not grading.warnings
    reached = [note for note in grading.notes if "not checked here" not in note]
    assert reached, "nothing was checked"


@pytest.mark.parametrize("exercise", CHOSEN, ids=lambda e: e.name)
def test_hints(exercise):
    assert len(exercise.hints) == 3
    assert all(len(hint.split()) >= 5 for hint in exercise.hints)
