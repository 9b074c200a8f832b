"""On 64-bit ARM the CPU device counts as on any other processor, and the exercises are graded. A build for
another processor (setup.sh --arm64) runs it in an emulator."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tools.base import EMULATOR, ROOT
from tools.grading.content import read_all
from tools.grading.grader import Grader

sys.path.insert(0, str(ROOT / "tests" / "exercises"))
from cheats_test import CHEATS

BUILD = Path(os.environ["BUILD"])
EXERCISES = {exercise.name: exercise for exercise in read_all()}


def test_every_step_compiles():
    """Few are linked here; what comes before the machine code is the compiler's work on each."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    units = [c["command"] for c in commands if re.match(r"common/programs/libcpu_\d\d_", c["output"])]
    assert len(units) == len(list(ROOT.glob("steps/*/kernel.cu")))
    for unit in units:
        words = [*shlex.split(re.sub(r" -M(D|[FQT] \S+)", "", unit)), "-fsyntax-only"]
        result = subprocess.run(words, cwd=BUILD, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("step", ["05_2d_tiling", "09_async_copy", "26_warp_tiles"])
@pytest.mark.parametrize("how", [["--device", "cpu"], ["--check"]])
def test_steps(step, how):
    program = BUILD / "steps" / step / "run"
    words = [*EMULATOR, program, *how, "--m", "35", "--n", "79", "--k", "19", "--beta", "2"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "PASS" in result.stdout


@pytest.mark.parametrize("step", ["05_2d_tiling", "09_async_copy"])
def test_what_the_xray_counts_is_what_the_pages_say(step):
    """Claims were written from what another processor counted."""
    words = [sys.executable, "-m", "tools", "claims", "check", f"steps/{step}", "--build", BUILD]
    result = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert ", 0 failed" in result.stdout


def grade(name, source):
    return Grader(EXERCISES[name], BUILD, "cpu", seed=1).grade(source, "my/it.cu").finding


@pytest.mark.parametrize("name", ["02_coalescing", "wrong_last_tile"])
def test_a_solution_passes_and_a_starter_fails(name):
    assert grade(name, EXERCISES[name].solution) is None
    finding = grade(name, EXERCISES[name].starter)
    assert finding.code == (EXERCISES[name].found or "goal")
    assert finding.line


@pytest.mark.parametrize(
    "name", ["loads_in_a_recursion_outside", "function_by_its_address", "runs_before", "kept_results",
             "zeros_for_inputs", "function_of_the_system", "shrinks_the_problem_in_a_kernel",
             "host_work_unless_watched"],
)  # fmt: skip
def test_a_cheat_is_caught(name):
    """By what looks at objects, at the stack and at the host's accesses: all are another processor's."""
    finding = grade("02_coalescing", CHEATS[name].text(EXERCISES["02_coalescing"].solution))
    assert finding is not None, "it passes"
    assert finding.code == CHEATS[name].found[0]
