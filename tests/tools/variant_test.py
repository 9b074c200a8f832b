"""ladder variant: a step's program with other constants, and with a kernel of one's own."""

import json
import subprocess
import sys


def test_a_variant_is_built_and_differs(tmp_path):
    command = [sys.executable, "-m", "tools", "variant", "05", "BK=32", "--out", "mine"]  # three compilers
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert (result.returncode, result.stdout) == (0, "built mine/run\n"), result.stderr
    assert "BN = 128, BK = 32;" in (tmp_path / "mine/kernel.cu").read_text()
    xray = tmp_path / "x.json"
    said = subprocess.run([tmp_path / "mine/run", "--xray", "--json", xray], capture_output=True, text=True)
    assert "PASS" in said.stdout and json.loads(xray.read_text())


def test_a_kernel_that_does_not_compile(tool, tmp_path):
    (tmp_path / "k.cu").write_text('#include "common/step.hpp"\nno_such_type x;\n')
    result = tool("variant", "05", "--kernel", "k.cu", "--out", "mine")
    assert result.returncode == 1 and not (tmp_path / "mine/run").exists()
    assert result.stderr.startswith("mine/kernel.cu does not compile: ") and "no_such_type" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_mistakes(refused, tmp_path):
    refused("variant", "05", "BK", "--out", "mine", words=["'BK' is not NAME=VALUE"])
    refused("variant", "05", "NOPE=1", "--out", "mine", words=["0 definitions", "NOPE"])
    refused("variant", "05,06", "--out", "mine", words=["one step"])
    refused("variant", "05", "--kernel", "none.cu", "--out", "mine", words=["none.cu", "cannot be read"])
    assert not (tmp_path / "mine").exists()
