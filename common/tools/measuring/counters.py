"""Profiles the steps' kernels with Nsight Compute on the GPU at hand; records what it read as compact JSON.

  ladder profile record --steps 07_bank_conflicts,08_warp_tiling --out my_counters
  ladder profile convert --raw DIR [--build DIR] [--out DIR]
  ladder profile variants DIR --out FILE [--size N]

`record` runs each step's kernel once at 4096 cubed, where time is measured, and once each at two small
problems to hold the X-ray against (of those only the accesses to memory are kept). It writes one file for
each step: counters, the reasons for which warps waited, and for each instruction how often it was executed,
the sectors and wavefronts it took, and the warps seen waiting at it, beside its line of the source. The
clocks are the GPU's own. `--raw` keeps what Nsight Compute printed; `convert` makes the same files from
that, also on a machine without a GPU, where the programs must be the ones that were profiled. `variants`
records only the counters, of what `ladder sweep --keep` or `ladder experiment build` left in DIR.

Exit status: 0 done, 1 a program failed, 2 bad usage, 3 no GPU, no Nsight Compute, or no permission.
"""

import argparse
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.base import BUILD, EVIDENCE, Parser, progress, write_whole
from tools.measuring.counters_record import (
    COUNTERS,
    PROBLEMS,
    ProfileError,
    convert,
    read_attributes,
    read_raw_page,
    short_name,
    to_json,
)
from tools.measuring.ladder import choose_steps

SECTIONS = (
    "LaunchStats", "Occupancy", "SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis",
    "SchedulerStats", "WarpStateStats", "InstructionStats", "SourceCounters",
)  # fmt: skip


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
    facts |= read_attributes(sorted(raw.glob("*.raw.csv"))[0])
    records = {step: convert(step, raw, Path(args.build), facts) for step in steps}
    Path(args.out).mkdir(parents=True, exist_ok=True)
    for step, record in records.items():
        write_whole(Path(args.out) / f"{step}.json", to_json(record))


def read_about(folder: Path) -> dict[str, Any]:
    """What ladder experiment says of a program that it built; nothing for ladder sweep's."""
    path = folder / "about.json"
    return json.loads(path.read_text()) if path.exists() else {}


def record_variants(args: argparse.Namespace) -> None:
    """Counters only, of each program in a folder, at N cubed."""
    ncu = find_ncu()
    facts = gpu_facts(ncu)
    programs = sorted(Path(args.folder).glob("*/run"))
    if not programs:
        raise ProfileError(f"{args.folder} holds no */run; fill it with ladder sweep --keep", 2)
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
    parser = Parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    record = commands.add_parser("record", help="profile the steps on the GPU at hand")
    record.add_argument(
        "--steps", default="", help="names, separated by commas; all that are built if left out"
    )
    again = commands.add_parser("convert", help="make the records from what --raw kept")
    for command in (record, again):
        command.add_argument("--build", default=BUILD)
        command.add_argument("--out", default=EVIDENCE)
        command.add_argument("--raw", metavar="DIR", required=command is again)
    variants = commands.add_parser("variants", help="record the counters of programs in a folder")
    variants.add_argument("folder", metavar="DIR")
    variants.add_argument("--out", required=True)
    variants.add_argument("--size", type=int, default=4096)
    args = parser.parse_args()
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
