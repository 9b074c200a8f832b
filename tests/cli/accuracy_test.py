"""--accuracy of a program whose kernel emulates FP32: what it prints and writes, and who refuses the option.

STEPS in the environment: among others step 47.
"""

import json
import subprocess

import numpy as np
import pytest
from conftest import LIMIT_S, PROGRAMS, STEP

EMULATED = PROGRAMS["47_every_shape"]
FAST = "by FP16 products"


def run(program, *arguments):
    return subprocess.run(
        [program, "--device", "cpu", *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT_S
    )


@pytest.fixture
def run_to_json(tmp_path):
    def run_it(*arguments):
        done = run(EMULATED, "--json", tmp_path / "results.json", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        [record] = json.loads((tmp_path / "results.json").read_text())
        return done.stdout, record

    return run_it


@pytest.mark.parametrize("accuracy", [None, "fast", "checked", "strict"])
def test_dense_matrices_take_the_fast_way(run_to_json, accuracy):
    option = [] if accuracy is None else ["--accuracy", accuracy]
    text, record = run_to_json("--m", 70, "--n", 130, "--k", 100, *option)
    assert f"\n  {accuracy or 'checked'}: parts of C: 4 {FAST}\n" in text
    assert record["accuracy"] == (accuracy or "checked")
    assert record["parts"].pop(FAST) == 4
    assert set(record["parts"].values()) == {0}


def test_the_report_says_why(run_to_json, tmp_path):
    a, b = np.ones((70, 100), np.float32), np.ones((100, 130), np.float32)
    a[:64] = 0
    a[:64, 5] = 1  # one product
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    files = ("--a", tmp_path / "a.npy", "--b", tmp_path / "b.npy")
    text, record = run_to_json(*files)
    assert f"  checked: parts of C: 2 {FAST}, 2 in FP32: few terms\n" in text
    assert record["parts"]["in FP32: few terms"] == 2
    assert run_to_json(*files, "--accuracy", "fast")[1]["parts"][FAST] == 4
    assert (
        run_to_json(*files, "--accuracy", "strict")[1]["parts"]["in FP32: too many zeros for the proof"] == 2
    )


def test_parts_of_all_panels_and_matrices(run_to_json):
    assert run_to_json("--m", 3, "--n", 2, "--k", 5, "--batch", 40000)[1]["parts"] == {
        **dict.fromkeys((FAST, "in FP32: few terms", "in FP32: lossy"), 0),
        **{"in FP32: an infinity or a NaN": 0, "in FP32: too many zeros for the proof": 0},
        "in FP32: short K": 40000,
    }


def test_an_unknown_accuracy():
    done = run(EMULATED, "--accuracy", "best")
    assert done.returncode == 2
    assert done.stderr == "error: unknown --accuracy 'best'; use fast, checked or strict\n"


def test_steps_with_one_accuracy_refuse():
    done = run(PROGRAMS[STEP], "--accuracy", "fast")
    assert done.returncode == 2
    assert done.stderr.startswith("error: --accuracy is for steps that emulate FP32")
