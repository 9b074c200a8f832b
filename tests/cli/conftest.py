"""What the tests of the command line share. STEPS in the environment: the steps' programs."""

import os
import subprocess
from pathlib import Path

import pytest

PROGRAMS = {Path(path).parent.name: path for path in os.environ["STEPS"].split(os.pathsep)}
STEP = "05_2d_tiling"  # where any step will do
LIMIT_S = 60  # far above what anything here takes


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
