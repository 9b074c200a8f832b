"""--xray and what it goes with: some of the blocks, several problems, faults, and what is refused."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import LIMIT_S, expect_refusal, rows

pytestmark = pytest.mark.usefixtures("build_that_can_observe")

BUGS = {Path(path).name: path for path in os.environ["BUGS"].split(os.pathsep)}


@pytest.mark.parametrize("arguments", ["--m 0 --n 3 --k 4", "--size 3 --batch 0"])
def test_nothing_to_see(xray, passes, arguments):
    _, report = xray(*arguments.split())
    assert report == {"blocks": 0, "observed_blocks": 0, "verified_blocks": True, "kernels": []}


def test_several_problems(passes, tmp_path):
    output = passes("--xray", "--sweep", "8,40", "--json", "r.json")
    results = json.loads((tmp_path / "r.json").read_text())
    assert [r["xray"]["kernels"][0]["totals"]["global_requests"] > 0 for r in results] == [True, True]
    assert output.count("X-ray of ") == 2


def test_only_with_the_option(passes, tmp_path):
    assert "X-ray" not in passes("--size", 8, "--check", "--json", "r.json")
    assert "xray" not in json.loads((tmp_path / "r.json").read_text())[0]


# ---- Some of the blocks -------------------------------------------------------------------------------


def test_blocks_add_up(xray):
    """What single blocks do is together what the grid does."""
    shape = ("--m", 100, "--n", 150, "--k", 20)
    _, whole = xray(*shape)
    assert whole["blocks"] == 2
    requests = 0
    for x in 0, 1:
        result, report = xray(*shape, "--block", f"{x},0")
        assert (report["blocks"], report["observed_blocks"], report["verified_blocks"]) == (2, 1, False)
        assert (result["pass"], result["verified"]) == (True, False)
        assert all(row["example"]["block"] == [x, 0, 0] for row in rows(report))
        requests += report["kernels"][0]["totals"]["global_requests"]
    assert requests == whole["kernels"][0]["totals"]["global_requests"]


def test_block_of_a_batch(xray):
    _, report = xray("--size", 40, "--batch", 3, "--block", "0,0,2")
    assert (report["blocks"], report["observed_blocks"]) == (3, 1)
    [a] = [r for r in rows(report) if (r["space"], r["array"]) == ("global", "A")]
    assert a["example"]["block"] == [0, 0, 2]
    assert a["example"]["addresses"][0] == 2 * 40 * 40 * 4  # behind two matrices


def test_block_that_is_all_there_is(xray, passes):
    result, report = xray("--size", 40, "--block", "0,0")
    assert (result["verified"], report["verified_blocks"]) == (True, True)


def test_large_shapes_are_sampled(xray, passes):
    """3000 / 32 = 93.75: the last blocks of rows and columns have lanes without an element."""
    shape = ("--m", 3000, "--n", 3000, "--k", 8)
    result, report = xray(*shape, step="02_coalescing")
    assert (report["blocks"], report["observed_blocks"]) == (94 * 94, 64)
    assert report["verified_blocks"] is False
    assert (result["pass"], result["verified"], result["error_over_bound"]) == (True, False, None)
    [b] = [r for r in rows(report) if r["array"] == "B"]
    # 8 x 8 blocks, of which the last row and the last column have 24 of 32.
    assert b["lanes"] == (7 * 32 + 24) ** 2 * 8
    output = passes("--xray", *shape, step="02_coalescing")
    assert "X-ray of 64 of 8836 blocks; the others did not run, so the result was not verified" in output
    assert re.search(r"^3000 x 3000 x 8 .* not verified$", output, re.MULTILINE)
    assert xray(*shape, step="02_coalescing")[1] == report


def test_4096_takes_seconds(xray):
    _, report = xray("--size", 4096, step="01_naive")
    assert (report["blocks"], report["observed_blocks"]) == (128 * 128, 9)
    assert [row["sectors"] / row["requests"] for row in rows(report)] == [32, 1, 32]


# ---- Faults and refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bug, words",
    [
        ("missing_first_barrier", "data race on shared memory"),
        ("host_pointer", "access to host memory"),
    ],
)
def test_faults_are_reported(bug, words, tmp_path):
    command = [BUGS[bug], "--xray", "--m", "70", "--n", "70", "--k", "70", "--json", "r.json"]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (result.returncode, result.stderr) == (1, "")
    assert re.search(rf"{words}: \S*/{bug}\.cuh:\d", result.stdout)
    [record] = json.loads((tmp_path / "r.json").read_text())
    assert record["pass"] is False
    assert any(words in complaint for complaint in record["complaints"])
    assert record["xray"]["kernels"]


@pytest.mark.parametrize(
    "row",
    [
        ("--block 0,0", "--block", "--xray"),
        ("--xray --block 1", "'1'", "blockIdx.x", "--block 0,1"),
        ("--xray --block 1,", "'1,'"),
        ("--xray --block 1,2,3,4", "'1,2,3,4'"),
        ("--xray --block 1,x", "'1,x'"),
        ("--xray --block 99999999999999999999,0", "'99999999999999999999,0'"),
        ("--xray --block=-1,0", "-1,0", "2 x 2", "0,0 to 1,1"),
        ("--xray --block 2,0", "2,0", "2 x 2", "0,0 to 1,1"),
        ("--xray --block 0,0,1", "0,0,1", "2 x 2", "0,0 to 1,1"),
        ("--xray --block 0,0,3 --batch 3", "0,0,3", "2 x 2 x 3", "0,0,0 to 1,1,2"),
        ("--xray --size 0 --block 0,0", "0,0", "no blocks"),
        ("--requests", "--requests", "--xray", "--json"),
        ("--xray --requests --block 0,0", "--requests", "--json"),
        ("--xray --requests --size 256 --json r.json", "--requests", "--block", "4194304 products"),
        ("--xray --repeat 5", "--xray", "--repeat"),
        ("--xray --out c.npy", "--xray", "--out"),
        ("--xray --size 1000000 --json r.json", "GiB"),
        ("--xray --block 2,0 --json r.json", "2,0"),
        ("--xray --sweep 256,8 --block 1,1 --json r.json", "1,1", "1 x 1"),
    ],
    ids=lambda row: row[0],
)
def test_refuses(row, run, tmp_path):
    arguments, *words = row
    result = run(*shlex.split(arguments))
    expect_refusal(result, words)
    assert list(tmp_path.iterdir()) == []
