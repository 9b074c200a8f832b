"""What ladder profile records, and how it reads the tables that Nsight Compute prints."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.base import UsageError, is_library
from tools.machine_code import binary, sass
from tools.machine_code.identity import sass_sha256
from tools.machine_code.listing import Instruction, parse_instruction

FAILED = 1  # exit status
Problem = tuple[int, int, int]  # M, N, K
TIMED = (4096, 4096, 4096)
# The X-ray's problem, and one whose rows are not aligned and whose tiles are not full.
OBSERVED = ((256, 256, 128), (131, 67, 35))
PROBLEMS = (TIMED, *OBSERVED)
# Where cuBLAS is ahead of step 15, whose page says what cuBLAS does there.
AHEAD = ((768, 768, 768), (257, 1025, 4097), (8192, 128, 8192))


def problems_of(step: str) -> tuple[Problem, ...]:
    """What a step is profiled at."""
    return (*PROBLEMS, *AHEAD) if step == "00_cublas" else PROBLEMS


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
    "lsu_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "lsu_wavefronts_percent": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "shared_load_requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "local_load_instructions": "smsp__inst_executed_op_local_ld.sum",
    "local_store_instructions": "smsp__inst_executed_op_local_st.sum",
}
# Counters that not every GPU and release has: asked for where `ncu --query-metrics` lists them.
WHERE_LISTED = {
    "tensor_pipe_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "hmma_instructions": "sm__inst_executed_pipe_tensor_op_hmma.sum",
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
    "wavefronts": "L1 Wavefronts Shared",
    "ideal_wavefronts": "L1 Wavefronts Shared Ideal",
}
# Why a warp waits, as Nsight Compute names it (some releases with another ending): its column, and in a
# reader's words.
STALLS = {
    "barrier": ("stall_barrier", "waits for the block's other warps at a barrier"),
    "branch_resolving": ("stall_branch_resolving", "waits for a jump's target"),
    "dispatch": ("stall_dispatch", "the dispatcher holds it back, e.g. for a conflict of register banks"),
    "drain": ("stall_drain", "waits for its stores before it ends"),
    "gmma": ("stall_gmma", "waits for the tensor cores"),
    "imc_miss": ("stall_imc", "waits for the constant cache"),
    "lg_throttle": ("stall_lg", "the queue for global memory is full"),
    "long_scoreboard": ("stall_long_sb", "waits for data from global or local memory"),
    "math_pipe_throttle": ("stall_math", "the pipe it wants is busy"),
    "membar": ("stall_membar", "waits for a memory fence"),
    "mio_throttle": ("stall_mio", "the queue for shared memory and the like is full"),
    "misc": ("stall_misc", "other reasons"),
    "no_instruction": ("stall_no_inst", "waits for the instruction cache, or has just jumped"),
    "not_selected": ("stall_not_selected", "ready, but another warp's turn"),
    "selected": ("stall_selected", "issues an instruction: no stall"),
    "short_scoreboard": ("stall_short_sb", "waits for data from shared memory"),
    "sleeping": ("stall_sleep", "sleeps"),
    "tex_throttle": ("stall_tex", "the queue for textures is full"),
    "wait": ("stall_wait", "waits the fixed time that its last instruction takes"),
    "warpgroup_arrive": ("", "waits for its warp group"),  # not in that table
}


def read_raw_page(path: Path) -> tuple[str, dict[str, float | None], dict[str, float]]:
    """The kernel's name, our counters, and how many cycles a warp waits for each reason per instruction."""
    lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
    if len(lines) < 3:
        raise UsageError(f"{path}: not a table of counters; record it again", FAILED)
    names, units, values = csv.reader(lines[:3])
    row = dict(zip(names, zip(values, units, strict=True), strict=True))

    def number(metric: str) -> float | None:
        value, unit = row.get(metric, ("", ""))
        try:
            return float(value.replace(",", "")) * SCALES.get(unit.split("/")[0], 1)
        except ValueError:
            return None  # this GPU or this ncu does not have it

    counters = {name: number(metric) for name, metric in {**COUNTERS, **WHERE_LISTED}.items()}
    if counters["sm_cycles"] and counters["duration_us"]:  # the clock while the kernel ran
        counters["sm_clock_mhz"] = round(counters["sm_cycles"] / counters["duration_us"], 1)
    waits = re.compile(r"smsp__average_warps_issue_stalled_((?!\w*not_issued)\w+)_per_issue_active\.ratio")
    reasons = {match[1]: number(name) for name in row if (match := waits.fullmatch(name))}
    return row["Kernel Name"][0], counters, {reason: value for reason, value in reasons.items() if value}


def read_source_page(path: Path) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """The instructions, in order, and the share of the samples in which a warp waited for each reason."""
    rows = csv.reader(io.StringIO(path.read_text()))
    head = next((row for row in rows if "Address" in row and "Source" in row), None)
    if head is None:
        raise UsageError(f"{path}: not a table of instructions; record it again", FAILED)
    instructions: list[dict[str, Any]] = []
    reasons: Counter[str] = Counter()
    first = None
    for cells in rows:
        row = dict(zip(head, cells, strict=False))
        if len(cells) != len(head) or not row["Address"].startswith("0x"):
            break  # the next kernel

        def whole(titles: dict[str, str], row: dict[str, str] = row) -> dict[str, int]:
            """What is not zero; a kernel without shared memory has no such columns."""
            texts = {name: row.get(title, "").replace(",", "") for name, title in titles.items()}
            return {name: int(text) for name, text in texts.items() if text.isdigit() and int(text)}

        address = int(row["Address"], 16)
        first = address if first is None else first
        stalled = whole({reason: column for reason, (column, _) in STALLS.items()})
        reasons.update(stalled)
        item = {"offset": address - first, "sass": " ".join(row["Source"].split()), **whole(BY_INSTRUCTION)}
        instructions.append({**item, "stalls": stalled} if stalled else item)
    return instructions, {name: reasons[name] / reasons.total() for name in STALLS if reasons[name]}


def short_name(kernel: str) -> str:
    """`void <unnamed>::sgemm_x<(bool)1>(Gemm)` becomes `sgemm_x<true>`."""
    name = binary.short_name(kernel.replace("<unnamed>::", ""))
    return re.sub(
        r"(?<=[<\s])(?:\(bool\))?([01])(?=[,>])", lambda m: "true" if m[1] == "1" else "false", name
    )


def without_namespaces(kernel: str) -> str:
    """`sgemm_x<_::tiles::Shape<8>, true>` becomes `sgemm_x<Shape<8>, true>`."""
    return re.sub(r"\w+::", "", kernel)


def alike(kernel: str) -> str:
    """The same for nvdisasm's spelling and ncu's, which has `>>`, bool for an int argument of 0 or 1, and no
    type of an enumerator."""
    untyped = re.sub(r"\(\w+\)(?=\d)", "", without_namespaces(kernel))
    return short_name(untyped).replace("> >", ">>")


def opcodes(code: list[Instruction]) -> list[str]:
    return [i.opcode for i in code]


def without_notes(code: list[Instruction]) -> list[Instruction]:
    """Some nvdisasm print what the compiler notes of an instruction: (*"SpillRefill"*)."""
    return [replace(i, text=re.sub(r"\s*\(\*.*?\*\)", "", i.text)) if "(*" in i.text else i for i in code]


def profiled_code(step: str, kernel: str, build: Path, figure: Callable, value: object) -> sass.Kernel:
    """Of the build's kernels with this name the one whose instructions have this figure."""
    program = build / "steps" / step / "run"
    for arch in sass.archs(program):
        for built in sass.kernels(program, arch):
            if alike(built.name) == alike(kernel):
                ways = built.instructions, without_notes(built.instructions)
                if value in map(figure, ways):
                    return built
    said = f"{program} is not the program that was profiled: it has no {kernel} of the same instructions"
    raise UsageError(f"{step}: {said}", FAILED)


def add_lines(instructions: list[dict[str, Any]], built: sass.Kernel) -> None:
    """Puts the source lines that the program's debug information gives beside the instructions."""
    by_offset = {i.offset: i for i in without_notes(built.instructions)}
    for item in instructions:
        instruction = by_offset[item["offset"]]
        item |= {"sass": instruction.text, "line": instruction.line}
        if instruction.line is None:
            del item["line"]


def describe(record: dict[str, Any], build: Path) -> None:
    """Brings the source lines in a step's record up to date. Raises UsageError if the build's machine code is
    not the one that was profiled."""
    for run in record["runs"]:
        if "sass_sha256" in run:
            found = profiled_code(record["step"], run["kernel"], build, sass_sha256, run["sass_sha256"])
            add_lines(run["instructions"], found)


def mix(instructions: list[dict[str, Any]]) -> dict[str, int]:
    """Executed instructions by opcode, most frequent first: of kernels whose code is not ours to print."""
    counts: Counter[str] = Counter()
    for item in instructions:
        counts[parse_instruction(item["sass"]).opcode] += item.get("executed", 0)
    return {opcode: n for opcode, n in counts.most_common() if n}


def largest_first(shares: dict[str, float], digits: int) -> dict[str, float]:
    return {name: round(n, digits) for name, n in sorted(shares.items(), key=lambda item: -item[1])}


def convert(step: str, raw: Path, build: Path, facts: dict[str, str]) -> dict[str, Any]:
    """The step's record, from the tables that Nsight Compute printed."""
    record: dict[str, Any] = {"step": step, "facts": facts, "runs": []}
    for problem in problems_of(step):
        base = f"{step}.{'x'.join(map(str, problem))}"
        if not (raw / f"{base}.raw.csv").exists():
            continue
        kernel, counters, waits = read_raw_page(raw / f"{base}.raw.csv")
        instructions, stalls = read_source_page(raw / f"{base}.source.csv")
        run: dict[str, Any] = dict(zip("mnk", problem, strict=True))
        run |= {"kernel": short_name(kernel), "counters": counters, "stalls": largest_first(stalls, 5)}
        run |= {"cycles_per_issue": largest_first(waits, 4), "opcodes": mix(instructions)}
        if not is_library(step):  # the code of a library's kernel is not ours to print
            parsed = [parse_instruction(item["sass"]) for item in instructions]
            built = profiled_code(step, run["kernel"], build, opcodes, opcodes(parsed))
            run["kernel"] = without_namespaces(built.name)  # which tells 1 from true
            add_lines(instructions, built)
            run |= {"arch": built.arch, "sass_sha256": sass_sha256(built.instructions)}
            memory = [
                item
                for item, i in zip(instructions, parsed, strict=True)
                if "executed" in item and i.opcode.startswith(("LD", "ST"))
            ]
            run["instructions"] = instructions if problem == TIMED else memory
        record["runs"].append(run)
    return record


def to_json(record: dict[str, Any]) -> str:
    """One line for each instruction: a difference between two records can be read."""
    runs = record["runs"]
    short = [{**run, "instructions": f"@{n}"} if "instructions" in run else run for n, run in enumerate(runs)]

    def lines(match: re.Match[str]) -> str:
        return "[\n   " + ",\n   ".join(map(json.dumps, runs[int(match[1])]["instructions"])) + "\n  ]"

    return re.sub(r'"@(\d+)"', lines, json.dumps({**record, "runs": short}, indent=1)) + "\n"
