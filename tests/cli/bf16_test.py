"""Programs whose A and B are BF16: what they print and write, and what becomes of float32 files.

KERNELS in the environment: programs built around kernels that take BF16.
"""

import json
import os
import subprocess

import numpy as np
import pytest
from conftest import LIMIT_S, PROGRAMS, STEP
from files_test import SHAPES, assert_product, random

KERNELS = [path for path in os.environ["KERNELS"].split(os.pathsep) if path.endswith("bf16")]


def to_bf16(array):
    """Rounded to 8 bits of significand, ties to even, as float32."""
    bits = array.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


@pytest.fixture(params=KERNELS, ids=os.path.basename)
def run(request, tmp_path):
    """Runs the program on the CPU device; returns what it prints and the record that it writes."""

    def run_to_json(*arguments):
        command = [request.param, "--device", "cpu", "--json", "results.json", *map(str, arguments)]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
        assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
        [record] = json.loads((tmp_path / "results.json").read_text())
        assert record["input"] == "BF16"
        return result.stdout, record

    return run_to_json


def multiply(run, tmp_path, a, b, *options):
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    output, record = run("--a", "a.npy", "--b", "b.npy", "--out", "out.npy", *options)
    return np.load(tmp_path / "out.npy"), output, record


def test_says_the_type(run):
    output, record = run("--m", 35, "--n", 79, "--k", 19)
    assert "A and B BF16" in output.splitlines()[1]
    assert record["pass"] and record["verified"]
    assert "rounded_inputs" not in record
    assert "rounded" not in output


def test_random_inputs_are_exact_in_the_type(run, tmp_path):
    """A product of one term has 16 bits at most."""
    run("--m", 40, "--n", 30, "--k", 1, "--out", "c.npy")
    c = np.load(tmp_path / "c.npy")
    assert not (c.view(np.uint32) & 0xFF).any()
    assert (c.view(np.uint32) & 0xFF00).any()
    assert (np.abs(c) < 1).all()
    assert len(np.unique(c)) > 1000


@pytest.mark.parametrize("m, n, k", SHAPES)
def test_files_are_rounded_once(run, tmp_path, m, n, k):
    rng = np.random.default_rng(m)
    a, b = random(rng, m, k), random(rng, k, n)
    c, output, record = multiply(run, tmp_path, a, b)
    assert_product(c, to_bf16(a), to_bf16(b))
    changed = int((to_bf16(a) != a).sum() + (to_bf16(b) != b).sum())
    assert record["rounded_inputs"] == changed
    assert f"rounded to BF16: {changed} elements changed" in output


def test_files_that_fit_do_not_change(run, tmp_path):
    rng = np.random.default_rng(1)
    a, b = to_bf16(random(rng, 33, 9)), to_bf16(random(rng, 9, 31))
    a[0, 0] = np.inf
    c, _, record = multiply(run, tmp_path, a, b)
    assert record["rounded_inputs"] == 0
    assert not np.isfinite(c[0]).any()
    assert_product(c[1:], a[1:], b)


def test_nan_stays(run, tmp_path):
    rng = np.random.default_rng(1)
    a, b = random(rng, 33, 9), random(rng, 9, 31)
    a.view(np.uint32)[4, 8] = 0x7F800001  # whose upper half alone would be an infinity
    c, _, _ = multiply(run, tmp_path, a, b)
    assert np.isnan(c[4]).all()
    assert not np.isnan(np.delete(c, 4, 0)).any()


def test_the_old_c_is_not_rounded(run, tmp_path):
    rng = np.random.default_rng(1)
    a, b, old = random(rng, 33, 9), random(rng, 9, 31), random(rng, 33, 31)
    np.save(tmp_path / "c.npy", old)
    c, _, _ = multiply(run, tmp_path, a, b, "--c", "c.npy", "--beta", 2)
    assert_product(c, to_bf16(a), to_bf16(b), 1, 2, old)


def test_float_programs_say_so_and_round_nothing(tmp_path):
    rng = np.random.default_rng(1)
    np.save(tmp_path / "a.npy", random(rng, 33, 9))
    np.save(tmp_path / "b.npy", random(rng, 9, 31))
    command = [PROGRAMS[STEP], "--device", "cpu", "--a", "a.npy", "--b", "b.npy", "--json", "results.json"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    [record] = json.loads((tmp_path / "results.json").read_text())
    assert record["input"] == "FP32"
    assert "rounded_inputs" not in record
    assert "rounded" not in result.stdout
    assert "BF16" not in result.stdout


def test_help_names_the_type(tmp_path):
    for program, name in ((KERNELS[0], "BF16 inputs"), (PROGRAMS[STEP], "FP32 inputs")):
        result = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=LIMIT_S)
        assert name in result.stdout
