"""What the tests of the tools share. BUILD in the environment: the build directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMON = ROOT / "common"
sys.path.insert(0, str(COMMON))
os.environ["PYTHONPATH"] = str(COMMON)  # of `python -m tools`


@pytest.fixture
def tool(tmp_path):
    """Runs a tool in a directory of its own."""

    def run_tool(name, *arguments, cwd=tmp_path, **options):
        command = [sys.executable, "-m", "tools", *name.split(), *map(str, arguments)]
        return subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False, **options
        )

    return run_tool


@pytest.fixture
def refused(tool):
    """Runs a tool that must refuse: exit status 2 and one line that holds the words, which it returns."""

    def run_and_expect_refusal(name, *arguments, words=(), after_progress=False, **options):
        result = tool(name, *arguments, **options)
        assert result.returncode == 2, result.stdout + result.stderr
        lines = [line for line in result.stderr.splitlines() if not (after_progress and line.startswith("["))]
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("error: ")
        for word in words:
            assert word in lines[0]
        return lines[0]

    return run_and_expect_refusal


@pytest.fixture
def project(tmp_path):
    """A small project with pages: pages_project.py."""
    from pages_project import Project

    return Project(tmp_path)
