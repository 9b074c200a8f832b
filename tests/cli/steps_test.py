"""Every step runs without options, on the CPU device, and any of them on what options ask for; tests/cpu runs
every step over many shapes, plain and checked."""

import json
import re

import pytest
from conftest import PROGRAMS


def only_row(output):
    [row] = [line for line in output.splitlines() if re.match(r"\d+ x \d+ x \d+", line)]
    return row


@pytest.mark.parametrize("step", PROGRAMS)
def test_default_problem(passes, step, tmp_path):
    assert re.fullmatch(r"512 x 512 x 512 .*PASS", only_row(passes("--json", "r.json", step=step)))
    assert json.loads((tmp_path / "r.json").read_text())[0]["step"] == step


def test_unverified_is_no_pass(passes):
    assert only_row(passes("--size", 4, "--no-verify")).endswith("not verified")


def test_check(run):
    result = run("--m", 35, "--n", 79, "--k", 19, "--check", device=None)
    if result.returncode == 3 and "GCC" in result.stderr:
        pytest.skip("this build cannot check")
    assert (result.returncode, result.stderr) == (0, "")
    assert "every memory access checked" in result.stdout
    assert only_row(result.stdout).endswith("PASS")


@pytest.mark.parametrize(
    "arguments, shape",
    [
        ("--size 9", "9 x 9 x 9"),
        ("--m 5 --n 9 --k 7 --batch 2 --alpha -0.5 --beta 2", "5 x 9 x 7 batch 2 alpha -0.5 beta 2"),
        ("--m 2 --n 3 --k 4", "2 x 3 x 4"),
        ("--m 0 --n 3 --k 4", "0 x 3 x 4"),
        ("--m 2 --n 3 --k 0 --beta 2", "2 x 3 x 0 beta 2"),
        ("--m 2 --n 3 --k 4 --batch 0", "2 x 3 x 4 batch 0"),
        ("--m 2 --n 3 --k 4 --layout col --lda 5", "2 x 3 x 4 lda 5 col"),
        ("--size 3 --lda 3", "3 x 3 x 3"),
        ("--size 3 --repeat 0", "3 x 3 x 3"),
        ("--size 3 --repeat 5 --cache hot", "3 x 3 x 3"),
        ("--size 3 --seed 18446744073709551615", "3 x 3 x 3"),
        ("--size 3 --alpha 1e-38", "3 x 3 x 3 alpha 1e-38"),
        ("--m 100000 --n 1 --k 1", "100000 x 1 x 1"),
    ],
)
def test_problems(passes, arguments, shape):
    row = only_row(passes(*arguments.split()))
    assert re.fullmatch(re.escape(shape) + r"  .*PASS", row)
