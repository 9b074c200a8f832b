"""What the tests of experiments/register_banks share. They need nvcc 13.0 and its disassemblers, and no GPU.

BUILD in the environment: the build directory, with the program and the steps.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD", "."))
PROGRAM = BUILD / "experiments" / "register_banks" / "probes"
TOOL = ROOT / "experiments" / "register_banks"
sys.path[:0] = [str(ROOT / "common"), str(ROOT / "experiments")]

from machine_code.cubin import find_cubins  # noqa: E402
from machine_code.rewrite import ARCH, Refused, check_origin  # noqa: E402
from register_banks.command import read_patterns, step_loops  # noqa: E402
from register_banks.patch import Probe, find_probes  # noqa: E402
from tools.base import UsageError  # noqa: E402


def run_tool(*arguments):
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def cubin_of(path):
    (cubin,) = (c for c in find_cubins(path.read_bytes()) if c.arch == ARCH and c.kernels)
    return cubin


@pytest.fixture(scope="session")
def program():
    """The program as it was compiled."""
    if not PROGRAM.exists():
        pytest.skip("the program is not built: there is no nvcc")
    try:
        check_origin(cubin_of(PROGRAM))
    except Refused as reason:
        pytest.skip(str(reason))
    return PROGRAM


@pytest.fixture(scope="session")
def loops(program):  # for a compiler that is known
    """The main loops of the steps that are replayed."""
    try:
        return step_loops(BUILD / "steps")
    except UsageError as missing:
        pytest.skip(str(missing))


@dataclass
class Written:
    folder: Path
    output: str

    @property
    def program(self):
        return self.folder / "register_banks"

    @property
    def patterns(self):
        return read_patterns(self.folder / "patterns.txt")


@pytest.fixture(scope="session")
def written(program, loops, tmp_path_factory):
    """What the tool makes of it."""
    folder = tmp_path_factory.mktemp("written") / "out"
    result = run_tool(program, "-o", folder)
    assert result.returncode == 0, result.stderr
    return Written(folder, result.stdout)


@pytest.fixture(scope="session")
def probes(program) -> dict[tuple[str, int], Probe]:
    return find_probes(cubin_of(program))


@pytest.fixture(scope="session")
def rewritten(written) -> dict[tuple[str, int], Probe]:
    """The kernels of the program that the tool wrote."""
    return find_probes(cubin_of(written.program))
