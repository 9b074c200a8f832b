"""ladder profile: what it makes of Nsight Compute's tables, and what it says where it cannot profile."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tools.base import UsageError
from tools.machine_code import sass
from tools.machine_code.identity import sass_sha256
from tools.machine_code.listing import Frame, parse_instruction
from tools.measuring import counters, counters_record

RAW = """==PROF== Connected to process 1
"ID","Kernel Name","gpu__time_duration.sum","sm__cycles_elapsed.max","launch__grid_size","dram__bytes_read.sum","smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio","smsp__average_warps_issue_stalled_barrier_not_issued_per_issue_active.ratio"
"","","ms","cycle","","Gbyte","inst",""
"0","void <unnamed>::sgemm_x<1>(Gemm)","1.5","2,970,000","1,024","0.25","0.5","0.1"
"""  # noqa: E501

SOURCE = """"Kernel Name","<unnamed>::sgemm_x(Gemm)",
"Address","Source","Instructions Executed","Predicated-On Thread Instructions Executed","Warp Stall Sampling (All Samples)","L2 Theoretical Sectors Global","L2 Theoretical Sectors Global Ideal","L1 Tag Requests Global","stall_long_sb","stall_wait","stall_wait (Not Issued)"
"0x7f00","      LDG.E R1,  [R2]","64","2,048","4","256","256","64","3","1","1"
"0x7f10","@!P0  FFMA R1, R1, R2, R3","64","0","0","0","0","0","0","0","0"
"Kernel Name","another",
"Address","Source","Instructions Executed"
"0x8000","EXIT","1"
"""  # noqa: E501


# A step on tensor cores, whose kernel's name does not begin with sgemm.
RAW_OF_TENSOR_CORES = """"ID","Kernel Name","gpu__time_duration.sum","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active","sm__inst_executed_pipe_tensor_op_hmma.sum"
"","","us","%","inst"
"0","void <unnamed>::gemm_ldmatrix<1>(GemmOf<float>)","500","71.25","16,777,216"
"""  # noqa: E501
SOURCE_OF_TENSOR_CORES = """"Kernel Name","<unnamed>::gemm_ldmatrix"
"Address","Source","Instructions Executed","Predicated-On Thread Instructions Executed","L1 Wavefronts Shared","L1 Wavefronts Shared Ideal"
"0x7f00","LDSM.16.M88.4 R8, [R2]","64","2048","256","256"
"0x7f10","HMMA.1688.F32.TF32 R4, R8, R12, R4","64","2048","0","0"
"""  # noqa: E501


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return path


def test_counters(tmp_path):
    kernel, counters, waits = counters_record.read_raw_page(written(tmp_path, RAW))
    assert counters_record.short_name(kernel) == "sgemm_x<true>"
    assert counters["duration_us"] == 1500
    assert counters["sm_clock_mhz"] == 1980
    assert counters["blocks"] == 1024
    assert counters["dram_read_bytes"] == 0.25e9
    assert counters["l2_hit_percent"] is None  # not in the table
    assert waits == {"barrier": 0.5}


def test_instructions(tmp_path):
    instructions, stalls = counters_record.read_source_page(written(tmp_path, SOURCE))
    assert instructions == [
        {
            "offset": 0,
            "sass": "LDG.E R1, [R2]",
            "executed": 64,
            "thread_executed": 2048,
            "samples": 4,
            "sectors": 256,
            "ideal_sectors": 256,
            "stalls": {"long_scoreboard": 3, "wait": 1},
        },
        {"offset": 16, "sass": "@!P0 FFMA R1, R1, R2, R3", "executed": 64},
    ]
    assert stalls == {"long_scoreboard": 0.75, "wait": 0.25}
    assert counters_record.mix(instructions) == {"LDG.E": 64, "FFMA": 64}


@pytest.mark.parametrize("text", ["", "ncu said something else\n", '"a","b"\n'])
def test_tables_that_are_none(tmp_path, text):
    for read in counters_record.read_raw_page, counters_record.read_source_page:
        with pytest.raises(UsageError, match="record it again"):
            read(written(tmp_path, text))


@pytest.mark.parametrize(
    "kernel, short",
    [
        ("<unnamed>::sgemm_naive(Gemm)", "sgemm_naive"),
        ("void <unnamed>::sgemm_prefetch<(bool)0>(Gemm)", "sgemm_prefetch<false>"),
        ("void (anonymous namespace)::sgemm_prefetch<true>(Gemm)", "sgemm_prefetch<true>"),
        ("sgemm_large_tiles<0, 1>(GemmOf<float>, Plan)", "sgemm_large_tiles<false, true>"),
        ("sgemm_x<<unnamed>::Shape<64, 32>, 1>(Gemm)", "sgemm_x<Shape<64, 32>, true>"),
    ],
)
def test_kernel_names(kernel, short):
    """As Nsight Compute prints them; the disassembler's names have their namespaces."""
    assert counters_record.short_name(kernel) == short
    assert counters_record.without_namespaces(short.replace("Shape", "_::small_tiles::Shape")) == short


def test_counters_of_tensor_cores(tmp_path):
    """Old tables lack them; they are None then, as what a GPU does not have."""
    _, counters, _ = counters_record.read_raw_page(written(tmp_path, RAW_OF_TENSOR_CORES))
    assert counters["tensor_pipe_percent"] == 71.25
    assert counters["hmma_instructions"] == 2**24
    _, counters, _ = counters_record.read_raw_page(written(tmp_path, RAW))
    assert counters["tensor_pipe_percent"] is None


@pytest.mark.parametrize("step, ours", [("25_ldmatrix", True), ("20_cublas_tf32", False)])
def test_whose_instructions_are_kept(tmp_path, monkeypatch, step, ours):
    """Of a library's kernel no code, whatever its name; of ours all, and of small problems what accesses
    memory."""
    for problem in counters_record.PROBLEMS:
        base = f"{step}.{'x'.join(map(str, problem))}"
        (tmp_path / f"{base}.raw.csv").write_text(RAW_OF_TENSOR_CORES)
        (tmp_path / f"{base}.source.csv").write_text(SOURCE_OF_TENSOR_CORES)
    built = SimpleNamespace(name="gemm", arch="sm_90a", instructions=[])
    monkeypatch.setattr(counters_record, "profiled_code", lambda *_: built)
    monkeypatch.setattr(counters_record, "add_lines", lambda *_: None)
    record = counters_record.convert(step, tmp_path, tmp_path, {})
    mixes = [list(run["opcodes"]) for run in record["runs"]]
    assert mixes == [["LDSM.16.M88.4", "HMMA.1688.F32.TF32"]] * 3
    kept = [
        [item["sass"].split()[0] for item in run["instructions"]] if "instructions" in run else None
        for run in record["runs"]
    ]
    of_ours = [["LDSM.16.M88.4", "HMMA.1688.F32.TF32"], ["LDSM.16.M88.4"], ["LDSM.16.M88.4"]]
    assert kept == (of_ours if ours else [None] * 3)


def test_lines_of_the_source_are_brought_up_to_date(tmp_path, monkeypatch):
    """Where the machine code is the profiled one, to the last constant; where it is not, nothing changes."""
    built = [
        parse_instruction("MOV R1, 0x1", 0, (Frame("steps/x/kernel.cu", 7),)),
        parse_instruction("EXIT", 16),
    ]
    monkeypatch.setattr(sass, "archs", lambda program: ["sm_90a"])
    kernel = SimpleNamespace(name="_::sgemm_x<true>", instructions=built)
    monkeypatch.setattr(sass, "kernels", lambda program, arch: [kernel])
    items = [{"offset": 0, "sass": "MOV R1, 0x1", "line": 5}, {"offset": 16, "sass": "EXIT", "line": 6}]
    run = {"kernel": "sgemm_x<true>", "sass_sha256": sass_sha256(built), "instructions": items}
    counters_record.describe({"step": "01", "runs": [run, {"kernel": "a library's"}]}, tmp_path)
    assert items == [{"offset": 0, "sass": "MOV R1, 0x1", "line": 7}, {"offset": 16, "sass": "EXIT"}]
    run["sass_sha256"] = sass_sha256([parse_instruction("MOV R1, 0x2"), parse_instruction("EXIT")])
    with pytest.raises(UsageError, match=r"01: .* is not the program that was profiled"):
        counters_record.describe({"step": "01", "runs": [run]}, tmp_path)


def test_json_has_a_line_for_each_instruction():
    runs = [{"m": 1, "instructions": [{"offset": 0}, {"offset": 16}]}, {"m": 2}]
    record = {"step": "01", "runs": runs}
    text = counters_record.to_json(record)
    assert json.loads(text) == record
    assert '   {"offset": 0},\n   {"offset": 16}\n' in text


# ---- Programs that stand for ncu and nvidia-smi -----------------------------------------------------------


def pretend(folder: Path, name: str, script: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(0o755)


NCU = f"""
import os, sys
words = sys.argv[1:]
if "--version" in words:
    print("Version 2025.3.1.0 (build 1)")
elif "--query-metrics" in words:
    for name in os.environ.get("LISTED", "").split():
        print(name, "  Counter  cycles  what it counts")
elif "--import" in words:
    print({RAW!r} if words[words.index("--page") + 1] == "raw" else {SOURCE!r})
else:
    assert words[words.index("--clock-control") + 1] == "none"
    assert words[-3:] == ["--repeat", "0", "--no-verify"]
    assert words.count("--repeat") == 1
    if "ASKED" in os.environ:
        open(os.environ["ASKED"], "w").write(words[words.index("--metrics") + 1])
    open(words[words.index("-o") + 1] + ".ncu-rep", "w").close()
"""
NVIDIA_SMI = 'print("Test GPU, 1.2, 700.00 W, 1980 MHz, 3201 MHz")'


@pytest.fixture
def environment(tmp_path):
    pretend(tmp_path / "bin", "ncu", NCU)
    pretend(tmp_path / "bin", "nvidia-smi", NVIDIA_SMI)
    for name in "01_naive", "02_coalescing":
        pretend(tmp_path / "build" / "steps" / name, "run", "")
    return {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}


def test_a_program_that_is_not_the_profiled_one(tool, environment, tmp_path):
    record = ["profile", "record", "--build", "build", "--steps", "01", "--out", "out"]
    result = tool(*record, env=environment)
    assert result.returncode != 0
    assert not (tmp_path / "out").exists()  # nothing half-written


def test_reports_to_keep(tmp_path, capsys):
    """Nsight Compute's own of our kernels, the table of a library's and of what is too large; else a word."""
    of_step = {"01_naive": 10, "02_coalescing": 99, "03_shared_memory": 99, "20_cublas_tf32": 10}
    for step, size in of_step.items():
        (tmp_path / f"{step}.4096x4096x4096.ncu-rep").write_bytes(bytes(size))
        (tmp_path / f"{step}.4096x4096x4096.raw.csv").write_bytes(bytes(99 if step.startswith("03") else 20))
    kept = counters.reports_to_keep(list(of_step), tmp_path, 50)
    assert [name for _, name in kept] == [
        "01_naive.ncu-rep",
        "02_coalescing.raw.csv",
        "20_cublas_tf32.raw.csv",
    ]
    assert all(file.exists() for file, _ in kept)
    assert "03_shared_memory: neither report nor table" in capsys.readouterr().err


@pytest.mark.parametrize("option, kept", [(["--keep-reports"], ["01_naive.ncu-rep"]), ([], [])])
def test_reports_beside_the_records(monkeypatch, environment, tmp_path, option, kept):
    """With programs that stand for Nsight Compute's, as a user types it."""
    for name in "PATH", "PYTHONPATH":
        monkeypatch.setenv(name, environment[name])
    monkeypatch.setattr(counters, "convert", lambda step, *_: {"step": step, "runs": [{"m": 1}]})
    out = tmp_path / "out"
    words = ["--build", str(tmp_path / "build"), "--steps", "01", "--out", str(out), *option]
    monkeypatch.setattr(sys, "argv", ["ladder profile", "record", *words])
    assert counters.main() == 0
    assert sorted(path.name for path in out.iterdir()) == ["01_naive.json", *kept]


def test_variants(tool, environment, tmp_path):
    for number, options in enumerate([[], ["--lda", "4100", "--repeat", "3"]]):
        pretend(tmp_path / "variants" / f"v{number}", "run", "")
        about = {"variant": f"variant {number}", "options": options}
        (tmp_path / "variants" / f"v{number}" / "about.json").write_text(json.dumps(about))
    result = tool("profile", "variants", "variants", "--out", "out.json", env=environment)
    assert result.returncode == 0, result.stderr
    records = json.loads((tmp_path / "out.json").read_text())
    assert [(r["variant"], r["options"], r["duration_us"], r["device"]) for r in records] == [
        ("variant 0", [], 1500, "Test GPU"),
        ("variant 1", ["--lda", "4100"], 1500, "Test GPU"),
    ]


@pytest.mark.parametrize(
    "listed, wanted",
    [
        ("sm__pipe_tensor_cycles_active other", {"tensor_pipe_percent"}),
        ("sm__pipe_tensor_cycles sm__inst_executed_pipe_tensor_op_hmma", {"hmma_instructions"}),
        ("", set()),
    ],
)
def test_only_known_metrics_are_asked_for(tool, environment, tmp_path, listed, wanted):
    """One that ncu does not know would cost the whole record."""
    pretend(tmp_path / "variants" / "v0", "run", "")
    (tmp_path / "variants" / "v0" / "about.json").write_text(json.dumps({"variant": "v", "options": []}))
    asked = tmp_path / "asked"
    environment |= {"LISTED": listed, "ASKED": str(asked)}
    result = tool("profile", "variants", "variants", "--out", "out.json", env=environment)
    assert result.returncode == 0, result.stderr
    metrics = set(asked.read_text().split(","))
    assert set(counters_record.COUNTERS.values()) <= metrics
    more = metrics - set(counters_record.COUNTERS.values())
    assert more == {counters_record.WHERE_LISTED[name] for name in wanted}


def error_of(result) -> str:
    lines = [line for line in result.stderr.splitlines() if not line.startswith("[")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


def test_counters_that_are_not_permitted(tool, environment, tmp_path):
    pretend(tmp_path / "bin", "ncu", 'print("==ERROR== ERR_NVGPUCTRPERM"); raise SystemExit(1)')
    result = tool("profile", "record", "--build", "build", "--out", "out", env=environment)
    assert result.returncode == 3
    assert "NVreg_RestrictProfilingToAdminUsers=0" in error_of(result)
    assert not (tmp_path / "out").exists()


def test_no_gpu(tool, environment, tmp_path):
    pretend(tmp_path / "bin", "nvidia-smi", "raise SystemExit(9)")
    result = tool("profile", "record", "--build", "build", env=environment)
    assert result.returncode == 3
    assert "no GPU" in error_of(result)


def test_mistakes(tool, environment, tmp_path):
    result = tool("profile", "record", "--build", "build", "--steps", "07", env=environment)
    assert result.returncode == 2
    assert "'07'" in error_of(result)
    (tmp_path / "empty").mkdir()
    result = tool("profile", "variants", "empty", "--out", "out.json", env=environment)
    assert result.returncode == 2


def test_names_that_ncu_spells_otherwise():
    alike = counters_record.alike
    assert alike("_::fp32::gemm<1, true, _::Find<1> >") == alike("gemm<true, true, Find<true>>")
    assert alike("gemm<1, (_::Storing)0>") == alike("gemm<1, 0>")
    assert alike("gemm<2, true>") != alike("gemm<1, true>")
