"""Step 15 chooses among its kernels: each of them is chosen for a problem of the tests' tables."""

import json
import re
import subprocess
from itertools import product
from pathlib import Path

import pytest
from conftest import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
STEP = "15_every_shape"
FOLDER = ROOT / "steps" / STEP
TABLES = [
    ROOT / "tests" / name for name in ("shapes.txt", "shapes_large_tiles.txt", "shapes_every_shape.txt")
]


@pytest.fixture(scope="module")
def chosen(tmp_path_factory):
    """The kernels that run over each table, as the X-ray names them, each with the arrays it accesses."""
    found = {}
    for table in TABLES:
        report = tmp_path_factory.mktemp("xray") / "r.json"
        command = [PROGRAMS[STEP], "--device", "cpu", "--xray", "--cases", table, "--json", report]
        done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
        if done.returncode == 3 and "GCC" in done.stderr:
            pytest.skip("this build cannot observe")
        assert (done.returncode, done.stderr) == (0, "")
        results = json.loads(report.read_text())
        assert all(result["pass"] for result in results)
        found[table.name] = arrays = {}
        for kernel in (kernel for result in results for kernel in result["xray"]["kernels"]):
            arrays.setdefault(kernel["kernel"], set()).update(row["array"] for row in kernel["accesses"])
    return found


def every_kernel():
    """By the sources: each __global__ function, for every tile, with rows aligned and not."""
    headers = "".join(path.read_text() for path in sorted(FOLDER.glob("*.hpp")))
    names = re.findall(r"__global__ void __launch_bounds__\((?:[^()]|\([^()]*\))*\)\s+(\w+)\(", headers)
    assert sorted(names) == sorted(set(names))
    small = re.findall(r"run<(small_tiles::Shape<[^>]*>)>", (FOLDER / "kernel.cu").read_text())
    assert len(small) == 7
    first = {
        "sgemm_large_tiles": ("large_tiles", ["false, ", "true, "]),
        "sgemm_small_tiles": ("small_tiles", [f"{shape}, " for shape in small]),
        "add_splits": ("small_tiles", [""]),
        "row_times_matrix": ("vectors", [""]),
        "matrix_times_column": ("vectors", [""]),
    }
    assert names and first.keys() == set(names)
    return {
        f"{first[name][0]}::{name}<{begin}{aligned}>"
        for name in names
        for begin, aligned in product(first[name][1], ("true", "false"))
    }


def test_the_tables_reach_every_kernel(chosen):
    packing = {"packing::transpose<true>", "packing::transpose<false>"}
    reached = set().union(*chosen.values())
    assert every_kernel() - reached == set()
    assert packing <= reached
    assert {name for name in reached - every_kernel() if not name.startswith("packing::")} == set()


def test_large_tiles_are_shared_among_blocks(chosen):
    """Each of these kernels has problems in which blocks hand over sums."""
    arrays = chosen["shapes_every_shape.txt"]
    large = [name for name in arrays if "sgemm_large_tiles" in name]
    assert len(large) == 4
    assert all({"sums handed over", "ready"} <= arrays[name] for name in large)


def test_parts_of_k_are_added_up_in_a_cluster_or_by_a_second_kernel(chosen):
    """Each with rows aligned and not."""
    small = [
        (name, arrays)
        for table in chosen.values()
        for name, arrays in table.items()
        if "sgemm_small_tiles" in name
    ]
    for array in ("Sums::C", "partial sums"):
        kernels = [name for name, arrays in small if array in arrays]
        assert {name.endswith("true>") for name in kernels} == {True, False}
