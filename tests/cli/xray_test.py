"""--xray: what is printed and written of a kernel's accesses to memory."""

import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from conftest import COUNTS, EXAMPLE, LIMIT_S, PROGRAMS, ROW, rows

pytestmark = pytest.mark.usefixtures("build_that_can_observe")

ROOT = Path(__file__).resolve().parents[2]
RAGGED = ("--m", 35, "--n", 79, "--k", 19, "--batch", 2)

# Steps 13 and up launch several kernels, or one that they choose, in files of their own.
ONE_KERNEL = [step for step in PROGRAMS if step < "13"]
SERVED = {"global": {"sectors", "bytes_used"}, "shared": {"parts"}}  # what the memory makes of an example
TOTALS = {
    "global_requests", "global_sectors", "global_bytes_used", "global_wavefronts", "shared_requests",
    "shared_wavefronts", "shared_ideal_wavefronts", "shared_conflicts",
}  # fmt: skip


@pytest.fixture(scope="session")
def observed(tmp_path_factory):
    """What a step prints and the result it writes, by step and arguments: each runs only once."""
    directory = tmp_path_factory.mktemp("observed")

    @functools.cache
    def run_once(step, arguments):
        command = [PROGRAMS[step], "--xray", *map(str, arguments), "--json", "r.json"]
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        [result] = json.loads((directory / "r.json").read_text())
        return done.stdout, result

    return run_once


# ---- JSON ---------------------------------------------------------------------------------------------


def check_served(row):
    """The sectors or the parts of an example, computed from its addresses."""
    size, example = row["bytes"], row["example"]
    wanted = {lane: range(a, a + size) for lane, a in enumerate(example["addresses"]) if a is not None}
    if row["space"] == "global":
        every = {byte for places in wanted.values() for byte in places}
        assert example["bytes_used"] == len(every)
        assert example["sectors"] == sorted({byte // 32 * 32 for byte in every})
        return
    seen = []
    for part in example["parts"]:
        first, last = part["lanes"]
        mine = [wanted[lane] for lane in range(first, last + 1) if lane in wanted]
        assert mine
        assert part["bytes"] == [0, size - 1]
        assert last - first + 1 in ((32,) if size == 4 else (128 // size, 256 // size))
        words = {byte // 4 for places in mine for byte in places}
        assert part["words_of_banks"] == [sum(word % 32 == bank for word in words) for bank in range(32)]
        assert part["wavefronts"] == max(part["words_of_banks"])
        seen += range(first, last + 1)
    assert seen == sorted(set(seen))
    assert wanted.keys() <= set(seen)


@pytest.mark.parametrize("arguments", [(), RAGGED], ids=["default", "ragged"])
@pytest.mark.parametrize("step", ONE_KERNEL)
def test_json(observed, step, arguments):
    _, result = observed(step, arguments)
    report = result["xray"]
    if not arguments:
        assert (result["m"], result["n"], result["k"]) == (256, 256, 128)
    assert (result["pass"], result["verified"], result["device_kind"]) == (True, True, "cpu")
    assert report.keys() == {"blocks", "observed_blocks", "verified_blocks", "kernels"}
    assert report["blocks"] == report["observed_blocks"] > 0
    assert report["verified_blocks"] is True
    [kernel] = report["kernels"]
    assert kernel.keys() == {"kernel", "threads_per_block", "accesses", "totals"}
    assert re.fullmatch(r"sgemm_\w+(<(true|false)>)?", kernel["kernel"])
    if "<" in kernel["kernel"]:
        assert ("<true>" in kernel["kernel"]) == (not arguments)  # 79 is no multiple of 4
    assert kernel["threads_per_block"] >= 1
    source = (ROOT / "steps" / step / "kernel.cu").read_text().splitlines()
    for row in kernel["accesses"]:
        assert row.keys() == ROW | COUNTS[row["space"]]
        assert row["file"] == f"steps/{step}/kernel.cu"
        assert row["source"] == source[row["line"] - 1].strip() != ""
        assert row["bytes"] in (4, 8, 16)
        assert 0 < row["requests"] <= row["lanes"] <= 32 * row["requests"]
        if row["space"] == "global":
            assert row["array"] in ("A", "B", "C")
            assert row["operation"] == {"C": "store"}.get(row["array"], row["operation"])
            assert row["bytes_used"] <= 32 * row["sectors"]
            assert row["requests"] <= row["sectors"] <= 32 * row["requests"]
            assert row["requests"] <= row["wavefronts"] <= 32 * row["requests"]
        else:
            assert row["array"] in ("As", "Bs", "Tiles::A", "Tiles::B")
            assert row["wavefronts"] >= row["ideal_wavefronts"] + row["conflicts"]
            assert 0 <= row["lanes_during_copies"] <= row["lanes"]
            if row["operation"] != "copy":
                assert row["wavefronts"] == row["ideal_wavefronts"] + row["conflicts"]
        example = row["example"]
        assert example.keys() == EXAMPLE | SERVED[row["space"]]
        assert len(example["block"]) == 3
        assert 0 <= example["warp"] <= (kernel["threads_per_block"] - 1) // 32
        assert len(example["addresses"]) == 32
        offsets = [offset for offset in example["addresses"] if offset is not None]
        assert offsets
        assert all(offset >= 0 and offset % row["bytes"] == 0 for offset in offsets)
        check_served(row)
        if not arguments and kernel["threads_per_block"] >= 32:  # no edges in this problem
            assert row["lanes"] == 32 * row["requests"]
            assert (example["block"], example["warp"], len(offsets)) == ([0, 0, 0], 0, 32)

    order = ["global", "shared"], ["load", "store", "copy"]
    keys = [
        (r["line"], order[0].index(r["space"]), order[1].index(r["operation"]), r["array"], r["bytes"])
        for r in kernel["accesses"]
    ]
    assert keys == sorted(set(keys))
    assert kernel["totals"].keys() == TOTALS
    for name, total in kernel["totals"].items():
        space, _, count = name.partition("_")
        assert total == sum(r[count] for r in kernel["accesses"] if r["space"] == space), name


@pytest.mark.parametrize("step", [step for step in PROGRAMS if step not in ONE_KERNEL])
def test_several_kernels(observed, step):
    """Steps that pack their matrices, or choose a kernel: each one's accesses stand by themselves."""
    output, result = observed(step, RAGGED)
    assert (result["pass"], result["verified"]) == (True, True)
    kernels = result["xray"]["kernels"]
    assert any("gemm_" in kernel["kernel"] for kernel in kernels)
    for kernel in kernels:
        assert f"{kernel['kernel']}, {kernel['threads_per_block']} threads a block" in output
        assert kernel["accesses"] and kernel["totals"]["global_requests"] > 0
        for row in kernel["accesses"]:
            source = (ROOT / row["file"]).read_text().splitlines()
            assert row["source"] == source[row["line"] - 1].strip() != ""


@pytest.mark.parametrize(
    "step, arguments, of_b",
    [
        ("13_bulk_copy", (), 4),
        ("14_stream_k", (), 4),
        ("15_every_shape", (), 2),  # a tile of 128 x 128
        ("15_every_shape", ("--m", 256, "--n", 512, "--k", 384), 4),
    ],
)
def test_fragments_of_tiles(observed, step, arguments, of_b):
    """A load from A takes two wavefronts. One from B takes four where lanes lie row by row, as in the tiles
    of 128 x 256; where they are numbered in pairs, the hardware joins quarters of a warp, and it takes two.
    """
    kernels = observed(step, arguments)[1]["xray"]["kernels"]
    [kernel] = [kernel for kernel in kernels if "sgemm_" in kernel["kernel"]]
    assert ("large_tiles" in kernel["kernel"]) == (step == "15_every_shape" and arguments != ())
    loads = [r for r in kernel["accesses"] if (r["space"], r["operation"]) == ("shared", "load")]
    assert {r["array"] for r in loads} == {"Tiles::A", "Tiles::B"}
    assert {r["bytes"] for r in loads} == {16}
    wavefronts = {"Tiles::A": 2, "Tiles::B": of_b}
    assert all(
        r["wavefronts"] == r["ideal_wavefronts"] == wavefronts[r["array"]] * r["requests"] > 0 for r in loads
    )


def test_a_batch_and_old_values_of_c(xray):
    _, report = xray("--m", 64, "--n", 64, "--k", 8, "--batch", 3, "--beta", 1, step="02_coalescing")
    assert report["blocks"] == 2 * 2 * 3
    of_c = [row for row in rows(report) if row["array"] == "C"]
    assert [row["operation"] for row in of_c] == ["load", "store"]
    assert all(row["lanes"] == 64 * 64 * 3 for row in of_c)


def test_column_major(xray):
    """The product of the operands exchanged, as the steps see it."""
    _, report = xray("--m", 64, "--n", 32, "--k", 16, "--layout", "col", step="01_naive")
    lanes = {r["array"]: r["lanes"] for r in rows(report)}
    assert lanes == {"A": 64 * 32 * 16, "B": 64 * 32 * 16, "C": 64 * 32}
    [c] = [r for r in rows(report) if r["array"] == "C"]
    assert c["example"]["addresses"] == [lane * 64 * 4 for lane in range(32)]


@pytest.mark.parametrize("step", ["03_shared_memory", "12_larger_tiles"])
def test_same_on_one_core_as_on_all(step, tmp_path):
    """However the blocks are spread over OS threads."""
    reports = []
    cores = sorted(os.sched_getaffinity(0))
    for i, allowed in enumerate([cores, cores[:1], cores, cores[-1:], cores]):
        command = [PROGRAMS[step], "--xray", *map(str, RAGGED), "--json", f"{i}.json"]
        subprocess.run(
            ["taskset", "--cpu-list", ",".join(map(str, allowed)), *command],
            cwd=tmp_path, check=True, capture_output=True, timeout=LIMIT_S,
        )  # fmt: skip
        reports.append(json.loads((tmp_path / f"{i}.json").read_text())[0]["xray"])
    assert all(report == reports[0] for report in reports)


# ---- The tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), RAGGED], ids=["default", "ragged"])
@pytest.mark.parametrize("step", ONE_KERNEL)
def test_tables(observed, step, arguments):
    output, result = observed(step, arguments)
    report = result["xray"]
    assert "(--xray runs there)" in output.splitlines()[0]
    text = output[output.index("X-ray of") :]
    assert text.startswith(f"X-ray of {report['blocks']} of {report['blocks']} blocks\n")
    assert all(len(line) <= 120 for line in output.splitlines())
    [kernel] = report["kernels"]
    heading = f"{kernel['kernel']}, {kernel['threads_per_block']} threads a block, steps/{step}/kernel.cu"
    assert heading in text.splitlines()
    lines = [line for line in text.splitlines() if re.match(r" {1,4}\d+  ", line)]
    table = sorted(rows(report), key=lambda r: r["space"])
    waiting = 0
    assert len(lines) == len(table)
    for line, row in zip(lines, table, strict=True):
        number, source, rest = int(line[:5]), line[7:55].strip(), line[56:].split()
        assert number == row["line"]
        assert row["source"].startswith(source.removesuffix("..."))
        assert rest[:4] == [row["operation"], row["array"], str(row["bytes"]), str(row["requests"])]
        of_request = row["sectors" if row["space"] == "global" else "wavefronts"] / row["requests"]
        assert float(rest[4]) == pytest.approx(row["lanes"] / row["requests"], abs=0.01)
        assert float(rest[5]) == pytest.approx(of_request, abs=0.01)
        if row["space"] == "global":
            assert int(rest[6]) == pytest.approx(100 * row["bytes_used"] / row["sectors"] / 32, abs=1)
            assert float(rest[8]) == pytest.approx(row["wavefronts"] / row["requests"], abs=0.01)
        else:
            if slow := row["wavefronts"] - row["ideal_wavefronts"] - row["conflicts"]:
                assert rest[6] == "-"  # the copy waits for what it reads, which a line below says
                waiting += slow
            else:
                assert float(rest[6]) == pytest.approx(row["ideal_wavefronts"] / row["requests"], abs=0.01)
            assert int(rest[7]) == row["conflicts"]
    totals = {key: f"{value:,}".replace(",", " ") for key, value in kernel["totals"].items()}
    assert f"total: {totals['global_requests']} requests for {totals['global_sectors']} sectors" in text
    assert f" used, in {totals['global_wavefronts']} wavefronts\n" in text
    if kernel["totals"]["shared_requests"] > 0:
        assert (
            f"in {totals['shared_wavefronts']} wavefronts; ideal {totals['shared_ideal_wavefronts']}" in text
        )
        assert f"bank conflicts {totals['shared_conflicts']}\n" in text
    assert ("dearer side" in text) == (waiting > 0)
    if waiting:
        assert f"here the words that it reads: {waiting:,} more\n".replace(",", " ") in text
