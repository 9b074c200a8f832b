"""What ladder profile records, and how it reads the tables that Nsight Compute prints."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

from tools.base import UsageError
from tools.machine_code import sass
from tools.machine_code.identity import opcode_of, sass_sha256

TIMED = (4096, 4096, 4096)
# The X-ray's problem, and one whose rows are not aligned and whose tiles are not full.
OBSERVED = ((256, 256, 128), (131, 67, 35))
PROBLEMS = (TIMED, *OBSERVED)

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


class ProfileError(UsageError):
    """What went wrong, in one line, and the exit status to leave with."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


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


# What the driver says of the GPU, in Nsight Compute's table of counters.
ATTRIBUTES = {
    "l2_bytes": "device__attribute_l2_cache_size",
    "sms": "device__attribute_multiprocessor_count",
    "max_shared_bytes_per_block": "device__attribute_max_shared_memory_per_block_optin",
}


def read_attributes(path: Path) -> dict[str, int]:
    """Figures of the GPU itself, as far as they were recorded."""
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    names, _, values = list(csv.reader(io.StringIO("\n".join(lines[:3]))))
    row = dict(zip(names, values, strict=True))
    found = {name: row.get(attribute, "").replace(",", "") for name, attribute in ATTRIBUTES.items()}
    return {name: int(value) for name, value in found.items() if value.isdigit()}


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
