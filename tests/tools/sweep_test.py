"""ladder sweep: what it makes of a kernel's source, and what it says of mistakes. Needs no nvcc."""

from conftest import ROOT
from tools.edits import with_constants
from tools.measuring import experiment, sweep


def test_steps_hold_the_constants_of_the_example():
    kernel = (ROOT / "steps" / "08_warp_tiling" / "kernel.cu").read_text()
    changed = with_constants(kernel, {"LM": "2", "LN": "16", "BK": "32"})
    assert changed != kernel


def test_every_combination_is_a_variant():
    [values, options] = ["LM=2,4", "BK=8,16,32"], ["--repeat", "3"]
    swept = sweep.sweep_of("08_warp_tiling", values, [512, 1024], options)
    names = [f"LM={lm},BK={bk}" for lm in (2, 4) for bk in (8, 16, 32)]
    assert [variant.name for variant in swept.variants] == names
    assert swept.variants[1].constants == {"LM": "2", "BK": "16"}
    assert all(variant.options == options for variant in swept.variants) and swept.sizes == [512, 1024]


def test_the_table_has_the_fastest_first():
    def record(name, m, ratio, passed=True):
        figures = {"time_us": 12.34, "ratio_to_cublas": ratio, "machine_code": {"registers": 128}}
        return {"experiment": "08_warp_tiling", "variant": name, "m": m, "pass": passed, **figures}

    records = [record("A=1", 8192, 0.25), record("A=3", 4096, 0.9, False), record("A=1", 4096, 0.125)]
    records += [record("A=2", 8192, 0.75), record("A=2", 4096, 0.5)]
    rows = [experiment.row(r) for r in sweep.fastest_first(records)]
    assert [(variant, size, speed) for _, variant, size, _, speed, _ in rows] == [
        ("A=2", "4096", "0.500 of cuBLAS"),
        ("A=1", "4096", "0.125 of cuBLAS"),
        ("A=3", "4096", "wrong"),
        ("A=2", "8192", "0.750 of cuBLAS"),
        ("A=1", "8192", "0.250 of cuBLAS"),
    ]


def test_mistakes(tool, refused, tmp_path):
    refused("sweep", words=["step", "--help"])
    refused("sweep", "08_warp_tiling", "LM", words=["give a step", "LM=4,8"])
    refused("sweep", "08_warp_tiling", "LM=4", "--sizes", "large", words=["--sizes is 'large'"])
    refused("sweep", "08_warp_tiling", "NOPE=1", words=["0 definitions", "NOPE"])
    program = tmp_path / "steps" / "08_warp_tiling" / "run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'error: no GPU: none; use --device cpu' >&2\nexit 3\n")
    program.chmod(0o755)
    result = tool("sweep", "08_warp_tiling", "LM=4", "--build", tmp_path)
    assert (result.returncode, result.stderr) == (3, "error: no GPU: none\n")
