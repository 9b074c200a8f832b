"""ladder measure: measuring on the CPU device, and what it makes of records."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tools.measuring.table import terminal_table

STEPS = ("01_naive", "02_coalescing")
BUILD = os.environ.get("BUILD", "")
needs_build = pytest.mark.skipif(not BUILD, reason="BUILD names no build directory")


def gpu_record(step, size, ratio, **others):
    return {
        "step": step,
        "m": size,
        "n": size,
        "k": size,
        "batch": 1,
        "pass": True,
        "time_us": 10.0,
        "tflops": 60 * (ratio or 0),
        "ratio_to_cublas": ratio,
        "samples": 20,
        "sm_clock_mhz": 1980.0,
        "device": "Test GPU",
        "device_kind": "gpu",
        "driver": "1.2",
        "cuda": "13.0",
        "date": "2026-01-02T03:04:05Z",
        **others,
    }


RECORDS = [
    gpu_record("01_naive", 1000, 0.02),
    gpu_record("01_naive", 4096, 0.0123),
    gpu_record("01_naive", 8192, 0.5, date="2026-01-09T00:00:00Z", sm_clock_mhz=1965.0),
    gpu_record("02_coalescing", 4096, 1.0167),
    gpu_record("02_coalescing", 8192, None, **{"pass": False}),
    gpu_record("02_coalescing", 1000, 0.77, batch=100),
]
CPU_RECORDS = [
    gpu_record(
        "01_naive", 64, None, tflops=None, time_us=1500.0, device="CPU device, 2 cores", device_kind="cpu"
    )
]


TF32 = {
    "input": "FP32",
    "precision": "TF32",
    "baseline": "cuBLAS TF32",
    "ratio_sustained": 0.61,
    "relative_error": 2.34e-5,
    "sustained_sm_clock_mhz": 1425.0,
}
MIXED = [
    *RECORDS,
    gpu_record("20_first", 4096, 0.25, **TF32),
    gpu_record("20_first", 8192, 0.2, **TF32 | {"sustained_sm_clock_mhz": 1410.0}),
]
BF16 = gpu_record(
    "34_warp_specialisation", 4096, 0.75, input="BF16", precision="BF16", baseline="cuBLAS BF16"
)


@pytest.fixture
def recorded(tmp_path) -> Path:
    path = tmp_path / "ladder.json"
    path.write_text(json.dumps(RECORDS))
    return path


# ---- The table ---------------------------------------------------------------------------------------------


def test_table_in_the_terminal():
    assert terminal_table(RECORDS).splitlines() == [
        "step           TFLOP/s@4096  cuBLAS@4096  cuBLAS@8192",
        "01_naive               0.74        1.2 %       50.0 %",
        "02_coalescing         61.00      101.7 %        wrong",
        "",
        "Test GPU, driver 1.2, CUDA 13.0, SM clock 1965 to 1980 MHz, recorded 2026-01-02 to 2026-01-09. "
        "Each figure is the median of 20 pairs, a step's run and cuBLAS's in turn.",
    ]


def test_table_of_chosen_sizes():
    lines = terminal_table(RECORDS, [1000]).splitlines()
    assert lines[0].split() == ["step", "TFLOP/s@1000", "cuBLAS@1000"]
    assert lines[1].split() == ["01_naive", "1.20", "2.0", "%"]
    assert lines[2].split() == ["02_coalescing"]  # the batch is not this problem


def test_each_precision_has_a_table():
    assert terminal_table(MIXED) == f"FP32\n\n{terminal_table(RECORDS)}\n" + "\n".join([
        "",
        "TF32",
        "",
        "step      TFLOP/s@4096  cuBLAS@4096  cuBLAS@8192  sustained@4096  relative error@4096",
        "20_first         15.00       25.0 %       20.0 %          61.0 %              2.3e-05",
        "",
        "Test GPU, driver 1.2, CUDA 13.0, SM clock 1980 MHz (sustained 1410 to 1425 MHz), recorded "
        "2026-01-02. Each figure is the median of 20 pairs, a step's run and cuBLAS's in turn, the GPU "
        "rested before each; sustained: each without a break.",
    ])  # fmt: skip


def test_table_of_the_cpu_device_says_what_it_is():
    lines = terminal_table(CPU_RECORDS).splitlines()
    assert lines[0].split() == ["step", "simulated", "64", "in"]
    assert lines[1].split() == ["01_naive", "1.5", "ms"]
    assert "no measure of a GPU" in lines[-1]
    assert "cuBLAS" not in "".join(lines)


# ---- The plot ----------------------------------------------------------------------------------------------


def test_plot(tool, recorded, tmp_path):
    result = tool("plot", "--check", recorded)
    assert result.returncode == 1
    assert not (tmp_path / "ladder.svg").exists()  # looked for, not drawn
    result = tool("plot", recorded)
    assert (result.returncode, result.stderr) == (0, "")
    drawn = (tmp_path / "ladder.svg").read_text()
    for text in (
        "Test GPU, 2026-01-02 to 2026-01-09",
        "01 naive",
        "02 coalescing",
        "N = 4096",
        "N = 8192",
        "102",
    ):
        assert f">{text}<" in drawn
    assert ">77<" not in drawn  # the batch
    assert tool("plot", "--check", recorded).returncode == 0
    (tmp_path / "ladder.svg").write_text(drawn.replace(">102<", ">103<"))
    result = tool("plot", "--check", recorded)
    assert result.returncode == 1
    assert "ladder.svg and" in result.stderr


def test_plot_of_each_precision(tool, recorded, tmp_path):
    assert tool("plot", recorded).returncode == 0
    alone = (tmp_path / "ladder.svg").read_text()
    assert not (tmp_path / "ladder_tf32.svg").exists()
    recorded.write_text(json.dumps([BF16, *MIXED]))
    assert tool("plot", recorded).returncode == 0
    assert (tmp_path / "ladder.svg").read_text() == alone
    tf32 = (tmp_path / "ladder_tf32.svg").read_text()
    assert ">20 first<" in tf32
    assert "cuBLAS TF32" in tf32
    assert "naive" not in tf32
    bf16 = (tmp_path / "ladder_bf16.svg").read_text()
    assert ">34 warp specialisation<" in bf16 and "cuBLAS BF16" in bf16 and ">20 first<" not in bf16


def test_plot_of_the_cpu_device(refused, recorded):
    recorded.write_text(json.dumps(CPU_RECORDS))
    refused("plot", recorded, words=["no fraction of cuBLAS"])


# ---- Bad input ---------------------------------------------------------------------------------------------

BAD_FILES = {
    "empty": "",
    "text": "step 01",
    "object": "{}",
    "array": "[]",
    "numbers": "[1]",
    "short": '[{"step": "01_naive"}]',
    "binary": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("name", [*BAD_FILES, "missing", "directory"])
def test_bad_file(refused, tmp_path, name):
    path = tmp_path / name
    if name in BAD_FILES:
        content = BAD_FILES[name]
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    elif name == "directory":
        path.mkdir()
    refused("plot", path, words=[name])


def test_bad_arguments_of_record(refused, tmp_path):
    refused("measure", "--build", "missing", words=["no step is built in missing"])
    program = tmp_path / "build" / "steps" / "01_naive" / "run"
    program.parent.mkdir(parents=True)
    program.write_text("not a program")
    record = ["measure", "--build", "build", "--device", "cpu"]
    refused(*record, words=["cannot be run"], after_progress=True)
    refused(*record, "--steps", "07", words=["'07'", "01_naive"])
    refused(*record, "--steps", "01_naive,", words=["''"])
    for sizes in "x", "12,", "0", "-5", "1.5":
        refused(*record, f"--sizes={sizes}", words=["--sizes", sizes])
    (tmp_path / "ladder.json").write_text("{}")
    refused(*record, "--append", words=["ladder.json"])
    assert (tmp_path / "ladder.json").read_text() == "{}"


@pytest.mark.parametrize(
    "verb", ["measure", "plot", "profile", "experiment", "sweep", "calibrate", "sass", "same-code"]
)
def test_the_standard_library_suffices(verb):
    """Where the GPU is there may be no .venv. -S: without installed packages."""
    command = [sys.executable, "-S", "-m", "tools", verb, "--help"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"ladder {verb} " in result.stdout  # an example


# ---- Measuring ---------------------------------------------------------------------------------------------


@needs_build
def test_record_on_the_cpu_device(tool, tmp_path):
    record = ["measure", "--build", BUILD, "--device", "cpu", "--out", "new/ladder.json"]
    result = tool(*record, "--steps", "01,02", "--sizes", "16,24")
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == ["[0/2] 01_naive", "[1/2] 02_coalescing", "[2/2] done"]
    assert result.stdout.splitlines()[0].split() == ["step", "simulated", "16", "in", "simulated", "24", "in"]
    assert "no measure of a GPU" in result.stdout
    out = tmp_path / "new" / "ladder.json"
    assert list(out.parent.iterdir()) == [out]  # no plot: there is nothing to draw

    def measured():
        records = json.loads(out.read_text())
        assert all(r["verified"] and r["pass"] and r["device_kind"] == "cpu" for r in records)
        return {(r["step"], r["m"]): r["time_us"] for r in records}

    first = measured()
    assert list(first) == [(step, size) for step in STEPS for size in (16, 24)]

    # Others stay, those of the same problem are replaced.
    result = tool(*record, "--steps", "02_coalescing", "--sizes", "24,8", "--append")
    assert result.returncode == 0, result.stderr
    second = measured()
    assert second.keys() == first.keys() | {("02_coalescing", 8)}
    assert {key for key in first if first[key] != second[key]} == {("02_coalescing", 24)}

    # Without --append the file begins anew.
    assert tool(*record, "--steps", "01", "--sizes", "8").returncode == 0
    assert list(measured()) == [("01_naive", 8)]


@needs_build
def test_record_shapes_of_a_file(tool, refused, tmp_path):
    (tmp_path / "shapes.txt").write_text("# flat, wide\n--m 4 --n 24 --k 8\n\n--size 8 --batch 2\n")
    record = ["measure", "--build", BUILD, "--device", "cpu", "--steps", "02"]
    result = tool(*record, "--cases", "shapes.txt")
    assert result.returncode == 0, result.stderr
    records = json.loads((tmp_path / "ladder.json").read_text())
    assert [tuple(r[key] for key in ("m", "n", "k", "batch")) for r in records] == [
        (4, 24, 8, 1),
        (8, 8, 8, 2),
    ]
    (tmp_path / "none.txt").write_text("# nothing yet\n")
    refused(*record, "--cases", "none.txt", words=["none.txt", "no problem"])
    refused(*record, "--cases", "missing.txt", words=["missing.txt"])


@needs_build
def test_record_without_a_gpu(tool, tmp_path):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    record = ["measure", "--build", BUILD, "--steps", "01", "--sizes", "16"]
    result = tool(*record, env=environment)
    assert result.returncode == 0, result.stderr
    assert "CPU device" in result.stdout
    result = tool(*record, "--device", "gpu", "--out", "gpu.json", env=environment)
    assert result.returncode == 3
    assert "no GPU" in result.stderr
    assert not (tmp_path / "gpu.json").exists()


@needs_build
def test_record_does_not_mix_devices(refused, recorded):
    before = recorded.read_text()
    record = ["measure", "--build", BUILD, "--device", "cpu", "--steps", "01", "--sizes", "8"]
    refused(*record, "--append", words=["Test GPU", "CPU device", "--append"], after_progress=True)
    assert recorded.read_text() == before


def fake_step(build: Path, name: str, script: str) -> None:
    program = build / "steps" / name / "run"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)


def test_what_was_measured_stays_if_a_later_step_fails(tool, tmp_path):
    build = tmp_path / "build"
    good = f"import sys\nopen(sys.argv[sys.argv.index('--json') + 1], 'w').write({json.dumps(RECORDS[:1])!r})"
    fake_step(build, "01_naive", good)
    fake_step(build, "02_coalescing", "import sys\nprint('16 x 16 x 16 FAIL')\nsys.exit(1)")
    result = tool("measure", "--build", build, "--device", "gpu")
    assert result.returncode == 1
    assert result.stderr.endswith("error: 02_coalescing ended with exit status 1: 16 x 16 x 16 FAIL\n")
    assert [r["step"] for r in json.loads((tmp_path / "ladder.json").read_text())] == ["01_naive"]


def test_steps_that_the_gpu_cannot_run_are_left_out(tool, refused, tmp_path):
    build, measure = tmp_path / "build", ["measure", "--build", tmp_path / "build", "--device", "gpu"]
    good = f"import sys\nopen(sys.argv[sys.argv.index('--json') + 1], 'w').write({json.dumps(RECORDS[:1])!r})"
    lacks = "import sys\nprint('error: sm_90+', file=sys.stderr)\nsys.exit(3)"
    fake_step(build, "01_naive", good)
    fake_step(build, "13_bulk_copy", lacks)
    result = tool(*measure)
    assert result.returncode == 0, result.stderr
    assert "left out: 13_bulk_copy: sm_90+" in result.stderr
    assert [r["step"] for r in json.loads((tmp_path / "ladder.json").read_text())] == ["01_naive"]
    assert tool(*measure, "--steps", "01,13").returncode == 3  # it was asked for
    (build / "steps/01_naive/run").unlink()
    assert tool(*measure).returncode == 3  # nothing is left


def test_a_plot_is_drawn_beside_the_record_if_there_is_something_to_draw(tool, tmp_path):
    for ratio, said in ((0.5, "wrote out.json and out.svg"), (None, "wrote out.json; no plot: no fraction")):
        record = json.dumps([gpu_record("01_naive", 4096, ratio)])
        script = f"import sys\nopen(sys.argv[sys.argv.index('--json') + 1], 'w').write({record!r})"
        fake_step(tmp_path / f"build{ratio}", "01_naive", script)
        (tmp_path / "out.svg").unlink(missing_ok=True)
        result = tool("measure", "--build", f"build{ratio}", "--device", "gpu", "--out", "out.json")
        assert result.returncode == 0, result.stderr
        assert result.stdout.splitlines()[-1].startswith(said)
        assert (tmp_path / "out.svg").exists() == (ratio is not None)
