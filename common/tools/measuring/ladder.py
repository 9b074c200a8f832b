"""Measures every step on the device at hand and shows the ladder.

Each step's program alternates with cuBLAS and gives the ratio of the two times; a record is an object of its
`--json`. Without a GPU the steps run on the CPU device, whose times say nothing about a GPU. The
plot is drawn beside the JSON.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

from tools.base import (
    BUILD,
    Parser,
    UsageError,
    chosen,
    progress,
    read_json,
    read_text,
    write_json,
    write_whole,
)
from tools.measuring.plot import svg
from tools.measuring.table import by_precision, terminal_table

SIZES = {
    "gpu": (256, 512, 1000, 1023, 1024, 2048, 4092, 4095, 4096, 8192, 16384),
    "cpu": (128, 256, 512),
}
BATCHED = "--size 1000 --batch 100"  # on a GPU
NO_GPU = 3  # a program's exit status where there is no GPU, or none that can run the step

Record = dict[str, Any]


def load(path: Path) -> list[Record]:
    """The records of a file that `record` wrote."""
    wanted = {"step", "m", "n", "k", "batch", "device", "device_kind", "date", "pass", "time_us"}
    records = read_json(path, "; record it with ladder measure")
    whole = isinstance(records, list) and all(isinstance(r, dict) and wanted <= r.keys() for r in records)
    if not whole or not records:
        raise UsageError(f"{path}: holds no records of a ladder; record them with ladder measure")
    return records


def numbers(text: str) -> list[int]:
    """The sizes of an option's value, N,N,..."""
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        raise UsageError(f"--sizes is '{text}'; give sizes, e.g. 1024,4096")
    return [int(number) for number in text.split(",")]


# ---- Measuring -------------------------------------------------------------------------------------------


def choose_steps(build: Path, wanted: str) -> list[str]:
    """The steps of the build, or those named; a name may be cut short, as in 05."""
    built = sorted(path.parent.name for path in build.glob("steps/*/run"))
    if not built:
        raise UsageError(f"no step is built in {build}; run `meson compile -C {build}` first")
    return chosen(wanted.split(","), built, f"step in {build}") if wanted else built


def run_step(program: Path, options: list[str], cases: list[str]) -> list[Record]:
    with tempfile.TemporaryDirectory() as folder:
        listed, out = Path(folder) / "cases.txt", Path(folder) / "out.json"
        listed.write_text("\n".join(cases) + "\n")
        command = [str(program), "--cases", str(listed), "--json", str(out), *options]
        try:
            result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as error:
            raise UsageError(f"{program}: cannot be run: {error.strerror}") from None
        if status := result.returncode:
            errors = [line for line in result.stdout.splitlines() if line.startswith("error: ")]
            said = "\n".join(errors or [result.stdout.strip() or "it printed nothing"])
            if status == NO_GPU:
                raise refused_by_gpu(said)
            said = said.removeprefix("error: ")
            raise UsageError(f"{program.parent.name} ended with exit status {status}: {said}", max(status, 1))
        return json.loads(out.read_text())


def on_this_gpu(build: Path, steps: list[str]) -> list[str]:
    """Those that the GPU at hand can run; what is left out is said. UsageError if the first one cannot, as
    where there is no GPU."""
    found: list[str] = []
    for step in steps:
        program = build / "steps" / step / "run"
        command = [str(program), "--device", "gpu", "--repeat", "0", "--size", "16"]
        try:
            result = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise UsageError(f"{program}: cannot be run: {error.strerror}; build it first") from None
        if result.returncode != NO_GPU:
            found.append(step)  # if it fails otherwise, what comes will say so
        elif not found:
            raise refused_by_gpu(result.stderr)
        else:
            print(f"left out: {step}: {refused_by_gpu(result.stderr)}", file=sys.stderr)
    return found


def refused_by_gpu(said: str) -> UsageError:
    """What a program has said that ended with NO_GPU."""
    return UsageError(said.strip().removeprefix("error: ").removesuffix("; use --device cpu"), NO_GPU)


def merge(old: Iterable[Record], new: Iterable[Record]) -> list[Record]:
    """Both, in order; a new record replaces the old one of the same step and problem."""
    key = itemgetter("step", "batch", "m", "n", "k")
    records = {key(r): r for r in [*old, *new]}
    return [records[k] for k in sorted(records)]


def record(args: argparse.Namespace) -> None:
    steps = choose_steps(args.build, args.steps)
    sizes = numbers(args.sizes) if args.sizes else None
    records = load(args.out) if args.append and args.out.exists() else []
    device = args.device
    if device == "auto":  # what a program takes when it may choose
        program = args.build / "steps" / steps[0] / "run"
        device = run_step(program, ["--repeat", "0"], ["--size 16"])[0]["device_kind"]
    if device == "cpu" and max(sizes or [0]) > max(SIZES["cpu"]):
        print("on the CPU device, which simulates: large sizes take minutes to hours each", file=sys.stderr)
    cases = [f"--size {size}" for size in sizes or SIZES[device]]
    if device == "gpu" and not args.steps:
        steps = on_this_gpu(args.build, steps)
    if device == "gpu" and not args.sizes:
        cases.append(BATCHED)
    if args.cases:
        cases = [line for line in read_text(args.cases).splitlines() if line.strip()[:1] not in ("", "#")]
        if not cases:
            raise UsageError(f"{args.cases} holds no problem; give lines such as --m 64 --n 32 --k 16")
    options = ["--device", device] + (["--repeat", str(args.repeat)] if args.repeat is not None else [])
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for index, step in enumerate(steps):
        progress(index, len(steps), step)
        new = run_step(args.build / "steps" / step / "run", options, cases)
        if records and records[0]["device"] != new[0]["device"]:
            raise UsageError(
                f"{args.out} is of {records[0]['device']}, not {new[0]['device']}; leave out --append"
            )
        # Written after each step: what was measured is not lost if a later one fails.
        records = merge(records, new)
        write_json(args.out, records)
    progress(len(steps), len(steps), "done")
    print(terminal_table(records, sizes))
    if device == "gpu":
        for picture, of_kind in pictures(args.out.with_suffix(".svg"), records):
            try:
                write_whole(picture, svg(of_kind))
                print(f"wrote {args.out} and {picture}")
            except UsageError as error:
                print(f"wrote {args.out}; no plot: {error}")


def pictures(path: Path, records: list[Record]) -> Iterator[tuple[Path, list[Record]]]:
    """Where the plot of each precision goes, and what it shows: the first at PATH, of TF32 at PATH_tf32."""
    for number, (kind, of_kind) in enumerate(by_precision(records).items()):
        yield path.with_stem(f"{path.stem}_{kind.lower()}") if number else path, of_kind


# ---- The verbs -------------------------------------------------------------------------------------------


def measure() -> int:
    parser = Parser(f"{__doc__}\nExample: ladder measure --sizes 1024,4096 --out my_ladder.json")
    parser.add_argument("--build", default=BUILD, type=Path, help="the build directory [build]")
    parser.add_argument("--out", default="ladder.json", type=Path, help="where the records go [ladder.json]")
    parser.add_argument("--append", action="store_true", help="keep the file's other records")
    parser.add_argument("--device", choices=("auto", "gpu", "cpu"), default="auto")
    parser.add_argument("--steps", default="", help="e.g. 05,06 [all that are built]")
    parser.add_argument("--sizes", default="", help="M = N = K, e.g. 512,4096 [by device]")
    parser.add_argument(
        "--cases", type=Path, help="a file of problems, as of `run --cases`, instead of sizes"
    )
    parser.add_argument("--repeat", type=int, help="timed repetitions [GPU 20, CPU 1]")
    record(parser.parse_args())
    return 0


def draw_plots() -> int:
    parser = Parser(
        "Draws a recorded ladder's plots beside the record, or (--check) sees whether they are there.\n\n"
        "Example: ladder plot docs/evidence/h200/ladder.json"
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    for path, of_kind in pictures(args.file.with_suffix(".svg"), load(args.file)):
        new = svg(of_kind)
        if path.exists() and read_text(path) == new:
            continue
        if args.check:
            raise UsageError(f"{path} and {args.file} disagree; run ladder plot {args.file}", status=1)
        write_whole(path, new)
    return 0
