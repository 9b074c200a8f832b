"""On 64-bit ARM exercises are graded as on any other processor. A build for another processor
(setup.sh --arm64) runs it in an emulator."""

import os
import sys
from pathlib import Path

import pytest
from tools.base import ROOT
from tools.grading.content import read_all
from tools.grading.grader import Grader

sys.path.insert(0, str(ROOT / "tests" / "exercises"))
from cheats_test import CHEATS

BUILD = Path(os.environ["BUILD"])
EXERCISES = {exercise.name: exercise for exercise in read_all()}


def grade(name, source):
    return Grader(EXERCISES[name], BUILD, "cpu", seed=1).grade(source, "my/it.cu").finding


@pytest.mark.parametrize("name", ["02_coalescing", "wrong_last_tile"])
def test_a_solution_passes_and_a_starter_fails(name):
    assert grade(name, EXERCISES[name].solution) is None
    finding = grade(name, EXERCISES[name].starter)
    assert finding.code == (EXERCISES[name].found or "goal")
    assert finding.line


@pytest.mark.parametrize(
    "name", ["loads_in_a_recursion_outside", "launches_a_library", "runs_before", "host_work",
             "zeros_from_a_function", "host_by_reading_the_stack", "shrinks_the_problem_in_a_kernel"],
)  # fmt: skip
def test_a_cheat_is_caught(name):
    """By what looks at objects, at the stack and at the host's accesses: all are another processor's."""
    finding = grade("02_coalescing", CHEATS[name].text(EXERCISES["02_coalescing"].solution))
    assert finding is not None, "it passes"
    assert finding.code == CHEATS[name].found[0]
