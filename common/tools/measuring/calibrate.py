"""Holds the CPU device's X-ray against what Nsight Compute counted on a GPU, instruction by instruction.

  ladder calibrate --steps 07_bank_conflicts,08_warp_tiling --verbose

For each problem that `ladder profile` records for this purpose, and each kernel: the machine's instructions
that access memory are grouped by source line, kind (global or shared; load, store or asynchronous copy) and
width, as are the rows of `run --xray`. Requests, sectors and wavefronts of both must be equal. Where the
compiler did something that the source does not say, differences.toml beside the evidence lists the
difference with its reason and with what must hold instead; a difference that is not listed, or that no
longer exists, is an error.

Exit status: 0 all agree or are listed; 1 they do not; 2 bad usage; 77 the build cannot observe.
"""

import json
import subprocess
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tools.base import BUILD, EVIDENCE, ROOT, Parser, UsageError
from tools.machine_code.listing import parse_instruction
from tools.measuring.counters_record import OBSERVED, Problem

KINDS = {  # of an instruction: where it accesses memory, and how
    "LDG": (("global",), "load"),
    "STG": (("global",), "store"),
    "LDS": (("shared",), "load"),
    "STS": (("shared",), "store"),
    "LDGSTS": (("global", "shared"), "copy"),
}
SKIPPED = 77
QUANTITIES = ("requests", "bytes", "sectors", "wavefronts", "ideal")


class CalibrationError(UsageError):
    """What the user must see, in one line."""


class Key(NamedTuple):
    """One kind of access at one line of the source."""

    line: int
    space: str
    operation: str
    width: int  # bytes of a lane


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
            traffic = side[Key(item["line"], space, operation, width)]
            traffic["instructions"] += space == spaces[0]
            traffic.update(requests=item["executed"], bytes=item.get("thread_executed", 0) * width)
            if space == "global":
                traffic.update(sectors=item.get("sectors", 0))
            else:
                traffic.update(wavefronts=item.get("wavefronts", 0), ideal=item.get("ideal_wavefronts", 0))
    return side


def of_cpu(xray: dict[str, Any]) -> Side:
    side: Side = defaultdict(Counter)
    for row in (row for kernel in xray["kernels"] for row in kernel["accesses"]):
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
    problems: list[str]  # "256x256x128"
    lines: list[str]  # pieces of source lines
    space: str
    operation: str
    equal: list[str]  # of QUANTITIES
    reason: str

    def line_numbers(self) -> set[int]:
        source = (ROOT / "steps" / self.step / "kernel.cu").read_text(encoding="utf-8").splitlines()
        found = set()
        for piece in self.lines:
            numbers = [number for number, line in enumerate(source, 1) if piece in line]
            if len(numbers) != 1:
                raise CalibrationError(
                    f"differences.toml: {self.step} has {len(numbers)} lines with '{piece}'"
                )
            found.add(numbers[0])
        return found


def read_differences(path: Path) -> list[Difference]:
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("difference", [])
        differences = [Difference(**entry) for entry in entries]
    except (OSError, tomllib.TOMLDecodeError, TypeError) as error:
        raise CalibrationError(f"{path}: {error}") from None
    for d in differences:
        if not d.reason.strip() or not set(d.equal) < set(QUANTITIES):
            raise CalibrationError(f"{path}: {d.step}: give a reason, and some of {QUANTITIES} as equal")
    return differences


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


def xray_of(build: Path, step: str, problem: Problem) -> dict[str, Any]:
    program = build / "steps" / step / "run"
    if not program.exists():
        raise CalibrationError(f"{program} is not built; run `meson compile -C {build}`")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "xray.json"
        m, n, k = map(str, problem)
        command = [str(program), "--xray", "--m", m, "--n", n, "--k", k, "--json", str(report)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 3:
            raise CalibrationError(result.stderr.strip().removeprefix("error: "), SKIPPED)
        if result.returncode != 0:
            raise CalibrationError(f"{' '.join(command)}: {result.stderr.strip() or result.stdout.strip()}")
        return json.loads(report.read_text())[0]["xray"]


def calibrate(
    steps: list[str],
    evidence: Path,
    xray: Callable[[str, Problem], dict[str, Any]],
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Outcome]:
    """Each step at each observed problem. `xray` gives a step's X-ray of a problem."""
    differences = read_differences(evidence / "differences.toml")
    for step in steps:
        try:
            record = json.loads((evidence / f"{step}.json").read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise CalibrationError(
                f"{evidence / step}.json: {error}; record it with ladder profile"
            ) from None
        for run in record["runs"]:
            problem = (run["m"], run["n"], run["k"])
            if problem in OBSERVED:
                name = "x".join(map(str, problem))
                yield compare(step, name, of_gpu(run), of_cpu(xray(step, problem)), differences, say)


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--build", default=BUILD, type=Path)
    parser.add_argument("--evidence", default=EVIDENCE, type=Path)
    parser.add_argument("--steps", default="", help="names, separated by commas; from 01 on if left out")
    parser.add_argument("--verbose", action="store_true", help="each step and each listed difference")
    args = parser.parse_args()
    every = [path.parent.name for path in sorted((ROOT / "steps").glob("*/kernel.cu"))]
    steps = args.steps.split(",") if args.steps else [step for step in every if step != "00_cublas"]
    if unknown := [step for step in steps if step not in every]:
        raise CalibrationError(f"there is no step '{unknown[0]}'; there are {', '.join(every)}")
    say = print if args.verbose else lambda _: None
    equal = listed = wrong = 0
    for o in calibrate(steps, args.evidence, lambda *problem: xray_of(args.build, *problem), say):
        say(f"{o.step} {o.problem}: {o.equal} equal, {o.listed} listed")
        equal, listed, wrong = equal + o.equal, listed + o.listed, wrong + len(o.wrong)
        for line in o.wrong:
            print(f"WRONG {line}")
    print(
        f"{equal} memory instructions of the GPU agree with the CPU device in requests, bytes, sectors and "
        f"wavefronts; {listed} differ for listed reasons; {wrong} differences are not explained"
    )
    return 1 if wrong else 0
