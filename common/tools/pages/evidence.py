"""The generated blocks that show what was recorded on the GPU: counters, stalls, speed, machine code."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tools.claims import values
from tools.claims.values import NotAvailable
from tools.drawing import roofline
from tools.machine_code.listing import Instruction, SassError, parse_instruction
from tools.machine_code.loops import find_loops, main_loop
from tools.measuring import calibrate
from tools.pages.blocks import (
    BlockError,
    Request,
    code,
    facts_line,
    fence,
    percent,
    range_arguments,
    table,
    time,
    whole,
)

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
    "duration_us": ("duration", time),
    "sm_clock_mhz": ("SM clock while it ran", lambda v: f"{v:.0f} MHz"),
    "registers_per_thread": ("registers a thread", whole),
    "shared_bytes_per_block": ("shared memory a block", kibibytes),
    "threads_per_block": ("threads a block", whole),
    "blocks": ("blocks", whole),
    "theoretical_occupancy_percent": ("occupancy, theoretical", percent),
    "achieved_occupancy_percent": ("occupancy, achieved", percent),
    "instructions": ("instructions, counted by warp", count),
    "issue_slots_busy_percent": ("issue slots busy", percent),
    "fma_pipe_percent": ("FMA pipe busy", percent),
    "lsu_pipe_percent": ("load/store pipe busy", percent),
    "lsu_wavefronts_percent": ("L1 data pipe busy (wavefronts)", percent),
    "l1_percent": ("L1 and shared memory busy", percent),
    "l2_percent": ("L2 busy", percent),
    "dram_percent": ("DRAM busy", percent),
    "l1_hit_percent": ("L1 hit rate", percent),
    "l2_hit_percent": ("L2 hit rate", percent),
    "global_load_sectors": ("sectors of global loads", count),
    "l2_to_l1_bytes": ("read from L2", gigabytes),
    "dram_read_bytes": ("read from DRAM", gigabytes),
    "dram_write_bytes": ("written to DRAM", gigabytes),
    "shared_load_wavefronts": ("wavefronts of shared loads", count),
    "shared_store_wavefronts": ("wavefronts of shared stores (not of copies)", count),
}
# A row that is zero everywhere says nothing.
LEFT_OUT_IF_ZERO = {"shared_bytes_per_block", *(key for key in COUNTERS if "wavefronts" in key)}


def run_of(request: Request, step: str, n: int = values.N) -> dict[str, Any]:
    """The recorded run of a step at n cubed."""
    for run in request.context.profile_record(step)["runs"]:
        if run["m"] == run["n"] == run["k"] == n:
            return run
    raise NotAvailable(f"the profile of {step} has no run at {n}")


def counters_of(request: Request, step: str) -> dict[str, float | None]:
    counters = dict(run_of(request, step)["counters"])
    shared = [counters.get(f"{kind}_shared_bytes_per_block") for kind in ("static", "dynamic")]
    counters["shared_bytes_per_block"] = (
        sum(s for s in shared if s) if any(s is not None for s in shared) else None
    )
    return counters


def make_profile(request: Request) -> str:
    steps = request.steps(()) or request.here_and_before()
    counters = {step: counters_of(request, step) for step in steps}
    rows = []
    for key, (label, show) in COUNTERS.items():
        found = [counters[step].get(key) for step in steps]
        if all(v is None for v in found) or (key in LEFT_OUT_IF_ZERO and not any(found)):
            continue
        rows.append([label, *("–" if v is None else show(v) for v in found)])
    text = table(["", *map(code, steps)], rows, right=range(1, len(steps) + 1))
    return f"{text}\n\n{profile_facts(request, steps)}"


def profile_facts(request: Request, steps: Sequence[str]) -> str:
    facts = [request.context.profile_record(step).get("facts") or {} for step in steps]
    lines = list(dict.fromkeys(facts_line(f) for f in facts))
    return f"Nsight Compute at M = N = K = {values.N}. {' '.join(filter(None, lines))}".strip()


# Nsight Compute's reasons, in a reader's words.
STALLS = {
    "barrier": "waits for the block's other warps at a barrier",
    "branch_resolving": "waits for a jump's target",
    "dispatch_stall": "the dispatcher holds it back, e.g. for a conflict of register banks",
    "dispatch": "the dispatcher holds it back, e.g. for a conflict of register banks",
    "drain": "waits for its stores before it ends",
    "gmma": "waits for the tensor cores",
    "imc_miss": "waits for the constant cache",
    "lg_throttle": "the queue for global memory is full",
    "long_scoreboard": "waits for data from global or local memory",
    "math_pipe_throttle": "the pipe it wants is busy",
    "membar": "waits for a memory fence",
    "mio_throttle": "the queue for shared memory and the like is full",
    "misc": "other reasons",
    "misc_stall": "other reasons",
    "no_instruction": "waits for the instruction cache, or has just jumped",
    "no_instructions": "waits for the instruction cache, or has just jumped",
    "not_selected": "ready, but another warp's turn",
    "selected": "issues an instruction: no stall",
    "short_scoreboard": "waits for data from shared memory",
    "sleeping": "sleeps",
    "tex_throttle": "the queue for textures is full",
    "wait": "waits the fixed time that its last instruction takes",
    "warpgroup_arrive": "waits for its warp group",
}


def make_stalls(request: Request) -> str:
    steps = request.steps(()) or request.here_and_before()
    stalls = {}
    for step in steps:
        stalls[step] = run_of(request, step).get("stalls")
        if not stalls[step]:
            raise NotAvailable(f"the profile of {step} has no stall reasons")
    top = [
        reason
        for step in steps
        for reason in sorted(stalls[step], key=lambda r: (-stalls[step][r], r))[:STALLS_SHOWN]
        if stalls[step][reason] >= 0.005
    ]
    last = stalls[steps[-1]]
    reasons = sorted(dict.fromkeys(top), key=lambda r: (-last.get(r, 0), r))
    rows = [
        [f"`{r}`", STALLS.get(r, ""), *(f"{100 * stalls[step].get(r, 0):.1f} %" for step in steps)]
        for r in reasons
    ]
    text = table(["reason", "the warp", *map(code, steps)], rows, right=range(2, len(steps) + 2))
    return f"{text}\n\nOf all samples of a warp's state. {profile_facts(request, steps)}"


# ---- Speed -----------------------------------------------------------------------------------------------


def make_speed(request: Request) -> str:
    steps = request.steps(()) or request.here_and_before()
    rows = []
    for n in SIZES:
        entries = [request.context.ladder(step, n) for step in steps]
        row = [whole(n)]
        for entry in entries:
            row += [time(entry.time_us), f"{entry.tflops:.2f}", percent(100 * entry.ratio)]
        if len(entries) == 2:
            row.append(f"{entries[0].time_us / entries[1].time_us:.2f} ×")
        rows.append(row)
    head = ["M = N = K"]
    for step in steps:
        short = step[:2]
        head += [f"{short}: time", f"{short}: TFLOP/s", f"{short}: of cuBLAS"]
    if len(steps) == 2:
        head.append("faster by")
    first = request.context.ladder(steps[-1], SIZES[0])
    names = " and ".join(f"`{step}`" for step in steps)
    caption = (
        f"{names}, each measured in turn with cuBLAS; medians. "
        f"{first.device}, driver {first.driver}, CUDA {first.cuda}, recorded {first.date[:10]}."
    )
    return f"{table(head, rows, right=range(len(head)))}\n\n{caption}"


# ---- Machine code ----------------------------------------------------------------------------------------

FOLD = 6  # as many instructions of one kind in a row are folded
KEPT = 2  # of them so many are shown
LINES = 40  # of a loop, unless the block says how many
WIDEST = 110


def make_sass(request: Request) -> str:
    step = request.step()
    recorded = run_of(request, step)
    if not recorded.get("instructions"):
        raise NotAvailable(f"the profile of {step} has no instructions")
    listing = Recorded(recorded)
    only = request.option("only")
    words = request.arguments.split()
    if words and words[0] == "loop" and len(words) <= 2:
        limit = LINES
        if len(words) == 2:
            if not re.fullmatch(r"[1-9]\d*", words[1]):
                raise BlockError("`sass loop N`: N is how many lines to show")
            limit = int(words[1])
        rows = listing.loop()
        what = f"the main loop, {len(rows)} instructions"
    else:
        if only:
            raise BlockError("`only=` goes with `sass loop`")
        first, last = range_arguments(request.arguments)
        rows = listing.between(first, last)
        limit, what = None, f"{len(rows)} instructions"
    lines = listing.lines(rows, only.split(",") if only else None, limit)
    facts = profile_facts(request, [step])
    head = f"`steps/{step}/kernel.cu`, `{recorded['kernel']}`: {what}"
    return f"{head}:\n\n{fence('text', lines)}\n\n{SASS_LEGEND} {facts}"


SASS_LEGEND = (
    "*line*: of the source. *times*: how often a warp executes it. "
    "*stalls*: its share of all samples in which a warp waited or issued there."
)


class Recorded:
    """The instructions of a recorded run."""

    def __init__(self, run: dict[str, Any]):
        self.rows: list[dict[str, Any]] = run["instructions"]
        counters = run["counters"]
        self.warps = counters["blocks"] * -(-counters["threads_per_block"] // 32)
        self.arch = run.get("arch", values.DEFAULT_ARCH)
        self.samples = sum(row.get("samples") or 0 for row in self.rows)
        try:
            self.parsed = [parse_instruction(row["sass"], row["offset"]) for row in self.rows]
        except SassError as error:
            raise BlockError(str(error)) from None

    def loop(self) -> list[int]:
        """Numbers of the main loop's instructions, in the order of execution."""
        loop = main_loop(find_loops(self.parsed, self.arch))
        if loop is None:
            raise BlockError("no loop with FFMAs was recorded")
        numbers = {instruction.offset: n for n, instruction in enumerate(self.parsed)}
        return [numbers[instruction.offset] for instruction in loop.instructions]

    def between(self, first: str, last: str) -> list[int]:
        """From the first instruction that holds `first` (in the main loop, if one there does) to the next
        that holds `last`."""
        try:
            order = [self.loop(), list(range(len(self.rows)))]
        except BlockError:
            order = [list(range(len(self.rows)))]
        for numbers in order:
            starts = [at for at, n in enumerate(numbers) if first in self.parsed[n].text]
            for start in starts[:1]:
                for end in range(start, len(numbers)):
                    if last in self.parsed[numbers[end]].text:
                        return numbers[start : end + 1]
        raise BlockError(f"no instructions from '{first}' to '{last}' were recorded")

    def lines(self, numbers: list[int], only: list[str] | None, limit: int | None) -> str:
        """The instructions as a table. only: mnemonics to show; limit: lines to show. What is left out is
        counted in its place."""
        columns = [("line", "times", "stalls", "instruction", "a request")]
        left_out: list[Instruction] = []

        def fold() -> None:
            if left_out:
                columns.append(("", "", "", f"… {summary(left_out)}", ""))
                left_out.clear()

        for at, n in enumerate(numbers):
            last = at + 1 == len(numbers)  # most often the jump back
            full = limit is not None and len(columns) > limit and not last
            unwanted = only and not any(shown(self.parsed[n], pattern) for pattern in only)
            if full or unwanted or (not only and self.in_long_row(numbers, at)):
                left_out.append(self.parsed[n])
                continue
            fold()
            columns.append(self.columns(n))
        fold()
        # Instructions before requests: a narrow screen does not show the end of the lines.
        widest = max(len(row[3]) for row in columns if row[4])
        lines = [f"{c[0]:>4} {c[1]:>6} {c[2]:>7}  {c[3]:<{widest}}  {c[4]}".rstrip() for c in columns]
        return "\n".join(line if len(line) <= WIDEST else line[: WIDEST - 1] + "…" for line in lines)

    def in_long_row(self, numbers: list[int], at: int) -> bool:
        """Whether this is neither among the first nor the last of a long row of one mnemonic."""
        mnemonic = self.parsed[numbers[at]].mnemonic
        first = last = at
        while first > 0 and self.parsed[numbers[first - 1]].mnemonic == mnemonic:
            first -= 1
        while last + 1 < len(numbers) and self.parsed[numbers[last + 1]].mnemonic == mnemonic:
            last += 1
        return last - first + 1 >= FOLD and first + KEPT <= at <= last - 1

    def columns(self, n: int) -> tuple[str, str, str, str, str]:
        """Source line, executions by a warp, share of the samples, the text, and what a request takes."""
        row, instruction = self.rows[n], self.parsed[n]
        times = (row.get("executed") or 0) / self.warps
        share = 100 * (row.get("samples") or 0) / self.samples if self.samples else 0.0
        place = str(row["line"]) if row.get("line") else ""
        return place, short(times), f"{share:.1f} %", instruction.text, traffic(row, instruction)


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


def shown(instruction: Instruction, pattern: str) -> bool:
    """Whether its opcode begins with the parts of a pattern. One that is never executed is not meant."""
    return not instruction.never and f"{instruction.opcode}.".startswith(f"{pattern}.")


def summary(instructions: list[Instruction]) -> str:
    mix = Counter(instruction.mnemonic for instruction in instructions)
    most = sorted(mix.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{times} {mnemonic}" for mnemonic, times in most[:4]]
    if len(most) > 4:
        parts.append(f"{sum(times for _, times in most[4:])} others")
    return ", ".join(parts)


# ---- Roofline --------------------------------------------------------------------------------------------


def make_roofline(request: Request) -> str:
    step = request.step()
    request.no_more()
    gpu = request.context.gpu()
    names = [name for name in values.all_steps() if name <= step]
    points = [point for name in names if (point := roofline_point(request, name, needed=name == step))]
    picture = roofline.svg(points, step, gpu.peak_tflops, gpu.dram_tb_per_s, gpu.name)
    link = request.figure(
        f"{step}_roofline.svg", picture, f"Roofline of {gpu.name} with the steps up to {step}"
    )
    here = points[-1]
    best = roofline.roof(here.flops_per_byte, gpu.peak_tflops, gpu.dram_tb_per_s)
    bound = "the DRAM" if here.flops_per_byte < gpu.flops_per_byte else "the arithmetic"
    says = [
        f"At M = N = K = {values.N} `{step}` does {here.flops_per_byte:.0f} FLOP for each byte to or from",
        f"DRAM. The roofs meet at {gpu.flops_per_byte:.1f}, so the roof over it is {bound}:",
        f"{best:.1f} TFLOP/s. It reaches {here.tflops:.2f}, {percent(100 * here.tflops / best)} of that.",
    ]
    return f"{link}\n\n{' '.join(says)}"


def roofline_point(request: Request, step: str, needed: bool) -> roofline.Point | None:
    """A step's point at N cubed. None if it was not recorded and is not needed."""
    try:
        counters = run_of(request, step)["counters"]
        moved = (counters.get("dram_read_bytes") or 0) + (counters.get("dram_write_bytes") or 0)
        if not moved:
            raise NotAvailable(f"the profile of {step} was recorded without its DRAM traffic")
        return roofline.Point(step, 2 * values.N**3 / moved, request.context.ladder(step).tflops)
    except NotAvailable:
        if needed:
            raise
        return None


# ---- The CPU device against the GPU ------------------------------------------------------------------------


def make_calibration(request: Request) -> str:
    """How many of the GPU's memory instructions the X-ray agrees with, and why the others differ."""
    context = request.context
    if request.arguments.strip():
        raise BlockError("write `calibration` alone: it is of all steps")
    steps = [step for step in values.all_steps() if step != "00_cublas"]

    def xray(step: str, problem: tuple[int, int, int]) -> dict[str, Any]:
        return context.xray_record(step, *problem)["xray"]

    try:
        outcomes = list(calibrate.calibrate(steps, context.evidence, xray))
        differences = calibrate.read_differences(context.evidence / "differences.toml")
    except calibrate.CalibrationError as error:
        raise BlockError(str(error)) from None
    if wrong := [line for outcome in outcomes for line in outcome.wrong]:
        raise BlockError(f"the X-ray and the counters differ: {wrong[0]}")
    rows = [[code(o.step), o.problem.replace("x", " × "), str(o.equal), str(o.listed)] for o in outcomes]
    total = ["all", "", f"**{sum(o.equal for o in outcomes)}**", f"**{sum(o.listed for o in outcomes)}**"]
    head = ["step", "M × N × K", "instructions that agree", "that differ, with a reason"]
    reasons: dict[str, list[str]] = {}
    for difference in differences:
        steps_with_it = reasons.setdefault(difference.reason, [])
        if difference.step not in steps_with_it:
            steps_with_it.append(difference.step)
    listed = "\n".join(f"- {', '.join(map(code, of))}: {reason}." for reason, of in reasons.items())
    return f"{table(head, [*rows, total], right=(2, 3))}\n\nThe reasons:\n\n{listed}"
