"""Profiles the steps' kernels with Nsight Compute on the GPU at hand; records what it read as compact JSON.

  ladder profile record --steps 07_bank_conflicts,08_warp_tiling --out my_counters
  ladder profile describe [--steps 07,08] [--build DIR] [--out DIR]
  ladder profile variants DIR --out FILE [--size N]

`record` runs each step's kernel once at 4096 cubed, where time is measured, and once each at two small
problems to hold the X-ray against (of those only the accesses to memory are kept). It writes one file for
each step: counters, the reasons for which warps waited, and for each instruction how often it was executed,
the sectors and wavefronts it took, and the warps seen waiting at it, beside its line of the source. The
clocks are the GPU's own. With --keep-reports it also leaves Nsight Compute's own report of each step at 4096
cubed beside the record, STEP.ncu-rep, to open with ncu-ui; of a library's kernel, whose code is not ours to
give away, and of a step whose report is too large, the table of all counters, STEP.raw.csv. `describe` brings
the source lines in the records up to date, after an edit that leaves the machine code as it was. `variants`
records only the counters, of what `ladder experiment build` left in DIR.

Exit status: 0 done, 1 a program failed, 2 bad usage, 3 no GPU, no Nsight Compute, or no permission.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from tools.base import (
    BUILD,
    EVIDENCE,
    Parser,
    UsageError,
    chosen,
    is_library,
    progress,
    read_json,
    write_json,
    write_whole,
)
from tools.measuring.counters_record import (
    COUNTERS,
    FAILED,
    TIMED,
    WHERE_LISTED,
    Problem,
    convert,
    describe,
    problems_of,
    read_raw_page,
    short_name,
    to_json,
)
from tools.measuring.ladder import NO_GPU, choose_steps, on_this_gpu

SECTIONS = (
    "LaunchStats", "Occupancy", "SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis",
    "SchedulerStats", "WarpStateStats", "InstructionStats", "SourceCounters",
)  # fmt: skip


def find_ncu() -> str:
    ncu = shutil.which("ncu") or shutil.which("/usr/local/cuda/bin/ncu")
    if ncu is None:
        raise UsageError("ncu (Nsight Compute) is neither on PATH nor in /usr/local/cuda/bin", NO_GPU)
    return ncu


def run_ncu(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    said = result.stdout + result.stderr
    if "ERR_NVGPUCTRPERM" in said:
        raise UsageError(
            "this user may not read the GPU's counters; run as root, or put 'options nvidia "
            "NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/nvidia.conf and restart the machine",
            NO_GPU,
        )
    if result.returncode != 0:
        errors = [line for line in said.splitlines() if "==ERROR==" in line or "error:" in line]
        first = [*errors, *said.splitlines(), "failed"][0]
        raise UsageError(f"{' '.join(command[-12:])}: {first}", FAILED)
    return result.stdout


@cache
def metrics(ncu: str) -> list[str]:
    """What to ask of Nsight Compute: a metric that it does not know would fail the whole run."""
    listed = {line.split()[0] for line in command_lines(ncu, "--query-metrics") if line.strip()}
    return [*COUNTERS.values(), *(m for m in WHERE_LISTED.values() if m.split(".")[0] in listed)]


def collect(ncu: str, program: Path, problem: Problem, report: Path, options: Sequence[str] = ()) -> None:
    """Runs a step's kernel once under ncu, which leaves its report in `report`."""
    size = [word for name, n in zip("mnk", problem, strict=True) for word in (f"--{name}", str(n))]
    # The harness's own kernels stay out; those of cuBLAS are called gemm, too, or nvjet.
    command = [
        ncu,
        "--clock-control",
        "none",
        "--kernel-name",
        "regex:gemm|nvjet",
        "--launch-count",
        "1",
        "-f",
    ]
    command += [word for section in SECTIONS for word in ("--section", section)]
    command += ["--metrics", ",".join(metrics(ncu)), "-o", str(report.with_suffix(""))]
    command += [str(program), "--device", "gpu", *size, *options, "--repeat", "0", "--no-verify"]
    run_ncu(command)
    # The library may choose a kernel of another kind for a small problem; our own are always there.
    if not report.exists() and not is_library(program.parent.name):
        raise UsageError(f"{program.parent.name}: no kernel with 'gemm' in its name was run", FAILED)


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
    query = "name,driver_version,power.limit,clocks.max.sm,clocks.mem"
    lines = command_lines("nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader")
    if not lines:
        raise UsageError("no GPU: nvidia-smi finds none; a profile needs one", NO_GPU)
    names = ("device", "driver", "power_limit", "max_sm_clock", "memory_clock")
    facts = dict(zip(names, lines[0].split(", "), strict=True))
    version = re.search(r"Version (\S+)", " ".join(command_lines(ncu, "--version")))
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**facts, "ncu": version[1] if version else "?", "date": now}


def reports_to_keep(steps: list[str], raw: Path, most_bytes: int) -> list[tuple[Path, str]]:
    """Of what was recorded in `raw` the files to keep beside the records, with their names there."""
    kept = []
    for step in steps:
        base = f"{step}.{'x'.join(map(str, TIMED))}"
        kinds = [] if is_library(step) else ["ncu-rep"]
        found = [(raw / f"{base}.{kind}", f"{step}.{kind}") for kind in [*kinds, "raw.csv"]]
        fits = [file for file in found if file[0].exists() and file[0].stat().st_size <= most_bytes]
        kept += fits[:1]
        if not fits:
            print(
                f"{step}: neither report nor table within {most_bytes // 1000} KB, none is kept",
                file=sys.stderr,
            )
    return kept


def record_steps(args: argparse.Namespace) -> None:
    """Profiles them all before anything is written."""
    ncu = find_ncu()
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    version = re.search(r"V(\d+\.\d+\.\d+)", " ".join(command_lines(nvcc, "--version")))
    facts = {"nvcc": version[1] if version else "", **gpu_facts(ncu)}
    steps = choose_steps(args.build, args.steps)
    if not args.steps:
        steps = on_this_gpu(args.build, steps)
    jobs = [(step, problem) for step in steps for problem in problems_of(step)]
    pages: list[Future[None]] = []
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder)
        with ThreadPoolExecutor(8) as pool:  # reading the reports needs no GPU
            for done, (step, problem) in enumerate(jobs):
                name = "x".join(map(str, problem))
                progress(done, len(jobs), f"{step} {name}")
                report = raw / f"{step}.{name}.ncu-rep"
                collect(ncu, args.build / "steps" / step / "run", problem, report)
                if report.exists():
                    pages.append(pool.submit(print_pages, ncu, report))
        for page in pages:
            page.result()
        progress(len(jobs), len(jobs), "done")
        records = {step: convert(step, raw, args.build, facts) for step in steps}
        args.out.mkdir(parents=True, exist_ok=True)
        if args.keep_reports is not None:
            for file, name in reports_to_keep(steps, raw, 1000 * args.keep_reports):
                for old in (args.out / f"{name.partition('.')[0]}.{kind}" for kind in ("ncu-rep", "raw.csv")):
                    old.unlink(missing_ok=True)
                shutil.copyfile(file, args.out / name)
    for step, record in records.items():
        if record["runs"]:
            write_whole(args.out / f"{step}.json", to_json(record))


def describe_all(args: argparse.Namespace) -> None:
    """All records or none: one of other machine code is an error."""
    where = args.out or EVIDENCE.parent
    found = sorted(where.glob("[0-9][0-9]_*.json" if args.out else "*/[0-9][0-9]_*.json"))
    if not found:
        raise UsageError(f"{where} has no record of a step; ladder profile record writes them")
    known = sorted({path.stem for path in found})
    steps = chosen(args.steps.split(","), known, f"record in {where}") if args.steps else known
    records = {path: read_json(path) for path in found if path.stem in steps}
    for record in records.values():
        describe(record, args.build)
    for path, record in records.items():
        write_whole(path, to_json(record))


def record_variants(args: argparse.Namespace) -> None:
    """Counters only, of each program in a folder, at N cubed."""
    ncu = find_ncu()
    facts = gpu_facts(ncu)
    programs = sorted(args.folder.glob("*/run"))
    if not programs:
        raise UsageError(f"{args.folder} holds no */run; ladder experiment build --keep fills it")
    records = []
    with tempfile.TemporaryDirectory() as folder:
        for done, program in enumerate(programs):
            about = read_json(program.with_name("about.json"))
            progress(done, len(programs), about["variant"])
            report = Path(folder) / f"v{done}.ncu-rep"
            options = list(about["options"])
            if "--repeat" in options:  # how often to time it; here it is not timed
                del options[options.index("--repeat") : options.index("--repeat") + 2]
            collect(ncu, program, (args.size,) * 3, report, options)
            print_pages(ncu, report)
            kernel, counters, _ = read_raw_page(report.with_suffix(".raw.csv"))
            names = {"of": args.folder.name, "size": args.size, "options": options}
            names |= {"variant": about["variant"], "kernel": short_name(kernel)}
            records.append({**names, **counters, **facts})
    progress(len(programs), len(programs), "done")
    write_json(args.out, records)


def main() -> int:
    parser = Parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="profile the steps on the GPU at hand")
    lines = commands.add_parser("describe", help="bring the source lines in the records up to date")
    for command in (record, lines):
        command.add_argument("--steps", default="", help="e.g. 05,06 [all there are]")
        command.add_argument("--build", default=BUILD, type=Path)
    record.add_argument(
        "--out", default=EVIDENCE, type=Path, help="the records' directory [docs/evidence/h200]"
    )
    lines.add_argument("--out", type=Path, help="the records' directory [all in docs/evidence]")
    keep = "keep each step's report, if it has at most so many kilobytes (1000)"
    record.add_argument("--keep-reports", type=int, nargs="?", const=1000, metavar="KB", help=keep)
    variants = commands.add_parser("variants", help="record the counters of programs in a folder")
    variants.add_argument("folder", metavar="DIR", type=Path)
    variants.add_argument("--out", required=True, type=Path)
    variants.add_argument("--size", type=int, default=4096)
    args = parser.parse_args()
    {"record": record_steps, "describe": describe_all, "variants": record_variants}[args.command](args)
    return 0
