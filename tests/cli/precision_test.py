"""Programs whose A and B are BF16, or floats that they round to TF32: what they print and write, and what
becomes of float32 files.

KERNELS in the environment: programs around kernels that take BF16, and one around a kernel in TF32.
"""

import json
import os
import subprocess

import numpy as np
import pytest
from conftest import LIMIT_S, PROGRAMS, STEP
from files_test import SHAPES, assert_product, random

FP32 = PROGRAMS[STEP]
BF16 = [path for path in os.environ["KERNELS"].split(os.pathsep) if not path.endswith("tf32")]
[TF32] = [path for path in os.environ["KERNELS"].split(os.pathsep) if path.endswith("tf32")]

in_bf16 = pytest.mark.parametrize("program", BF16, ids=os.path.basename)


def to_bf16(array):
    """Rounded to 8 bits of significand, ties to even, as float32."""
    bits = array.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


def to_tf32(array):
    """Rounded to 11 bits of significand, ties away from zero, as float32."""
    bits = (array.astype(np.float32).view(np.uint32) + 0x1000) & 0xFFFFE000
    return bits.astype(np.uint32).view(np.float32)


@pytest.fixture
def run(tmp_path):
    """Runs a program on the CPU device; returns what it prints and the record that it writes."""

    def run_to_json(program, *arguments):
        command = [program, "--device", "cpu", "--json", "results.json", *map(str, arguments)]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
        assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
        [record] = json.loads((tmp_path / "results.json").read_text())
        return result.stdout, record

    return run_to_json


@pytest.fixture
def multiply(run, tmp_path):
    """Has a program multiply arrays; returns the product, and what it prints and writes."""

    def run_on_files(program, a, b, *options):
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)
        output, record = run(program, "--a", "a.npy", "--b", "b.npy", "--out", "out.npy", *options)
        return np.load(tmp_path / "out.npy"), output, record

    return run_on_files


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.mark.parametrize(
    "program, type_, input_, precision",
    [
        (FP32, "", "FP32", "FP32"),
        (TF32, ", in TF32", "FP32", "TF32"),
        *((program, ", A and B BF16", "BF16", "BF16") for program in BF16),
    ],
    ids=os.path.basename,
)
def test_says_what_it_computes_in(run, program, type_, input_, precision):
    output, record = run(program, "--m", 35, "--n", 79, "--k", 19)
    assert output.splitlines()[1].startswith(f"shape (M x N x K){type_} ")
    assert (record["input"], record["precision"]) == (input_, precision)
    assert record["pass"] and record["verified"]
    assert "rounded_inputs" not in record
    assert "rounded" not in output


@pytest.mark.parametrize(
    "program, words",
    [(FP32, "FP32 inputs"), (TF32, "FP32 inputs rounded to TF32, FP32 sums"), (BF16[0], "BF16 inputs")],
    ids=os.path.basename,
)
def test_help(program, words):
    result = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=LIMIT_S)
    assert words in " ".join(result.stdout.split())


# ---- BF16 ---------------------------------------------------------------------------------------------


@in_bf16
def test_random_inputs_are_exact_in_the_type(run, program, tmp_path):
    """A product of one term has 16 bits at most."""
    run(program, "--m", 40, "--n", 30, "--k", 1, "--out", "c.npy")
    c = np.load(tmp_path / "c.npy")
    assert not (c.view(np.uint32) & 0xFF).any()
    assert (c.view(np.uint32) & 0xFF00).any()
    assert (np.abs(c) < 1).all()
    assert len(np.unique(c)) > 1000


@in_bf16
@pytest.mark.parametrize("m, n, k", SHAPES)
def test_files_are_rounded_once(multiply, program, rng, m, n, k):
    a, b = random(rng, m, k), random(rng, k, n)
    c, output, record = multiply(program, a, b)
    assert_product(c, to_bf16(a), to_bf16(b))
    changed = int((to_bf16(a) != a).sum() + (to_bf16(b) != b).sum())
    assert record["rounded_inputs"] == changed
    assert f"rounded to BF16: {changed} elements changed" in output


@in_bf16
def test_files_that_fit_do_not_change(multiply, program, rng):
    a, b = to_bf16(random(rng, 33, 9)), to_bf16(random(rng, 9, 31))
    a[0, 0] = np.inf
    c, _, record = multiply(program, a, b)
    assert record["rounded_inputs"] == 0
    assert not np.isfinite(c[0]).any()
    assert_product(c[1:], a[1:], b)


@in_bf16
def test_nan_stays(multiply, program, rng):
    """In its row, though where TMA takes every eighth row, it comes with the next row, too."""
    a, b = random(rng, 33, 9), random(rng, 9, 31)
    a.view(np.uint32)[4, 8] = 0x7F800001  # whose upper half alone would be an infinity
    c, _, _ = multiply(program, a, b)
    assert np.isnan(c[4]).all()
    assert not np.isnan(np.delete(c, 4, 0)).any()


@in_bf16
def test_the_old_c_is_not_rounded(multiply, program, rng, tmp_path):
    a, b, old = random(rng, 33, 9), random(rng, 9, 31), random(rng, 33, 31)
    np.save(tmp_path / "c.npy", old)
    c, _, _ = multiply(program, a, b, "--c", "c.npy", "--beta", 2)
    assert_product(c, to_bf16(a), to_bf16(b), 1, 2, old)


# ---- TF32 ---------------------------------------------------------------------------------------------


def test_error_stands_in_the_table_and_in_the_record(run):
    shape = ("--m", 60, "--n", 70, "--k", 128)
    output, record = run(TF32, *shape)
    heading, row = output.splitlines()[1:3]
    assert heading.split()[-3:] == ["relative", "error", "error/bound"]
    assert row.split()[-3:-1] == [f"{record['relative_error']:.1e}", f"{record['error_over_bound']:.4f}"]
    assert 2e-5 < record["relative_error"] < 2**-10
    assert 0 < abs(record["bias"]) <= record["bias_limit"] < 1e-4
    _, of_fp32 = run(FP32, *shape)
    assert 0 < of_fp32["relative_error"] < 1e-6
    assert "bias_limit" not in of_fp32


def test_few_elements_have_no_bias_to_judge(run):
    assert "bias_limit" not in run(TF32, "--m", 2, "--n", 3, "--k", 5)[1]
    assert run(TF32, "--m", 2, "--n", 3, "--k", 0)[1]["bias"] is None


def test_floats_are_taken_as_they_are(multiply, rng):
    """And multiplied as TF32: with few terms the products are exact, and sums nearly so."""
    a, b = random(rng, 9, 3), random(rng, 3, 8)
    c, output, record = multiply(TF32, a, b)
    exact = to_tf32(a).astype(np.float64) @ to_tf32(b).astype(np.float64)
    assert np.abs(c - exact).max() < 1e-6
    assert "rounded" not in output and "rounded_inputs" not in record
    assert "bias_limit" not in record  # which holds for the harness's own data


@pytest.mark.parametrize("protocol", ["auto", "in-turn", "rested"])
def test_the_cpu_device_has_one_protocol(run, protocol):
    """Its times say nothing about a GPU, and nobody waits for it to cool."""
    record = run(TF32, "--size", 8, "--repeat", 3, "--protocol", protocol)[1]
    assert record["samples"] == 3
    assert "protocol" not in record
