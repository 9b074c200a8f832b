"""Has a student's program compute problems, and reads what the judge says of it. Standard library only."""

import json
import random
import re
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from tools.base import EMULATOR, ROOT, read_text
from tools.claims.context import STANDARD_PROBLEM
from tools.claims.objects import rows_of
from tools.grading.budget import FILE_S, PATIENCE
from tools.grading.build import Built
from tools.grading.content import precisions
from tools.grading.isolation import Limits, confined, environment

SECONDS, SECONDS_XRAY = 2 * PATIENCE, 20 * PATIENCE  # of processor time for a problem, and for its X-ray
UNPACKED = ROOT / ".packages"  # where setup.sh --no-root and --arm64 put libraries
ENDLESS = "did not finish in time"


@dataclass(frozen=True)
class Problem:
    """One product, as options of `run`. hidden: its sizes were drawn by lot."""

    options: str
    hidden: bool = False

    def __str__(self) -> str:
        """ "M = 35, N = 79, K = 19, beta = -0.5"."""
        pairs = re.findall(r"--([\w-]+) (\S+)", self.without_seed)
        return ", ".join(f"{name.upper() if name in 'mnk' else name} = {value}" for name, value in pairs)

    @property
    def without_seed(self) -> str:
        return re.sub(r" *--seed \d+", "", self.options)


@dataclass(frozen=True)
class Outcome:
    """records: the JSON record of each problem that was finished. crash: "" or what ended the program before
    that, ENDLESS if the time was up. at: the problem that it was at."""

    records: list[dict[str, Any]]
    crash: str = ""
    at: Problem | None = None


# Every kind of edge in as few and as small problems as possible, as each access is checked.
OBSERVED = (
    "--m 35 --n 79 --k 19",
    "--m 64 --n 64 --k 64",
    "--m 64 --n 64 --k 40 --beta 2",
    "--m 33 --n 31 --k 9 --alpha -0.5 --beta -0.5",
    "--m 5 --n 7 --k 0 --beta -0.5",
    "--m 35 --n 79 --k 19 --lda 23 --ldb 83 --ldc 97",
    "--m 129 --n 131 --k 17",
    "--m 33 --n 32 --k 20 --batch 2",
    "--m 1 --n 1 --k 1",
    # Sizes or all leading dimensions but one are multiples of 4: each has to be asked for.
    "--m 36 --n 40 --k 20 --lda 21 --ldb 44 --ldc 48",
    "--m 36 --n 40 --k 20 --lda 24 --ldb 41 --ldc 44",
    "--m 36 --n 40 --k 20 --lda 24 --ldb 44 --ldc 41",
    "--m 36 --n 42 --k 20 --lda 24 --ldb 44 --ldc 44 --beta 2",
    "--m 36 --n 40 --k 18 --lda 20 --ldb 44 --ldc 44",
    "--m 33 --n 40 --k 20 --ldc 41 --batch 2",
    "--m 33 --n 40 --k 21 --ldb 41 --batch 2",
    "--m 8 --n 8 --k 392",  # aligned as BF16, too, with more k-tiles than a pipeline has stages
)


MOST_TILES = 4  # of 32 x 32 elements and as many terms, of a shape of the table


def shape_table() -> list[str]:
    """The small ones of tests/shapes.txt, in memory as cudaMalloc gives it."""
    lines = (line.split("#")[0].strip() for line in read_text(ROOT / "tests" / "shapes.txt").splitlines())
    shapes = [line for line in lines if line and not re.search("--(stride|offset)-", line)]
    return [shape for shape in shapes if _tiles(shape) <= MOST_TILES]


def _tiles(shape: str) -> int:
    sizes = re.findall(r"--(?:[mnk]|batch) (\d+)", shape)
    return prod(max(-(-int(size) // 32), 1) for size in sizes[:3]) * int((sizes[3:] or [1])[0])


def random_problem(chooser: random.Random, largest: int, deepest: int) -> str:
    """Sizes that nobody can know beforehand; now and then all multiples of 4, for the fast paths."""
    m, n, k = (chooser.randint(1, limit) for limit in (largest, largest, deepest))
    if chooser.random() < 0.4:
        m, n, k = m, (n + 3) // 4 * 4, (k + 3) // 4 * 4
    text = f"--m {m} --n {n} --k {k}"
    if chooser.random() < 0.5:
        text += f" --alpha {chooser.choice((-0.5, 2, 0.75))} --beta {chooser.choice((1, -0.5, 2))}"
    if chooser.random() < 0.3:
        text += f" --lda {k + chooser.randint(1, 9)} --ldb {n + chooser.randint(1, 9)}"
        text += f" --ldc {n + chooser.randint(1, 9)}"
    return text


def long_problem(chooser: random.Random, longest: str) -> str:
    """One of M, N and K is large: this reveals, at little cost, what happens from some size on."""
    sizes = {name: chooser.randint(1, 24) for name in "mnk"}
    sizes[longest] = chooser.randint(310, 450 if longest == "k" else 700)
    return " ".join(f"--{name} {size}" for name, size in sizes.items())


def with_seed(shape: str, chooser: random.Random, hidden: bool = True) -> Problem:
    """With numbers of its own."""
    return Problem(f"{shape} --seed {chooser.randrange(1, 1 << 31)}", hidden)


def small_problems(chooser: random.Random) -> list[Problem]:
    """Small ones, of every kind of edge, and some of random sizes."""
    drawn = [long_problem(chooser, name) for name in "mnk"]
    drawn += [random_problem(chooser, *limits) for limits in ((150, 60), *[(70, 40)] * 3)]
    return [
        with_seed(shape, chooser, shape in drawn)
        for shape in dict.fromkeys((*OBSERVED, *shape_table(), *drawn))
    ]


# Just below these sizes, which tiles divide, edges waste little: some above those whose accesses are counted
# otherwise, with few terms, so that they take no longer, and one below.
TALL, WIDE, BELOW = (512, 256, 32), (256, 512, 32), (128, 128, 64)


def ragged_problem(chooser: random.Random, below: tuple[int, int, int]) -> Problem:
    """Not a multiple of anything, but takes as many tiles as if it were `below`."""
    m, n = (size - 2 * chooser.randint(1, 4) + 1 for size in below[:2])
    return with_seed(f"--m {m} --n {n} --k {below[2] - 1}", chooser)


def aligned_problem(chooser: random.Random, unit: int) -> Problem:
    """M and N are multiples of the unit, and others than the standard problem's where there are such for the
    work. K is a multiple of 64, and larger than there: what happens once, before or after the loop, must not
    count more."""
    m, n, k = STANDARD_PROBLEM
    # Above 2^25 products the X-ray looks at a sample only; small units need fewer for as many choices.
    most = {64: 1 << 21, 128: 3 << 21}.get(unit, 1 << 25)
    sizes = [
        (a, b, c)
        for a, b in product((unit, 2 * unit, 3 * unit), repeat=2)
        for c in range(k + 64, 10 * 64 + 1, 64)
        if (a, b) != (m, n) and a * b * c <= most
    ]
    m, n, k = chooser.choice(sizes)
    return with_seed(f"--m {m} --n {n} --k {k}", chooser)


def run(
    built: Built, problems: list[Problem], *options: str, seconds: float = 0, gpu: bool = False,
    source: str = "", total: float = FILE_S,
) -> Outcome:  # fmt: skip
    """Has all problems computed by the student's program and judged by another. seconds: of processor time,
    for one problem, if not as usual; source: what to call the student's file in messages; total: seconds by
    the clock for all problems."""
    worker = built.folder / ("worker_gpu" if gpu else "worker")
    seconds = seconds or (SECONDS_XRAY if "--xray" in options else SECONDS)
    limits = Limits(cpu_s=600, memory=None if gpu or EMULATOR else 4 << 30, file=1 << 20)
    readable = [built.folder, *([UNPACKED] if UNPACKED.exists() else [])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cases, out = folder / "cases", folder / "out.json"
        cases.write_text("".join(f"{problem.options}\n" for problem in problems))
        judge = f"{built.judge}_gpu" if gpu else str(built.judge)
        command = [*EMULATOR, judge, precisions()[built.entry.name], str(seconds), str(max(total, 1))]
        command += ["--cases", str(cases), "--json", str(out), *options]
        command += ["--", *confined([*EMULATOR, str(worker), "device"], limits, readable=readable, gpu=gpu)]
        try:
            ended = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", cwd=folder, start_new_session=True, check=False,
                env=environment(), timeout=2 * total + 60,
            )  # fmt: skip
        except subprocess.TimeoutExpired:  # the judge ends by itself; a grade must not rest on that
            return Outcome([], ENDLESS, problems[0])
        text = named(ended.stdout, worker, source)
        done = re.findall(r"(?:PASS|FAIL|not verified)$", text, re.MULTILINE)
        at = problems[min(len(done), len(problems) - 1)]
        records = []
        with suppress(OSError, ValueError):
            records = json.loads(out.read_text())
        crash = ""
        if len(records) != len(problems) or ended.returncode not in (0, 1):
            last = [line for line in text.splitlines() if line.startswith("error: ")]
            crash = last[-1].removeprefix("error: ") if last else f"it ended with status {ended.returncode}"
        elif "--xray" in options and not all(_has_xray(record) for record in records if record["pass"]):
            crash = "its X-ray cannot be read"
        for record in records:
            record["complaints"] = [named(c, worker, source) for c in record["complaints"] or []]
        return Outcome([], crash, at) if crash else Outcome(records)


def _has_xray(record: dict[str, Any]) -> bool:
    """Whether it has the form of one: it comes from the student's program."""
    with suppress(LookupError, TypeError):
        rows = rows_of(record)
        words = [row[key] for row in rows for key in ("file", "source", "array", "operation", "space")]
        numbers = [row[key] for row in rows for key in ("line", "bytes", "requests", "lanes")]
        return all(isinstance(word, str) for word in words) and all(isinstance(n, int) for n in numbers)
    return False


def named(text: str, program: Path, source: str) -> str:
    """The text with the student's file by its own name in place of the copy that was compiled."""
    copy = str(program.resolve().parent / "kernel.cu")
    for path in (copy, copy.removeprefix(f"{ROOT}/")):
        text = text.replace(path, source or "kernel.cu")
    return text
