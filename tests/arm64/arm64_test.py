"""On 64-bit ARM the steps compile, and the CPU device counts as on any other processor. A build for another
processor (setup.sh --arm64) runs it in an emulator."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tools.base import EMULATOR, ROOT

BUILD = Path(os.environ["BUILD"])


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
