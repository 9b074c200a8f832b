#!/usr/bin/env python3
"""Profiles the steps' kernels with Nsight Compute on the GPU at hand; records what it read as compact JSON.

  profile.py record [--build DIR] [--steps A,B] [--out DIR] [--raw DIR]
  profile.py convert --raw DIR [--build DIR] [--out DIR]
  profile.py variants DIR --out FILE [--size N]

`record` runs each step's kernel once at 4096 cubed, where time is measured, and once each at two small
problems to hold the X-ray against (of those only the accesses to memory are kept). It writes one file for
each step: counters, the reasons for which warps waited, and for each instruction how often it was executed,
the sectors and wavefronts it took, and the warps seen waiting at it, beside its line of the source. The
clocks are the GPU's own. `--raw` keeps what Nsight Compute printed; `convert` makes the same files from
that, also on a machine without a GPU, where the programs must be the ones that were profiled. `variants`
records only the counters, of what `sweep.py --keep` or `experiment.py build` left in DIR.

Exit status: 0 done, 1 a program failed, 2 bad usage, 3 no GPU, no Nsight Compute, or no permission.
"""

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sass
from ladder import ROOT, UsageError, choose_steps, progress, write_whole
from sass_identity import opcode_of, sass_sha256

TIMED = (4096, 4096, 4096)
# The X-ray's problem, and one whose rows are not aligned and whose tiles are not full.
OBSERVED = ((256, 256, 128), (131, 67, 35))
PROBLEMS = (TIMED, *OBSERVED)
SECTIONS = (
    "LaunchStats", "Occupancy", "SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis",
    "SchedulerStats", "WarpStateStats", "InstructionStats", "SourceCounters",
)  # fmt: skip

# Our names, Nsight Compute's, and what the sum or average is of.
COUNTERS = {
    "duration_us": "gpu__time_duration.sum",
    "sm_cycles": "sm__cycles_elapsed.max",
    "registers_per_thread": "launch__registers_per_thread",
    "static_shared_bytes_per_block": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes_per_block": "launch__shared_mem_per_block_dynamic",
    "threads_per_block": "launch__block_size",
    "blocks": "launch__grid_size",
    "theoretical_occupancy_percent": "sm__maximum_warps_per_active_cycle_pct",
    "achieved_occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue_slots_busy_percent": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "fma_pipe_percent": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "lsu_pipe_percent": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
    "l1_percent": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l2_percent": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram_percent": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_to_l1_bytes": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "instructions": "sm__inst_executed.sum",
    "ffma_thread_instructions": "sm__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "lsu_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "lsu_wavefronts_percent": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "local_load_instructions": "smsp__inst_executed_op_local_ld.sum",
    "local_store_instructions": "smsp__inst_executed_op_local_st.sum",
}
SCALES = {
    "ns": 1e-3, "us": 1, "usecond": 1, "nsecond": 1e-3, "msecond": 1e3, "ms": 1e3, "s": 1e6, "second": 1e6,
    "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
}  # fmt: skip

# Columns of the table by instruction. Only those that are not zero are kept.
BY_INSTRUCTION = {
    "executed": "Instructions Executed",
    "thread_executed": "Predicated-On Thread Instructions Executed",
    "samples": "Warp Stall Sampling (All Samples)",
    "sectors": "L2 Theoretical Sectors Global",
    "ideal_sectors": "L2 Theoretical Sectors Global Ideal",
    "tag_requests": "L1 Tag Requests Global",
    "wavefronts": "L1 Wavefronts Shared",
    "ideal_wavefronts": "L1 Wavefronts Shared Ideal",
}
# Nsight Compute's short names in that table, and the names of its documentation.
STALLS = {
    "stall_barrier": "barrier", "stall_branch_resolving": "branch_resolving", "stall_dispatch": "dispatch",
    "stall_drain": "drain", "stall_imc": "imc_miss", "stall_lg": "lg_throttle",
    "stall_long_sb": "long_scoreboard", "stall_math": "math_pipe_throttle", "stall_membar": "membar",
    "stall_mio": "mio_throttle", "stall_misc": "misc", "stall_no_inst": "no_instruction",
    "stall_not_selected": "not_selected", "stall_selected": "selected", "stall_short_sb": "short_scoreboard",
    "stall_sleep": "sleeping", "stall_tex": "tex_throttle", "stall_wait": "wait", "stall_gmma": "gmma",
}  # fmt: skip


class ProfileError(Exception):
    """What went wrong, in one line, and the exit status to leave with."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def find_ncu() -> str:
    known = Path("/usr/local/cuda/bin/ncu")
    ncu = shutil.which("ncu") or (str(known) if known.exists() else None)
    if ncu is None:
        raise ProfileError("ncu (Nsight Compute) is neither on PATH nor in /usr/local/cuda/bin", 3)
    return ncu


def run_ncu(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    said = result.stdout + result.stderr
    if "ERR_NVGPUCTRPERM" in said:
        raise ProfileError(
            "this user may not read the GPU's counters; run as root, or put 'options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/nvidia.conf and restart the machine",
            3,
        )
    if result.returncode != 0:
        lines = [line for line in said.splitlines() if "==ERROR==" in line or "error:" in line]
        raise ProfileError(f"{' '.join(command[-12:])}: {(lines or said.splitlines() or ['failed'])[0]}")
    return result.stdout


def collect(
    ncu: str,
    step: str,
    program: Path,
    problem: tuple[int, int, int],
    report: Path,
    options: Sequence[str] = (),
) -> None:
    """Runs the step's kernel once under ncu, which leaves its report in `report`."""
    m, n, k = problem
    # The harness's own kernels stay out; those of cuBLAS have "gemm" in their names, too.
    command = [ncu, "--clock-control", "none", "--kernel-name", "regex:gemm", "--launch-count", "1", "-f"]
    for section in SECTIONS:
        command += ["--section", section]
    command += ["--metrics", ",".join(COUNTERS.values()), "-o", str(report.with_suffix(""))]
    command += [str(program), "--device", "gpu", "--m", str(m), "--n", str(n), "--k", str(k)]
    run_ncu([*command, *options, "--repeat", "0", "--no-verify"])
    # The library may choose a kernel of another kind for a small problem; our own are always there.
    if not report.exists() and step != "00_cublas":
        raise ProfileError(f"{step}: no kernel with 'gemm' in its name was run")


def print_pages(ncu: str, report: Path) -> None:
    """Writes the report's two tables beside it: all counters, and those by instruction."""
    for page, options in (("raw", []), ("source", ["--print-source", "sass"])):
        text = run_ncu([ncu, "--import", str(report), "--csv", "--page", page, *options])
        report.with_suffix(f".{page}.csv").write_text(text)


def command_lines(*command: str) -> list[str]:
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return result.stdout.splitlines()


def gpu_facts(ncu: str) -> dict[str, str]:
    names = {
        "name": "device", "driver_version": "driver", "power.limit": "power_limit",
        "clocks.max.sm": "max_sm_clock", "clocks.mem": "memory_clock",
    }  # fmt: skip
    lines = command_lines("nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader")
    if not lines:
        raise ProfileError("no GPU: nvidia-smi finds none; a profile needs one", 3)
    facts = dict(zip(names.values(), lines[0].split(", "), strict=True))
    version = " ".join(command_lines(ncu, "--version"))
    facts["ncu"] = (re.findall(r"Version (\S+)", version) or ["?"])[0]
    return {**facts, "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def collect_all(args: argparse.Namespace, raw: Path) -> None:
    ncu = find_ncu()
    raw.mkdir(parents=True, exist_ok=True)
    facts = gpu_facts(ncu)
    (raw / "facts.json").write_text(json.dumps(facts))
    steps = choose_steps(Path(args.build), args.steps)
    jobs = [(step, problem) for problem in PROBLEMS for step in steps]
    pages: list[Future[None]] = []
    with ThreadPoolExecutor(8) as pool:  # reading the reports needs no GPU
        for done, (step, problem) in enumerate(jobs):
            progress(done, len(jobs), f"{step} {'x'.join(map(str, problem))}")
            report = raw / f"{step}.{'x'.join(map(str, problem))}.ncu-rep"
            collect(ncu, step, Path(args.build) / "steps" / step / "run", problem, report)
            if report.exists():
                pages.append(pool.submit(print_pages, ncu, report))
    for page in pages:
        page.result()
    progress(len(jobs), len(jobs), "done")


def read_raw_page(path: Path) -> tuple[str, dict[str, float | None], dict[str, float]]:
    """The kernel's name, our counters, and how many cycles a warp waits for each reason per instruction."""
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    if len(lines) < 3:
        raise ProfileError(f"{path}: not a table of counters; record it again")
    names, units, values = list(csv.reader(io.StringIO("\n".join(lines[:3]))))
    row = dict(zip(names, zip(values, units, strict=True), strict=True))

    def number(metric: str) -> float | None:
        value, unit = row.get(metric, ("", ""))
        try:
            return float(value.replace(",", "")) * SCALES.get(unit.split("/")[0], 1)
        except ValueError:
            return None  # this GPU or this ncu does not have it

    counters = {name: number(metric) for name, metric in COUNTERS.items()}
    if counters["sm_cycles"] and counters["duration_us"]:  # the clock while the kernel ran
        counters["sm_clock_mhz"] = round(counters["sm_cycles"] / counters["duration_us"], 1)
    stalls = {}
    for name in row:
        match = re.fullmatch(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio", name)
        if match and "not_issued" not in match[1] and (value := number(name)):
            stalls[match[1]] = value
    return row["Kernel Name"][0], counters, stalls


def read_source_page(path: Path) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The instructions, in order, and the share of the samples in which a warp waited for each reason."""
    rows = list(csv.reader(io.StringIO(path.read_text())))
    heads = [i for i, row in enumerate(rows) if "Address" in row and "Source" in row]
    if not heads:
        raise ProfileError(f"{path}: not a table of instructions; record it again")
    head = rows[heads[0]]
    column = {name: i for i, name in enumerate(head)}
    instructions: list[dict[str, Any]] = []
    reasons: dict[str, int] = dict.fromkeys(STALLS.values(), 0)
    first = None
    for row in rows[heads[0] + 1 :]:
        if len(row) != len(head) or not row[column["Address"]].startswith("0x"):
            break  # the next kernel
        address = int(row[column["Address"]], 16)
        first = address if first is None else first
        item: dict[str, Any] = {"offset": address - first, "sass": " ".join(row[column["Source"]].split())}
        for name, title in BY_INSTRUCTION.items():
            # A kernel without shared memory has no such column.
            text = row[column[title]].replace(",", "") if title in column else ""
            if text.isdigit() and int(text):
                item[name] = int(text)
        stalled: dict[str, int] = {}
        for short, reason in STALLS.items():
            if short in column and row[column[short]].isdigit() and (count := int(row[column[short]])):
                reasons[reason] += count
                stalled[reason] = count
        if stalled:
            item["stalls"] = stalled
        instructions.append(item)
    total = sum(reasons.values())
    return instructions, {name: count / total for name, count in reasons.items() if count} if total else {}


def short_name(kernel: str) -> str:
    """`void <unnamed>::sgemm_x<(bool)1>(Gemm)` becomes `sgemm_x<true>`."""
    name = re.sub(
        r"\([^()]*\)$", "", kernel.replace("(anonymous namespace)::", "").replace("<unnamed>::", "")
    )
    name = name.removeprefix("void ").split("::")[-1]
    return re.sub(r"<(?:\(bool\))?([01])>", lambda m: "<true>" if m[1] == "1" else "<false>", name).strip()


def add_lines(step: str, kernel: str, instructions: list[dict[str, Any]], build: Path) -> str:
    """Puts the source lines that the program's debug information gives beside the instructions. Returns the
    architecture that they are of."""
    program = build / "steps" / step / "run"
    texts = [item["sass"] for item in instructions]
    reasons = []
    try:
        candidates = [(arch, k) for arch in sass.archs(program) for k in sass.kernels(program, arch)]
    except sass.SassError as error:
        raise ProfileError(str(error)) from None
    for arch, candidate in candidates:
        if candidate.name != kernel:
            continue
        built = [instruction.text for instruction in candidate.instructions]
        if [opcode_of(t) for t in built] != [opcode_of(t) for t in texts]:
            reasons.append(f"{arch}: {len(built)} instructions, not {len(texts)} or not the same ones")
            continue
        for item, instruction in zip(instructions, candidate.instructions, strict=True):
            if instruction.line:
                item["line"] = instruction.line
            item["sass"] = " ".join(instruction.text.split())
        return arch
    raise ProfileError(
        f"{step}: {program} is not the program that was profiled ({'; '.join(reasons) or 'no ' + kernel})"
    )


def mix(instructions: list[dict[str, Any]]) -> dict[str, int]:
    """Executed instructions by opcode, most frequent first: of kernels whose code is not ours to print."""
    counts: dict[str, int] = {}
    for item in instructions:
        opcode = opcode_of(item["sass"])
        counts[opcode] = counts.get(opcode, 0) + item.get("executed", 0)
    return dict(sorted(((op, n) for op, n in counts.items() if n), key=lambda pair: -pair[1]))


def convert(step: str, raw: Path, build: Path, facts: dict[str, str]) -> dict[str, Any]:
    """The step's record, from the tables that Nsight Compute printed."""
    record: dict[str, Any] = {"step": step, "facts": facts, "runs": []}
    for problem in PROBLEMS:
        base = raw / f"{step}.{'x'.join(map(str, problem))}"
        if not base.with_name(base.name + ".raw.csv").exists():
            continue
        kernel, counters, waits = read_raw_page(base.with_name(base.name + ".raw.csv"))
        instructions, stalls = read_source_page(base.with_name(base.name + ".source.csv"))
        run: dict[str, Any] = dict(zip("mnk", problem, strict=True))
        run["kernel"] = short_name(kernel)
        run["counters"] = counters
        run["stalls"] = {k: round(v, 5) for k, v in sorted(stalls.items(), key=lambda item: -item[1])}
        run["cycles_per_issue"] = {
            k: round(v, 4) for k, v in sorted(waits.items(), key=lambda item: -item[1])
        }
        run["opcodes"] = mix(instructions)
        if run["kernel"].startswith("sgemm_"):
            run["arch"] = add_lines(step, run["kernel"], instructions, build)
            run["sass_sha256"] = sass_sha256([item["sass"] for item in instructions])
            memory = ("LD", "ST")
            run["instructions"] = [
                item
                for item in instructions
                if problem == TIMED or (opcode_of(item["sass"]).startswith(memory) and "executed" in item)
            ]
        record["runs"].append(run)
    return record


def to_json(record: dict[str, Any]) -> str:
    """One line for each instruction: a difference between two records can be read."""
    places: dict[str, str] = {}
    for i, run in enumerate(record["runs"]):
        if "instructions" in run:
            places[f'"@{i}"'] = (
                "[\n   " + ",\n   ".join(json.dumps(item) for item in run["instructions"]) + "\n  ]"
            )
    runs = [
        {**run, "instructions": f"@{i}"} if "instructions" in run else run
        for i, run in enumerate(record["runs"])
    ]
    text = json.dumps({**record, "runs": runs}, indent=1)
    for place, lines in places.items():
        text = text.replace(place, lines)
    return text + "\n"


def nvcc_of(build: Path) -> str:
    """The version of the compiler that the build uses, as nvcc gives it; empty if it uses none."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    found = re.findall(r"V(\d+\.\d+\.\d+)", " ".join(command_lines(nvcc, "--version")))
    return found[0] if found and (build / "build.ninja").exists() else ""


def convert_all(args: argparse.Namespace, raw: Path) -> None:
    facts = json.loads((raw / "facts.json").read_text())
    facts["nvcc"] = nvcc_of(Path(args.build)) or facts.get("nvcc", "")
    steps = sorted({path.name.split(".")[0] for path in raw.glob("*.raw.csv")})
    if not steps:
        raise ProfileError(f"{raw} holds no tables; give the folder that record --raw wrote", 2)
    records = {step: convert(step, raw, Path(args.build), facts) for step in steps}
    Path(args.out).mkdir(parents=True, exist_ok=True)
    for step, record in records.items():
        write_whole(Path(args.out) / f"{step}.json", to_json(record))


def read_about(folder: Path) -> dict[str, Any]:
    """What experiment.py says of a program that it built; nothing for sweep.py's."""
    path = folder / "about.json"
    return json.loads(path.read_text()) if path.exists() else {}


def record_variants(args: argparse.Namespace) -> None:
    """Counters only, of each program in a folder, at N cubed."""
    ncu = find_ncu()
    facts = gpu_facts(ncu)
    programs = sorted(Path(args.folder).glob("*/run"))
    if not programs:
        raise ProfileError(f"{args.folder} holds no */run; fill it with sweep.py --keep", 2)
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for done, program in enumerate(programs):
            progress(done, len(programs), program.parent.name)
            report = Path(folder) / f"v{done}.ncu-rep"
            about = read_about(program.parent)
            options = list(about.get("options", []))
            if "--repeat" in options:  # how often to time it; here it is not timed
                del options[options.index("--repeat") : options.index("--repeat") + 2]
            collect(ncu, program.parent.name, program, (args.size,) * 3, report, options)
            print_pages(ncu, report)
            kernel, counters, _ = read_raw_page(report.with_suffix(".raw.csv"))
            names = {"of": Path(args.folder).name, "size": args.size, "options": options}
            names["variant"] = about.get("variant", program.parent.name)
            records.append({**names, "kernel": short_name(kernel), **counters, **facts})
    progress(len(programs), len(programs), "done")
    write_whole(Path(args.out), json.dumps(records, indent=1) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="profile the steps on the GPU at hand")
    record.add_argument(
        "--steps", default="", help="names, separated by commas; all that are built if left out"
    )
    again = commands.add_parser("convert", help="make the records from what --raw kept")
    for command in (record, again):
        command.add_argument("--build", default=str(ROOT / "build"))
        command.add_argument("--out", default=str(ROOT / "docs" / "evidence" / "h200"))
        command.add_argument("--raw", metavar="DIR", required=command is again)
    variants = commands.add_parser("variants", help="record the counters of programs in a folder")
    variants.add_argument("folder", metavar="DIR")
    variants.add_argument("--out", required=True)
    variants.add_argument("--size", type=int, default=4096)
    args = parser.parse_args()
    try:
        if args.command == "variants":
            record_variants(args)
        elif args.command == "convert":
            convert_all(args, Path(args.raw))
        else:
            with tempfile.TemporaryDirectory() as folder:
                raw = Path(args.raw or folder)
                collect_all(args, raw)
                convert_all(args, raw)
        return 0
    except ProfileError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.status
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
