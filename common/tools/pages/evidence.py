"""The generated blocks that show what was recorded on the GPU: counters, stalls, speed, machine code."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from statistics import geometric_mean
from typing import Any

from tools.base import UsageError, markdown
from tools.claims.context import N
from tools.claims.objects import NotAvailable
from tools.drawing import roofline
from tools.machine_code.listing import Instruction, matches, parse_instruction
from tools.machine_code.loops import find_loops, main_loop
from tools.machine_code.sass import DEFAULT_ARCH
from tools.measuring import calibrate, table
from tools.measuring.counters_record import STALLS
from tools.pages import blocks
from tools.pages.blocks import Request, block, code, fence, whole

SIZES = (1024, 2048, 4096, 8192, 16384)
STALLS_SHOWN = 5  # of each step, at most

# ---- Counters --------------------------------------------------------------------------------------------


def gigabytes(value: float) -> str:
    return f"{value / 1e9:.2f} GB" if value >= 1e8 else f"{value / 1e6:.2f} MB"


def kibibytes(value: float) -> str:
    return "0" if value == 0 else f"{value / 1024:.1f} KiB".replace(".0 ", " ")


def count(value: float) -> str:
    """A large count, short."""
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.2f} {name}"
    return whole(value)


COUNTERS: dict[str, tuple[str, Callable[[float], str]]] = {
    "duration_us": ("duration", blocks.time),
    "sm_clock_mhz": ("SM clock while it ran", lambda v: f"{v:.0f} MHz"),
    "registers_per_thread": ("registers a thread", whole),
    "shared_bytes_per_block": ("shared memory a block", kibibytes),
    "threads_per_block": ("threads a block", whole),
    "blocks": ("blocks", whole),
    "theoretical_occupancy_percent": ("occupancy, theoretical", blocks.percent),
    "achieved_occupancy_percent": ("occupancy, achieved", blocks.percent),
    "instructions": ("instructions, counted by warp", count),
    "issue_slots_busy_percent": ("issue slots busy", blocks.percent),
    "fma_pipe_percent": ("FMA pipe busy", blocks.percent),
    "tensor_pipe_percent": ("tensor pipe busy", blocks.percent),
    "lsu_pipe_percent": ("load/store pipe busy", blocks.percent),
    "lsu_wavefronts_percent": ("L1 data pipe busy (wavefronts)", blocks.percent),
    "l1_percent": ("L1 and shared memory busy", blocks.percent),
    "l2_percent": ("L2 busy", blocks.percent),
    "dram_percent": ("DRAM busy", blocks.percent),
    "l1_hit_percent": ("L1 hit rate", blocks.percent),
    "l2_hit_percent": ("L2 hit rate", blocks.percent),
    "global_load_sectors": ("sectors of global loads", count),
    "l2_to_l1_bytes": ("read from L2", gigabytes),
    "dram_read_bytes": ("read from DRAM", gigabytes),
    "dram_write_bytes": ("written to DRAM", gigabytes),
    "shared_load_wavefronts": ("wavefronts of shared loads", count),
    "shared_store_wavefronts": ("wavefronts of shared stores (not of copies)", count),
}
LEFT_OUT_IF_ZERO = (
    "shared_bytes_per_block",
    "tensor_pipe_percent",
    *(k for k in COUNTERS if "wavefronts" in k),
)


def counters_of(request: Request, step: str) -> dict[str, float | None]:
    counters = dict(request.context.profile_run(step)["counters"])
    shared = [counters.get(f"{kind}_shared_bytes_per_block") for kind in ("static", "dynamic")]
    counters["shared_bytes_per_block"] = sum(s or 0 for s in shared) if shared != [None, None] else None
    return counters


@block()
def make_profile(request: Request) -> str:
    steps = request.steps(before=True)
    counters = [counters_of(request, step) for step in steps]
    rows = []
    for key, (label, show) in COUNTERS.items():
        found = [of_step.get(key) for of_step in counters]
        if all(v is None for v in found) or (key in LEFT_OUT_IF_ZERO and not any(found)):
            continue
        rows.append([label, *("–" if v is None else show(v) for v in found)])
    return f"{markdown(['', *map(code, steps)], rows, left=1)}\n\n{profile_facts(request, steps)}"


def profile_facts(request: Request, steps: Sequence[str]) -> str:
    facts = [request.context.profile_record(step).get("facts") or {} for step in steps]
    lines = list(dict.fromkeys(blocks.facts_line(f) for f in facts))
    return f"Nsight Compute at M = N = K = {N}. {' '.join(filter(None, lines))}".strip()


def waits_for_wgmma(request: Request, step: str) -> bool:
    """Nsight Compute counts a warp that waits for its own wgmma with those at a barrier."""
    instructions = request.context.profile_run(step).get("instructions", [])
    return any("WARPGROUP.DEPBAR" in i["sass"] and "barrier" in i.get("stalls", {}) for i in instructions)


@block()
def make_stalls(request: Request) -> str:
    steps = request.steps(before=True)
    stalls = {step: request.context.profile_run(step).get("stalls") for step in steps}
    if without := [step for step in steps if not stalls[step]]:
        raise NotAvailable(f"the profile of {without[0]} has no stall reasons")
    top = {
        reason
        for of_step in stalls.values()
        for reason in sorted(of_step, key=lambda r: (-of_step[r], r))[:STALLS_SHOWN]
        if of_step[reason] >= 0.005
    }
    reasons = sorted(top, key=lambda r: (-stalls[steps[-1]].get(r, 0), r))
    words = {reason: STALLS.get(re.sub("_stall$|s$", "", reason), ("", ""))[1] for reason in reasons}
    if "barrier" in words and any(waits_for_wgmma(request, step) for step in steps):
        words["barrier"] += ", or for its own `wgmma`"
    rows = [
        [f"`{r}`", words[r], *(f"{100 * stalls[step].get(r, 0):.1f} %" for step in steps)] for r in reasons
    ]
    text = markdown(["reason", "the warp", *map(code, steps)], rows, left=2)
    return f"{text}\n\nOf all samples of a warp's state. {profile_facts(request, steps)}"


# ---- Speed -----------------------------------------------------------------------------------------------


@block()
def make_speed(request: Request) -> str:
    steps = request.steps(before=True)
    two = len(steps) == 2
    rows = []
    for n in SIZES:
        entries = [request.context.ladder(step, n) for step in steps]
        row = [whole(n)]
        for entry in entries:
            row += [blocks.time(entry.time_us), f"{entry.tflops:.2f}", blocks.percent(100 * entry.ratio)]
        rows.append([*row, *([f"{entries[0].time_us / entries[1].time_us:.2f} ×"] if two else [])])
    of_steps = [f"{step[:2]}: {what}" for step in steps for what in ("time", "TFLOP/s", "of cuBLAS")]
    head = ["M = N = K", *of_steps, *(["faster by"] if two else [])]
    names = " and ".join(map(code, steps))
    facts = blocks.facts_line(request.context.ladder(steps[-1], SIZES[0])._figures)
    return f"{markdown(head, rows, left=0)}\n\n{names}, each measured in turn with cuBLAS; medians. {facts}"


@block(alone=True)
def make_ladder(request: Request) -> str:
    return table.markdown_table(request.context.ladder_records())


@block("step", alone=True)
def make_shapes(request: Request) -> str:
    """Every shape that was measured with a step, the smallest product first."""
    step = request.step
    every = request.context.ladder_records(step)
    records = [r for r in every if r["step"] == step and r["ratio_to_cublas"]]
    if not records:
        raise NotAvailable(f"the ladder holds no measurement of {step}")
    records.sort(key=lambda r: (r["m"] * r["n"] * r["k"] * r["batch"], r["m"], r["n"]))
    rows = [
        [
            *(whole(r[size]) for size in ("m", "n", "k", "batch")),
            blocks.time(r["time_us"]),
            blocks.time(r["cublas_time_us"]),
            r.get("cublas_algorithm", "").partition(", ")[2] or "–",
            blocks.percent(100 * r["ratio_to_cublas"]),
        ]
        for r in records
    ]
    head = ["M", "N", "K", "batch", "time", "cuBLAS", "which takes", "of cuBLAS"]
    mean = 100 * geometric_mean(r["ratio_to_cublas"] for r in records)
    measured = (
        f"{code(step)}, measured in turn with cuBLAS, whose fastest algorithm says what it takes; medians"
    )
    about = f"{measured}. Geometric mean of the last: {mean:.1f} %"
    return f"{markdown(head, rows, left=0)}\n\n{about}. {blocks.facts_line(records[-1])}"


# ---- Machine code ----------------------------------------------------------------------------------------

FOLD = 6  # as many instructions of one kind in a row are folded
KEPT = 2  # of them so many are shown
LINES = 40  # of a loop, unless the block says how many
WIDEST = 110
SASS_LEGEND = (
    "*line*: of the source. *times*: how often a warp executes it. "
    "*stalls*: its share of all samples in which a warp waited or issued there."
)
Row = tuple[dict[str, Any], Instruction]  # an instruction as it was recorded, and as it is read


@block("step", "only")
def make_sass(request: Request) -> str:
    step, only = request.step, request.options.get("only")
    run = request.context.profile_run(step)
    if not run.get("instructions"):
        raise NotAvailable(f"the profile of {step} has no instructions")
    rows = [(row, parse_instruction(row["sass"], row["offset"])) for row in run["instructions"]]
    loop = main_loop(find_loops([instruction for _, instruction in rows], run.get("arch", DEFAULT_ARCH)))
    numbers = {instruction.offset: n for n, (_, instruction) in enumerate(rows)}
    in_loop = [rows[numbers[instruction.offset]] for instruction in loop.instructions] if loop else []
    match request.arguments.split():
        case ["loop", *most] if len(most) <= 1:
            if most and not re.fullmatch(r"[1-9]\d*", most[0]):
                raise UsageError("`sass loop N`: N is how many lines to show")
            if not in_loop:
                raise UsageError("no loop that multiplies was recorded")
            shown, limit = in_loop, int(most[0]) if most else LINES
            what = f"the main loop, {len(shown)} instructions"
        case _ if only:
            raise UsageError("`only=` goes with `sass loop`")
        case _:
            shown, limit = between(in_loop, rows, *blocks.range_arguments(request.arguments)), len(rows)
            what = f"{len(shown)} instructions"
    counters = run["counters"]
    warps = counters["blocks"] * -(-counters["threads_per_block"] // 32)
    samples = sum(row.get("samples") or 0 for row, _ in rows)
    text = listing(shown, only.split(",") if only else [], limit, warps, samples)
    head = f"`steps/{step}/kernel.cu`, `{run['kernel']}`: {what}"
    return f"{head}:\n\n{fence('text', text)}\n\n{SASS_LEGEND} {profile_facts(request, [step])}"


def between(in_loop: list[Row], rows: list[Row], first: str, last: str) -> list[Row]:
    """From the first instruction that holds `first` (in the main loop, if one there does) to the next that
    holds `last`."""
    for where in (in_loop, rows):
        start = next((n for n, (_, i) in enumerate(where) if first in i.text), len(where))
        for end in range(start, len(where)):
            if last in where[end][1].text:
                return where[start : end + 1]
    raise UsageError(f"no instructions from '{first}' to '{last}' were recorded")


def listing(rows: list[Row], only: list[str], limit: int, warps: int, samples: int) -> str:
    """The instructions as a table. only: mnemonics to show, if any; limit: how many instructions to show.
    What is left out is counted in its place."""
    folded: set[int] = set()  # neither among the first nor the last of a long row of one mnemonic
    at = 0
    for _, same in groupby(rows, lambda row: row[1].mnemonic):
        begin, at = at, at + len(list(same))
        if at - begin >= FOLD and not only:
            folded.update(range(begin + KEPT, at - 1))
    wanted = [
        n
        for n, (_, instruction) in enumerate(rows)
        if n not in folded and (not only or any(matches(instruction, pattern) for pattern in only))
    ]
    shown = {*wanted[:limit], *wanted[-1:]}  # the last is most often the jump back

    lines = [("line", "times", "stalls", "instruction", "a request")]
    for is_shown, group in groupby(enumerate(rows), lambda numbered: numbered[0] in shown):
        some = [row for _, row in group]
        if not is_shown:
            counts = Counter(instruction.mnemonic for _, instruction in some)
            most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            parts = [f"{times} {mnemonic}" for mnemonic, times in most[:4]]
            parts += [f"{sum(times for _, times in most[4:])} others"] if len(most) > 4 else []
            lines.append(("", "", "", f"… {', '.join(parts)}", ""))
            continue
        for row, instruction in some:
            share = 100 * (row.get("samples") or 0) / samples if samples else 0.0
            times = short((row.get("executed") or 0) / warps)
            place = str(row.get("line") or "")
            lines.append((place, times, f"{share:.1f} %", instruction.text, traffic(row, instruction)))
    # Instructions before requests: a narrow screen does not show the end of the lines.
    widest = max(len(line[3]) for line in lines if line[4])
    texts = [f"{c[0]:>4} {c[1]:>6} {c[2]:>7}  {c[3]:<{widest}}  {c[4]}".rstrip() for c in lines]
    return "\n".join(text if len(text) <= WIDEST else text[: WIDEST - 1] + "…" for text in texts)


def short(value: float) -> str:
    return f"{value:.0f}" if abs(value - round(value)) < 0.005 or value >= 1000 else f"{value:.2f}"


def traffic(row: dict[str, Any], instruction: Instruction) -> str:
    """Sectors and wavefronts a request, with what the accesses need at least if that is less. Of a copy's
    wavefronts more depends than the banks."""
    executed = row.get("executed") or 0
    parts = []
    for kind in ("sectors", "wavefronts"):
        if executed and row.get(kind):
            each, least = row[kind] / executed, row.get(f"ideal_{kind}") or 0
            parts.append(f"{short(each)} {kind[:-1] if each == 1 else kind}")
            if 0 < least < row[kind] and instruction.mnemonic != "LDGSTS":
                parts.append(f"needs {short(least / executed)}")
    return ", ".join(parts)


# ---- Roofline --------------------------------------------------------------------------------------------


@block("step", alone=True)
def make_roofline(request: Request) -> str:
    step = request.step
    gpu = request.context.gpu()
    points = []
    for name in request.context.steps():
        if name < step:
            with suppress(NotAvailable):  # not every step needs to be recorded
                points.append(roofline_point(request, name))
    points.append(here := roofline_point(request, step))
    picture = roofline.svg(points, step, gpu.peak_tflops, gpu.dram_tb_per_s, gpu.name)
    words = f"Roofline of {gpu.name} with the steps up to {step}"
    link = request.figure([step, "roofline"], picture, words)
    best = roofline.roof(here.flops_per_byte, gpu.peak_tflops, gpu.dram_tb_per_s)
    bound = "the DRAM" if here.flops_per_byte < gpu.flops_per_byte else "the arithmetic"
    reached = blocks.percent(100 * here.tflops / best)
    says = [
        f"At M = N = K = {N} `{step}` does {here.flops_per_byte:.0f} FLOP for each byte to or from",
        f"DRAM. The roofs meet at {gpu.flops_per_byte:.1f}, so the roof over it is {bound}:",
        f"{best:.1f} TFLOP/s. It reaches {here.tflops:.2f}, {reached} of that.",
    ]
    return f"{link}\n\n{' '.join(says)}"


def roofline_point(request: Request, step: str) -> roofline.Point:
    """A step's point at N cubed."""
    counters = request.context.profile_run(step)["counters"]
    moved = (counters.get("dram_read_bytes") or 0) + (counters.get("dram_write_bytes") or 0)
    if not moved:
        raise NotAvailable(f"the profile of {step} was recorded without its DRAM traffic")
    return roofline.Point(step, 2 * N**3 / moved, request.context.ladder(step).tflops)


# ---- The CPU device against the GPU ------------------------------------------------------------------------


@block(alone=True, of_build=True)
def make_calibration(request: Request) -> str:
    """How many of the GPU's memory instructions the X-ray agrees with, and why the others differ."""
    context = request.context
    steps, unrecorded = calibrate.steps_recorded(context.steps(), context)
    outcomes = list(calibrate.calibrate(steps, context))
    if wrong := [line for outcome in outcomes for line in outcome.wrong]:
        raise UsageError(f"the X-ray and the counters differ: {wrong[0]}")
    rows = [[code(o.step), o.problem.replace("x", " × "), str(o.equal), str(o.listed)] for o in outcomes]
    total = ["all", "", f"**{sum(o.equal for o in outcomes)}**", f"**{sum(o.listed for o in outcomes)}**"]
    head = ["step", "M × N × K", "instructions that agree", "that differ, with a reason"]
    reasons: dict[str, dict[str, None]] = {}
    for difference in calibrate.read_differences(context.recorded()):
        reasons.setdefault(difference.reason, {})[code(difference.step)] = None
    listed = "\n".join(f"- {', '.join(of)}: {reason}." for reason, of in reasons.items())
    missing = f"Not recorded yet: {', '.join(map(code, unrecorded))}.\n\n" if unrecorded else ""
    return f"{markdown(head, [*rows, total], left=2)}\n\n{missing}The reasons:\n\n{listed}"
