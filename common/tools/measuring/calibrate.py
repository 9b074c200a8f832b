"""Holds the CPU device's X-ray against what Nsight Compute counted on a GPU, instruction by instruction.

  ladder calibrate --steps 07_bank_conflicts,08_warp_tiling --verbose

For each problem that `ladder profile` records for this purpose, and each kernel: the machine's instructions
that access memory are grouped by source line, kind (global or shared; load, store, asynchronous copy or
ldmatrix) and width, as are the rows of `run --xray`. Requests, sectors and wavefronts of both must be equal.
Where the compiler did something that the source does not say, differences.toml beside the evidence lists the
difference with its reason and with what must hold instead; a difference that is not listed, or that no
longer exists, is an error. Steps that nobody has recorded yet are named and left out, unless --steps asks
for them.

Exit status: 0 all agree or are listed; 1 they do not; 2 bad usage; 77 the build cannot observe.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tools.base import (
    BUILD,
    ROOT,
    Parser,
    UsageError,
    chosen,
    is_library,
    read_fields,
    read_json,
    read_text,
    read_toml,
)
from tools.claims.context import Context, all_steps
from tools.claims.objects import NotAvailable
from tools.machine_code.listing import parse_instruction
from tools.measuring.counters_record import OBSERVED, without_namespaces

KINDS = {  # of an instruction: where it accesses memory, and how
    "LDG": (("global",), "load"),
    "STG": (("global",), "store"),
    "LDS": (("shared",), "load"),
    "LDSM": (("shared",), "ldmatrix"),
    "STS": (("shared",), "store"),
    "LDGSTS": (("global", "shared"), "copy"),
}
ROW = 16  # bytes of a row of an ldmatrix's matrices, at one lane's address
SKIPPED = 77
QUANTITIES = ("requests", "bytes", "sectors", "wavefronts", "ideal")


class Key(NamedTuple):
    """One kind of access at one line of the source."""

    line: int
    space: str
    operation: str
    width: int  # bytes of a lane; of an ldmatrix, of the row that a lane says the place of


# What it did, in all: QUANTITIES, and (of a GPU) how many instructions of the machine do it.
Traffic = Counter[str]
Side = defaultdict[Key, Traffic]


def said(traffic: Traffic) -> str:
    parts = [f"{traffic['requests']} requests"] + [f"{traffic['sectors']} sectors"] * bool(traffic["sectors"])
    if traffic["wavefronts"]:
        parts.append(f"{traffic['wavefronts']} wavefronts (ideal {traffic['ideal']})")
    return ", ".join(parts)


def of_gpu(run: dict[str, Any]) -> Side:
    side: Side = defaultdict(Counter)
    for item in run["instructions"]:
        instruction = parse_instruction(item["sass"])
        if instruction.mnemonic not in KINDS or "executed" not in item or instruction.never:
            continue
        spaces, operation = KINDS[instruction.mnemonic]
        width = instruction.bytes or 0
        for space in spaces:
            traffic = side[Key(item["line"], space, operation, ROW if operation == "ldmatrix" else width)]
            traffic["instructions"] += space == spaces[0]
            traffic.update(requests=item["executed"], bytes=item.get("thread_executed", 0) * width)
            if space == "global":
                traffic.update(sectors=item.get("sectors", 0))
            else:
                traffic.update(wavefronts=item.get("wavefronts", 0), ideal=item.get("ideal_wavefronts", 0))
    return side


def of_cpu(xray: dict[str, Any], kernel: str) -> Side:
    """Of the launches of a kernel. What no lane does, TMA's copies, is left out: Nsight Compute does not
    count them by instruction."""
    side: Side = defaultdict(Counter)
    launches = [k for k in xray["xray"]["kernels"] if without_namespaces(k["kernel"]) == kernel]
    for row in (row for launch in launches for row in launch["accesses"]):
        if row["operation"] == "copy" and not row["lanes"]:
            continue
        traffic = side[Key(row["line"], row["space"], row["operation"], row["bytes"])]
        traffic.update(requests=row["requests"], bytes=row["lanes"] * row["bytes"])
        if row["space"] == "global":  # its wavefronts are not counted by instruction on the GPU
            traffic.update(sectors=row["sectors"])
        else:
            traffic.update(wavefronts=row["wavefronts"], ideal=row["ideal_wavefronts"])
    return side


@dataclass
class Difference:
    """An entry of differences.toml: what differs, why, and which sums over its lines must still be equal."""

    step: str
    problems: list  # "256x256x128"
    lines: list  # pieces of source lines
    space: str
    operation: str
    equal: list  # of QUANTITIES
    reason: str

    def __post_init__(self) -> None:
        if not set(self.equal) < set(QUANTITIES):
            raise ValueError(f"give some of {', '.join(QUANTITIES)} as equal")

    def line_numbers(self) -> set[int]:
        source = read_text(ROOT / "steps" / self.step / "kernel.cu").splitlines()
        found = set()
        for piece in self.lines:
            numbers = [number for number, line in enumerate(source, 1) if piece in line]
            if len(numbers) != 1:
                raise UsageError(f"differences.toml: {self.step} has {len(numbers)} lines with '{piece}'")
            found.add(numbers[0])
        return found


def read_differences(evidence: Path) -> list[Difference]:
    path = evidence / "differences.toml"
    entries = read_toml(path).get("difference", [])
    return [read_fields(Difference, entry, f"{path}: {n}") for n, entry in enumerate(entries, 1)]


@dataclass
class Outcome:
    """Of one step at one problem: instructions that agree, those listed as different, what is wrong."""

    step: str
    problem: str  # "256x256x128"
    equal: int
    listed: int
    wrong: list[str]


def compare(
    step: str, problem: str, gpu: Side, cpu: Side, differences: list[Difference], say: Callable[[str], None]
) -> Outcome:
    outcome = Outcome(step, problem, 0, 0, [])

    def unequal(there: Traffic, here: Traffic, names: Sequence[str]) -> list[str]:
        return [name for name in names if there[name] != here[name]]

    different = {key for key in gpu.keys() | cpu.keys() if unequal(gpu[key], cpu[key], QUANTITIES)}
    outcome.equal = sum(traffic["instructions"] for key, traffic in gpu.items() if key not in different)
    for d in differences:
        if d.step != step or problem not in d.problems:
            continue
        lines = d.line_numbers()
        keys = [k for k in gpu if k.line in lines and (k.space, k.operation) == (d.space, d.operation)]
        there, here = (sum((side[key] for key in keys), Counter()) for side in (gpu, cpu))
        name = f"{step} {problem} line {', '.join(map(str, sorted(lines)))} {d.operation}"
        sides = f"GPU {said(there)}; CPU device {said(here)}"
        if names := unequal(there, here, d.equal):
            outcome.wrong.append(f"{name}: {', '.join(names)} should be equal: {sides}")
        if not different.intersection(keys):
            outcome.wrong.append(f"{name}: is listed as different, but nothing differs; remove it")
        outcome.listed += sum(gpu[key]["instructions"] for key in different.intersection(keys))
        different.difference_update(keys)
        say(f"listed {name}: {sides}\n       {d.reason}")
    for key in sorted(different):
        place = f"{step} {problem} line {key.line}: {key.space} {key.operation} of {key.width} bytes"
        outcome.wrong.append(f"{place}: GPU {said(gpu[key])}; CPU device {said(cpu[key])}; not listed")
    return outcome


def grid_depends_on_device(step: str) -> bool:
    """Whether a step asks how many multiprocessors there are: then its blocks do other work on a GPU than on
    the CPU device, and their accesses do not compare."""
    files = (ROOT / "steps" / step).glob("*.[ch]*")
    return any("multiprocessors()" in read_text(path) for path in files)


def steps_recorded(steps: Sequence[str], context: Context) -> tuple[list[str], list[str]]:
    """Of the steps with a kernel those that `ladder profile` has recorded, and the others."""
    own = [step for step in steps if not is_library(step)]
    recorded = [step for step in own if (context.recorded(step) / f"{step}.json").exists()]
    return recorded, [step for step in own if step not in recorded]


def calibrate(
    steps: list[str], context: Context, say: Callable[[str], None] = lambda _: None
) -> Iterator[Outcome]:
    """Each step at each observed problem: the context's X-rays against its evidence."""
    differences = read_differences(context.recorded())
    for step in steps:
        if grid_depends_on_device(step):
            continue
        path = context.recorded(step) / f"{step}.json"
        for run in read_json(path, "; record it with ladder profile")["runs"]:
            problem = (run["m"], run["n"], run["k"])
            if problem in OBSERVED:
                name, xray = "x".join(map(str, problem)), context.xray_record(step, *problem)
                yield compare(step, name, of_gpu(run), of_cpu(xray, run["kernel"]), differences, say)


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--build", default=BUILD, type=Path)
    parser.add_argument("--evidence", type=Path, help="the directory of all records [docs/evidence/<gpu>]")
    parser.add_argument("--steps", default="", help="names, separated by commas; from 01 on if left out")
    parser.add_argument("--verbose", action="store_true", help="each step and each listed difference")
    args = parser.parse_args()
    context = Context(args.build, "", evidence=args.evidence)
    recorded, missing = steps_recorded(all_steps(), context)
    steps = chosen(args.steps.split(","), [*recorded, *missing], "step") if args.steps else recorded
    if not steps:
        raise UsageError(f"{context.recorded()} has no record of any step; record them with ladder profile")
    say = print if args.verbose else lambda _: None
    equal = listed = wrong = 0
    try:
        for o in calibrate(steps, context, say):
            say(f"{o.step} {o.problem}: {o.equal} equal, {o.listed} listed")
            equal, listed, wrong = equal + o.equal, listed + o.listed, wrong + len(o.wrong)
            for line in o.wrong:
                print(f"WRONG {line}")
    except NotAvailable as reason:
        raise UsageError(reason, SKIPPED) from None
    if missing and not args.steps:
        print(f"not recorded yet: {', '.join(missing)}")
    print(
        f"{equal} memory instructions of the GPU agree with the CPU device in requests, bytes, sectors and "
        f"wavefronts; {listed} differ for listed reasons; {wrong} differences are not explained"
    )
    return 1 if wrong else 0
