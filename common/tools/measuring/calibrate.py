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
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import BUILD, EVIDENCE, ROOT, Parser, UsageError
from tools.machine_code.identity import opcode_of
from tools.measuring.counters_record import OBSERVED

SKIPPED = 77
KINDS = {  # of the first part of an opcode
    "LDG": ("global", "load"),
    "STG": ("global", "store"),
    "LDS": ("shared", "load"),
    "STS": ("shared", "store"),
    "LDGSTS": ("both", "copy"),
}


class CalibrationError(UsageError):
    """What the user must see, in one line."""


@dataclass
class Traffic:
    """What one kind of access at one line of the source did, in all."""

    instructions: int = 0  # of the machine; 0 on the CPU device
    requests: int = 0
    bytes: int = 0  # that the lanes asked for
    sectors: int = 0
    wavefronts: int = 0
    ideal: int = 0

    def add(self, **counts: int) -> None:
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)

    def __str__(self) -> str:
        parts = [f"{self.requests} requests"]
        parts += [f"{self.sectors} sectors"] if self.sectors else []
        parts += [f"{self.wavefronts} wavefronts (ideal {self.ideal})"] if self.wavefronts else []
        return ", ".join(parts) or "nothing"


Key = tuple[int, str, str, int]  # line, space, operation, bytes of a lane


@dataclass
class Side:
    groups: dict[Key, Traffic] = field(default_factory=lambda: defaultdict(Traffic))
    arrays: dict[tuple[Key, str], Traffic] = field(default_factory=lambda: defaultdict(Traffic))


def width_of(opcode: str) -> int:
    parts = opcode.split(".")
    return 16 if "128" in parts else 8 if "64" in parts else 4


def of_gpu(run: dict[str, Any]) -> Side:
    side = Side()
    for item in run["instructions"]:
        opcode = opcode_of(item["sass"])
        kind = KINDS.get(opcode.split(".")[0])
        if kind is None or "executed" not in item or item["sass"].startswith("@!PT"):  # filler, never done
            continue
        width, spaces = width_of(opcode), ("global", "shared") if kind[0] == "both" else (kind[0],)
        for number, space in enumerate(spaces):
            traffic = side.groups[(item["line"], space, kind[1], width)]
            traffic.add(requests=item["executed"], bytes=item.get("thread_executed", 0) * width)
            traffic.add(instructions=1 if number == 0 else 0)
            if space == "global":
                traffic.add(sectors=item.get("sectors", 0))
            else:
                traffic.add(wavefronts=item.get("wavefronts", 0), ideal=item.get("ideal_wavefronts", 0))
    return side


def of_cpu(xray: dict[str, Any]) -> Side:
    side = Side()
    for kernel in xray["kernels"]:
        for row in kernel["accesses"]:
            key = (row["line"], row["space"], row["operation"], row["bytes"])
            for traffic in (side.groups[key], side.arrays[(key, row["array"])]):
                traffic.add(requests=row["requests"], bytes=row["lanes"] * row["bytes"])
                if row["space"] == "global":  # its wavefronts are not counted by instruction on the GPU
                    traffic.add(sectors=row["sectors"])
                else:
                    traffic.add(wavefronts=row["wavefronts"], ideal=row["ideal_wavefronts"])
    return side


QUANTITIES = ("requests", "bytes", "sectors", "wavefronts", "ideal")


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
    used: int = 0  # instructions that it covers

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
    for difference in differences:
        if not difference.reason.strip() or not set(difference.equal) < set(QUANTITIES):
            raise CalibrationError(
                f"{path}: {difference.step}: give a reason, and some of {QUANTITIES} as equal"
            )
    return differences


def sums(side: Side, lines: set[int], difference: Difference) -> Traffic:
    total = Traffic()
    for (line, space, operation, _), traffic in side.groups.items():
        if line in lines and (space, operation) == (difference.space, difference.operation):
            total.add(**vars(traffic))
    return total


def compare(
    step: str, problem: str, gpu: Side, cpu: Side, differences: list[Difference], say: Any
) -> tuple[int, int, list[str]]:
    """How many of the machine's instructions agree, how many are listed, and what is wrong."""
    equal = listed = 0
    wrong: list[str] = []
    open_keys: set[Key] = set()
    for key in sorted(gpu.groups.keys() | cpu.groups.keys()):
        there, here = gpu.groups.get(key, Traffic()), cpu.groups.get(key, Traffic())
        if all(getattr(there, name) == getattr(here, name) for name in QUANTITIES):
            equal += there.instructions
        else:
            open_keys.add(key)
    for difference in differences:
        if difference.step != step or problem not in difference.problems:
            continue
        lines = difference.line_numbers()
        covered = {
            key
            for key in open_keys
            if key[0] in lines and key[1:3] == (difference.space, difference.operation)
        }
        there, here = sums(gpu, lines, difference), sums(cpu, lines, difference)
        unequal = [name for name in difference.equal if getattr(there, name) != getattr(here, name)]
        name = f"{step} {problem} line {', '.join(map(str, sorted(lines)))} {difference.operation}"
        if unequal:
            wrong.append(f"{name}: {', '.join(unequal)} should be equal: GPU {there}; CPU device {here}")
        if not covered:
            wrong.append(f"{name}: is listed as different, but nothing differs; remove it")
        count = sum(gpu.groups[key].instructions for key in covered if key in gpu.groups)
        difference.used += count
        listed += count
        open_keys -= covered
        say(f"listed {name}: GPU {there}; CPU device {here}\n       {difference.reason}")
    for key in sorted(open_keys):
        line, space, operation, width = key
        there, here = gpu.groups.get(key, Traffic()), cpu.groups.get(key, Traffic())
        place = f"{step} {problem} line {line}: {space} {operation} of {width} bytes"
        wrong.append(f"{place}: GPU {there}; CPU device {here}; not listed")
    return equal, listed, wrong


def xray_of(build: Path, step: str, problem: tuple[int, int, int]) -> dict[str, Any]:
    program = build / "steps" / step / "run"
    if not program.exists():
        raise CalibrationError(f"{program} is not built; run `meson compile -C {build}`")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "xray.json"
        options = [
            word for pair in zip(("--m", "--n", "--k"), map(str, problem), strict=True) for word in pair
        ]
        command = [str(program), "--xray", *options, "--json", str(report)]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode == 3:
            print(f"skipped: {result.stderr.strip()}")
            sys.exit(SKIPPED)
        if result.returncode != 0:
            raise CalibrationError(f"{' '.join(command)}: {result.stderr.strip() or result.stdout.strip()}")
        return json.loads(report.read_text())[0]["xray"]


@dataclass
class Outcome:
    """Of one step at one problem: instructions that agree, those listed as different, what is wrong."""

    step: str
    problem: str  # "256x256x128"
    equal: int
    listed: int
    wrong: list[str]


def calibrate(
    steps: list[str],
    evidence: Path,
    xray: Callable[[str, tuple[int, int, int]], dict[str, Any]],
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Outcome]:
    """Each step at each observed problem. `xray` gives a step's X-ray of a problem M, N, K."""
    differences = read_differences(evidence / "differences.toml")
    for step in steps:
        try:
            record = json.loads((evidence / f"{step}.json").read_text())
        except (OSError, json.JSONDecodeError) as error:
            raise CalibrationError(f"{evidence / step}.json: {error}; record it with profile.py") from None
        for run in record["runs"]:
            problem = (run["m"], run["n"], run["k"])
            if problem not in OBSERVED:
                continue
            name = "x".join(map(str, problem))
            result = compare(step, name, of_gpu(run), of_cpu(xray(step, problem)), differences, say)
            yield Outcome(step, name, *result)


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--build", default=BUILD)
    parser.add_argument("--evidence", default=EVIDENCE)
    parser.add_argument("--steps", default="", help="names, separated by commas; from 01 on if left out")
    parser.add_argument("--verbose", action="store_true", help="each step and each listed difference")
    args = parser.parse_args()
    every = [path.parent.name for path in sorted((ROOT / "steps").glob("*/kernel.cu"))]
    steps = args.steps.split(",") if args.steps else [step for step in every if step != "00_cublas"]
    if unknown := [step for step in steps if step not in every]:
        raise CalibrationError(f"there is no step '{unknown[0]}'; there are {', '.join(every)}")
    equal = listed = 0
    wrong: list[str] = []

    def say(line: str) -> None:
        if args.verbose:
            print(line)

    def xray(step: str, problem: tuple[int, int, int]) -> dict[str, Any]:
        return xray_of(Path(args.build), step, problem)

    for outcome in calibrate(steps, Path(args.evidence), xray, say):
        say(f"{outcome.step} {outcome.problem}: {outcome.equal} equal, {outcome.listed} listed")
        equal, listed, wrong = equal + outcome.equal, listed + outcome.listed, wrong + outcome.wrong
    for line in wrong:
        print(f"WRONG {line}")
    print(
        f"{equal} memory instructions of the GPU agree with the CPU device in requests, bytes, sectors and "
        f"wavefronts; {listed} differ for listed reasons; {len(wrong)} differences are not explained"
    )
    return 1 if wrong else 0
