"""What the tests of the command line share. STEPS in the environment: the steps' programs."""

import json
import os
import subprocess
from pathlib import Path

import pytest

PROGRAMS = {Path(path).parent.name: path for path in os.environ["STEPS"].split(os.pathsep)}
STEP = "05_2d_tiling"  # where any step will do
LIMIT_S = 60  # far above what anything here takes

# Of an X-ray as JSON: the keys of a row, of its example, and of what is counted.
ROW = {"file", "line", "source", "space", "operation", "array", "bytes", "requests", "lanes", "example"}
EXAMPLE = {"block", "warp", "execution", "addresses"}
COUNTS = {
    "global": {"sectors", "bytes_used", "wavefronts"},
    "shared": {"wavefronts", "ideal_wavefronts", "conflicts", "lanes_during_copies"},
}


@pytest.fixture
def run(tmp_path):
    """Runs a step in a directory of its own, on the CPU device."""

    def run_step(*arguments, step=STEP, cwd=tmp_path, device="cpu", **options):
        command = [PROGRAMS[step], *(str(argument) for argument in arguments)]
        if device:
            command += ["--device", device]
        return subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False, **options
        )

    return run_step


@pytest.fixture
def passes(run):
    """Runs a step that must succeed and say nothing on stderr; returns what it prints."""

    def run_and_expect_success(*arguments, **options):
        result = run(*arguments, **options)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stderr == ""
        return result.stdout

    return run_and_expect_success


def expect_refusal(result, words):
    """Bad usage: exit status 2, and one line that has these words."""
    assert result.returncode == 2, result.stdout + result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.endswith("\n")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


# ---- X-rays -------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def build_that_can_observe():
    """Skips where the build cannot."""
    command = [PROGRAMS[STEP], "--xray", "--size", "8"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if result.returncode == 3 and "GCC" in result.stderr:
        assert result.stderr.count("\n") == 1
        pytest.skip("this build cannot observe")


@pytest.fixture
def xray(passes, tmp_path):
    """The result of a run, and its X-ray."""

    def run_to_json(*arguments, **options):
        passes("--xray", *arguments, "--json", "results.json", **options)
        [result] = json.loads((tmp_path / "results.json").read_text())
        return result, result["xray"]

    return run_to_json


def rows(report):
    return [row for kernel in report["kernels"] for row in kernel["accesses"]]
