"""ladder sweep: what it makes of a kernel's source, and what it says of mistakes. Needs no nvcc."""

import pytest
from conftest import ROOT
from tools.measuring import sweep

SOURCE = """// constexpr int BM = 1;
constexpr int BM = 128, BN = 64;
constexpr int TM = 8;
constexpr int threads = BM / TM;
  constexpr int INNER = 3;
"""


def test_with_constants():
    changed = sweep.with_constants(SOURCE, {"BN": "32", "TM": "4", "BM": "256"})
    assert changed == SOURCE.replace("BM = 128, BN = 64", "BM = 256, BN = 32").replace("TM = 8", "TM = 4")
    assert sweep.with_constants(SOURCE, {}) == SOURCE
    assert "threads = 7;" in sweep.with_constants(SOURCE, {"threads": "7"})


@pytest.mark.parametrize(
    "source, name, count",
    [(SOURCE, "BK", 0), (SOURCE, "M", 0), (SOURCE, "INNER", 0), (SOURCE * 2, "TM", 2), ("", "TM", 0)],
)
def test_constant_that_is_not_there_once(source, name, count):
    with pytest.raises(sweep.UsageError, match=f"{count} definitions of `constexpr int {name}`"):
        sweep.with_constants(source, {name: "1"})


def test_steps_hold_the_constants_of_the_example():
    kernel = (ROOT / "steps" / "08_warp_tiling" / "kernel.cu").read_text()
    changed = sweep.with_constants(kernel, {"LM": "2", "LN": "16", "BK": "32"})
    assert changed != kernel


def test_mistakes(refused, tmp_path):
    refused("sweep", words=["give a step"])
    refused("sweep", "08_warp_tiling", "LM", words=["give a step", "LM=4,8"])
    refused("sweep", "08_warp_tiling", "NOPE=1", words=["0 definitions", "NOPE"])
    program = tmp_path / "steps" / "08_warp_tiling" / "run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'error: no GPU: none; use --device cpu' >&2\nexit 3\n")
    program.chmod(0o755)
    said = refused("sweep", "08_warp_tiling", "LM=4", "--build", tmp_path, words=["no GPU: none; --keep DIR"])
    assert "--device" not in said
    refused("sweep", "--run", tmp_path, words=["nothing could be measured"], after_progress=True)
