"""Grades on a GPU: the right results there, and the speed. Standard library only.

The judge has the clock: it times each product of the student's program from another process, right after
another run of it, which wakes the GPU up, and looks at its result. Times compare only if they are taken
together, so the program and the step that it is measured against run in turn; what a product takes that has
next to nothing to compute is not the kernel's, and is taken off.
"""

import statistics
from functools import cache
from pathlib import Path

from tools.base import ROOT, UsageError
from tools.grading.build import Built, Toolchain
from tools.grading.content import Exercise
from tools.grading.finding import Failed, Finding
from tools.grading.run import Problem, run
from tools.grading.source import read
from tools.grading.words import ended_finding, wrong_finding
from tools.measuring.ladder import run_step

SIZE = 4096
ROUNDS, SAMPLES = 2, 6
SECONDS = 60  # of processor time for a problem: CUDA starts slowly
TOTAL_S = 300  # by the clock, for all problems of a run
ON_GPU = ("--device", "gpu", "--repeat", "0")


def gpu_here(build: Path, toolchain: Toolchain) -> tuple[str | None, str]:
    """The name of the GPU that can run this step, or None and why there is none."""
    if not toolchain.has_nvcc:
        return None, "no GPU: this build has no nvcc"
    return _probe(build / "steps" / toolchain.step / "run")


@cache
def _probe(program: Path) -> tuple[str | None, str]:
    try:
        return run_step(program.absolute(), [*ON_GPU], ["--size 8"])[0]["device"], ""
    except UsageError as error:
        return None, str(error)


def compile_step(build: Path, step: str) -> Built:
    """A step, to be measured beside a student's kernel."""
    kernel = (ROOT / "steps" / step / "kernel.cu").read_text(encoding="utf-8")
    return Toolchain(build, step).compile(read(kernel, kernel), kernel, gpu=True)


def check_on_gpu(
    exercise: Exercise, built: Built, over: Built | None, problems: list[Problem], file: str, notes: list[str]
) -> None:
    """Notes what is right on the GPU. over: the step that the kernel must beat. Raises Failed with the first
    thing that is not."""
    large = [*problems, Problem("--m 1023 --n 1025 --k 511 --seed 77"), Problem("--size 1024 --seed 78")]
    _run(built, large, file)
    times: dict[Built, list[float]] = {program: [] for program in (over or built, built)}
    for _ in range(ROUNDS):  # in turn, so that both see the same clocks
        for program, taken in times.items():
            taken += _times(program, SIZE, file)
    nothing = statistics.median(_times(over or built, 8, file))  # of a program that we know, if there is one
    took = {program: statistics.median(taken) - nothing for program, taken in times.items()}
    notes.append(f"{took[built] / 1000:.2f} ms at {SIZE}")
    if over is not None and exercise.speed is not None:
        speed, faster = exercise.speed, took[over] / took[built]
        if faster < speed.at_least:
            says = (
                f"Right, but not fast enough: {faster:.2f} times as fast as {speed.over} at {SIZE} on this "
            )
            says += f"GPU; at least {speed.at_least:g} times is asked for."
            look = f"docs/steps/{exercise.step}.md, and the X-ray of your kernel."
            raise Failed(Finding("speed", says, 0, [f"It takes {took[built] / 1000:.2f} ms."], look))
        notes.append(f"{faster:.2f} times as fast as {speed.over} (at least {speed.at_least:g})")


def _times(program: Built, size: int, file: str) -> list[float]:
    """Of some square products, each with the way from the judge to the program and back, microseconds."""
    problems = [Problem(f"--m {size} --n {size} --k {size} --seed {seed}") for seed in range(5, 6 + SAMPLES)]
    return [record["time_us"] for record in _run(program, problems, file)][1:]  # the first warms up


def _run(built: Built, problems: list[Problem], file: str) -> list[dict]:
    """The records of problems that are computed rightly. Raises Failed."""
    outcome = run(built, problems, *ON_GPU, seconds=SECONDS, gpu=True, source=file, total=TOTAL_S)
    if outcome.crash:
        finding = ended_finding(outcome, file)
        finding.says = f"On the GPU: {finding.says}"
        raise Failed(finding)
    for record, problem in zip(outcome.records, problems, strict=True):
        if not record["pass"]:
            finding = wrong_finding((record["complaints"] or ["wrong result"])[0], problem)
            finding.says = f"Right on the CPU device, but not on the {record['device']}. {finding.says}"
            raise Failed(finding)
    return outcome.records
