"""A program that computes in TF32: it takes floats, and says what it makes of them."""

import json
import os
import subprocess

import numpy as np
import pytest
from conftest import LIMIT_S, PROGRAMS, STEP
from files_test import random

[KERNEL] = [path for path in os.environ["KERNELS"].split(os.pathsep) if path.endswith("tf32")]


def to_tf32(array):
    """Rounded to 11 bits of significand, ties away from zero, as float32."""
    bits = (array.astype(np.float32).view(np.uint32) + 0x1000) & 0xFFFFE000
    return bits.astype(np.uint32).view(np.float32)


@pytest.fixture
def run(tmp_path):
    """Runs the program on the CPU device; returns what it prints and the record that it writes."""

    def run_to_json(*arguments, program=KERNEL):
        command = [program, "--device", "cpu", "--json", "results.json", *map(str, arguments)]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
        assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
        [record] = json.loads((tmp_path / "results.json").read_text())
        return result.stdout, record

    return run_to_json


def test_says_what_it_computes_in(run):
    output, record = run("--m", 35, "--n", 79, "--k", 19)
    assert output.splitlines()[1].startswith("shape (M x N x K), in TF32")
    assert (record["input"], record["precision"]) == ("FP32", "TF32")
    assert "rounded_inputs" not in record


def test_error_stands_in_the_table_and_in_the_record(run):
    output, record = run("--m", 60, "--n", 70, "--k", 128)
    heading, row = output.splitlines()[1:3]
    assert heading.split()[-2:] == ["error", "error/bound"]
    assert row.split()[-3:-1] == [f"{record['relative_error']:.1e}", f"{record['error_over_bound']:.4f}"]
    assert 2e-5 < record["relative_error"] < 2**-10
    assert 0 < abs(record["bias"]) <= record["bias_limit"] < 1e-4


def test_an_fp32_step_has_a_smaller_one(run):
    output, record = run("--m", 60, "--n", 70, "--k", 128, program=PROGRAMS[STEP])
    assert "TF32" not in output
    assert (record["input"], record["precision"]) == ("FP32", "FP32")
    assert 0 < record["relative_error"] < 1e-6
    assert "bias_limit" not in record


def test_few_elements_have_no_bias_to_judge(run):
    assert "bias_limit" not in run("--m", 2, "--n", 3, "--k", 5)[1]
    assert run("--m", 2, "--n", 3, "--k", 0)[1]["bias"] is None


def test_files_are_taken_as_they_are(run, tmp_path):
    """And multiplied as TF32: with few terms the products are exact, and sums nearly so."""
    rng = np.random.default_rng(7)
    a, b = random(rng, 9, 3), random(rng, 3, 8)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    output, record = run("--a", "a.npy", "--b", "b.npy", "--out", "out.npy")
    exact = to_tf32(a).astype(np.float64) @ to_tf32(b).astype(np.float64)
    assert np.abs(np.load(tmp_path / "out.npy") - exact).max() < 1e-6
    assert "rounded" not in output
    assert "bias_limit" not in record  # which holds for the harness's own data


def test_help_names_the_precision():
    result = subprocess.run([KERNEL, "--help"], capture_output=True, text=True, timeout=LIMIT_S)
    assert "FP32 inputs rounded to TF32, FP32 sums" in " ".join(result.stdout.split())


@pytest.mark.parametrize("protocol", ["auto", "in-turn", "rested"])
def test_the_cpu_device_has_one_protocol(run, protocol):
    """Its times say nothing about a GPU, and nobody waits for it to cool."""
    record = run("--size", 8, "--repeat", 3, "--protocol", protocol)[1]
    assert record["samples"] == 3
    assert "protocol" not in record


@pytest.mark.parametrize("protocol", ["paired", "Rested", "in turn"])
def test_unknown_protocol(protocol):
    command = [KERNEL, "--device", "cpu", "--size", "8", "--protocol", protocol]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert result.returncode == 2
    assert result.stderr == f"error: unknown --protocol '{protocol}'; use auto, in-turn or rested\n"
