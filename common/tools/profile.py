#!/usr/bin/env python3
"""Reads a few hardware counters of the steps' kernels with Nsight Compute and records them.

  profile.py record [--build DIR] [--steps A,B] [--sizes N,N] [--variants DIR] --out FILE

Each program runs its kernel once on a square problem under ncu, at the clocks the GPU has by itself. The JSON
is an array of flat objects: step, size, duration, registers and shared memory per block, achieved occupancy,
issue slots, FMA pipe, shared-memory wavefronts and bank conflicts, L2 hit rate, DRAM bytes. --variants takes
what sweep.py --keep has compiled and records those too, under their values. Standard library only.
"""

import argparse
import csv
import io
import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from ladder import ROOT, find_steps, progress, write_whole

METRICS = {
    "duration_us": "gpu__time_duration.sum",
    "sm_cycles": "sm__cycles_elapsed.max",
    "registers_per_thread": "launch__registers_per_thread",
    "static_shared_bytes_per_block": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes_per_block": "launch__shared_mem_per_block_dynamic",
    "threads_per_block": "launch__block_size",
    "blocks": "launch__grid_size",
    "achieved_occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue_slots_busy_percent": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "fma_pipe_percent": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "instructions": "sm__inst_executed.sum",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "local_load_instructions": "smsp__inst_executed_op_local_ld.sum",
    "local_store_instructions": "smsp__inst_executed_op_local_st.sum",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
}
UNITS = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6, "byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def find_ncu() -> str:
    known = Path("/usr/local/cuda/bin/ncu")
    ncu = shutil.which("ncu") or (str(known) if known.exists() else None)
    if ncu is None:
        sys.exit("error: ncu (Nsight Compute) is neither on PATH nor in /usr/local/cuda/bin")
    return ncu


def excessive_wavefronts(ncu: str, run: list[str]) -> dict[str, int]:
    """Shared-memory wavefronts beyond what the instructions need without bank conflicts, in all.

    The hardware's own count of conflicts (shared_*_bank_conflicts) has other collisions in it; this one, by
    instruction, has not. Copies by cp.async are left out: they write once for each line of global memory.
    """
    command = [ncu, "--clock-control", "none", "--csv", "--page", "source", "--kernel-name", "regex:sgemm_"]
    result = subprocess.run([*command, "--section", "SourceCounters", *run], capture_output=True, text=True)
    rows = list(csv.reader(io.StringIO(result.stdout)))
    heads = [i for i, row in enumerate(rows) if "Source" in row and "L1 Wavefronts Shared Excessive" in row]
    if not heads:
        return {}
    head = rows[heads[0]]
    source, excessive = head.index("Source"), head.index("L1 Wavefronts Shared Excessive")
    sums = {"LDS": 0, "STS": 0}
    for row in rows[heads[0] + 1 :]:
        if len(row) < len(head) or not row[excessive].isdigit():
            continue
        for mnemonic in sums:
            if f" {mnemonic}" in f" {row[source]}":
                sums[mnemonic] += int(row[excessive])
    return {"shared_load_wavefronts_excessive": sums["LDS"], "shared_store_wavefronts_excessive": sums["STS"]}


def profile(ncu: str, program: Path, size: int) -> dict[str, object]:
    """The counters of the step's kernel in one run of `program`; kernels of the harness are left out."""
    command = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--kernel-name", "regex:sgemm_"]
    run = [str(program), "--device", "gpu", "--size", str(size), "--repeat", "0", "--no-verify"]
    command += ["--metrics", ",".join(METRICS.values()), *run]
    result = subprocess.run(command, capture_output=True, text=True)
    if "ERR_NVGPUCTRPERM" in result.stdout:
        sys.exit(
            "error: this user may not read counters; NVIDIA's page on ERR_NVGPUCTRPERM says how to permit it"
        )
    lines = [line for line in result.stdout.splitlines() if line.startswith('"')]
    if result.returncode != 0 or len(lines) < 3:
        sys.exit(f"error: {' '.join(command)}\n{result.stdout}{result.stderr}")
    names, units, values = list(csv.reader(io.StringIO("\n".join(lines[:3]))))
    row = dict(zip(names, zip(values, units, strict=True), strict=True))
    record: dict[str, object] = {
        "kernel": row["Kernel Name"][0].split("(Gemm)")[0].split("::")[-1],
        "size": size,
    }
    for name, metric in METRICS.items():
        value, unit = row.get(metric, ("", ""))
        try:
            record[name] = float(value.replace(",", "")) * UNITS.get(unit.split("/")[0], 1)
        except ValueError:
            record[name] = None  # this GPU or this ncu does not have it
    if record["sm_cycles"] and record["duration_us"]:  # the clock while the kernel ran
        record["sm_clock_mhz"] = round(record["sm_cycles"] / record["duration_us"], 1)
    return {**record, **excessive_wavefronts(ncu, run)}


def gpu_facts() -> dict[str, str]:
    query = ["name", "driver_version", "clocks.mem", "power.limit"]
    command = ["nvidia-smi", f"--query-gpu={','.join(query)}", "--format=csv,noheader"]
    values = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].split(", ")
    )
    facts = dict(zip(["device", "driver", "memory_clock", "power_limit"], values, strict=True))
    return {**facts, "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["record"])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--steps", default="")
    parser.add_argument("--sizes", default="4096")
    parser.add_argument("--variants", metavar="DIR", help="programs that sweep.py --keep left")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    ncu = find_ncu()
    build = Path(args.build)
    steps = (
        args.steps.split(",") if args.steps else [step for step in find_steps(build) if step != "00_cublas"]
    )
    programs = [({"step": step}, build / "steps" / step / "run") for step in steps]
    for path in sorted(Path(args.variants).glob("*/run")) if args.variants else []:
        programs.append(({"step": Path(args.variants).name, "values": path.parent.name}, path))
    jobs = [(labels, program, int(size)) for labels, program in programs for size in args.sizes.split(",")]
    facts = gpu_facts()
    records = []
    for done, (labels, program, size) in enumerate(jobs):
        progress(done, len(jobs), f"{labels} {size}")
        records.append({**labels, **profile(ncu, program, size), **facts})
    progress(len(jobs), len(jobs), "done")
    Path(args.out).parent.mkdir(parents=True, exist_ok=True)
    write_whole(Path(args.out), json.dumps(records, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
