"""Grades on a GPU: the right results there, and the speed. Standard library only.

Times compare only if they are taken together: the student's program and the step that it is measured against
run in turn, and cuBLAS runs in turn with each.
"""

import statistics
from functools import cache
from pathlib import Path

from tools.grading.build import BuildError, Built, Toolchain
from tools.grading.content import Exercise
from tools.grading.finding import Failed, Finding
from tools.grading.run import Problem, run
from tools.grading.words import ended_finding, wrong_finding

SIZE = 4096
ROUNDS = 2
TIMEOUT_S = 120
ON_GPU = ("--device", "gpu", "--repeat")


def gpu_here(build: Path, toolchain: Toolchain) -> tuple[str | None, str]:
    """The name of the GPU that can run this step, or None and why there is none."""
    if not toolchain.has_nvcc:
        return None, "this build has no nvcc"
    program = build / "steps" / toolchain.step / "run"
    if not program.exists():
        return None, f"{program} is not built"
    return _probe(program, program.stat().st_mtime_ns)


@cache
def _probe(program: Path, _stamp: int) -> tuple[str | None, str]:
    outcome = run(program, [Problem("--size 8")], *ON_GPU, "0", timeout=TIMEOUT_S)
    if outcome.crash:
        return None, outcome.crash.removeprefix("no GPU: ").removesuffix("; use --device cpu")
    return outcome.records[0]["device"], ""


def check_on_gpu(
    exercise: Exercise, built: Built, build: Path, problems: list[Problem], file: str, notes: list[str]
) -> None:
    """Notes what is well on the GPU. Raises Failed with the first thing that is not."""
    large = [*problems, Problem("--m 1023 --n 1025 --k 511 --seed 77"), Problem("--size 1024 --seed 78")]
    outcome = run(built.folder / "run-gpu", large, *ON_GPU, "0", timeout=TIMEOUT_S, source=file)
    if outcome.crash:
        finding = ended_finding(outcome, file)
        finding.says = f"On the GPU: {finding.says}"
        raise Failed(finding)
    for record, problem in zip(outcome.records, large, strict=True):
        if not record["pass"]:
            finding = wrong_finding((record["complaints"] or ["wrong result"])[0], problem)
            finding.says = f"Right on the CPU device, but not on the {record['device']}. {finding.says}"
            raise Failed(finding)
    _check_speed(exercise, built, build, file, notes)


def _time(program: Path, file: str) -> tuple[dict[str, float], str]:
    """The record of one measurement, or what went wrong."""
    problems = [Problem(f"--m {SIZE} --n {SIZE} --k {SIZE} --seed 5")]
    outcome = run(program, problems, *ON_GPU, "10", timeout=TIMEOUT_S, source=file)
    if outcome.crash:
        return {}, outcome.crash
    record = outcome.records[0]
    return (record, "") if record["pass"] else ({}, (record["complaints"] or ["wrong result"])[0])


def _check_speed(exercise: Exercise, built: Built, build: Path, file: str, notes: list[str]) -> None:
    speed, mine = exercise.speed, built.folder / "run-gpu"
    other = build / "steps" / speed.over / "run" if speed else None
    if other is not None and not other.exists():
        raise BuildError(f"{other} is not built; run `meson compile -C {build}` first")
    times: dict[Path, list[dict[str, float]]] = {p: [] for p in (mine, other) if p is not None}
    for _ in range(ROUNDS if speed else 1):  # in turn, so that both see the same clocks
        for program, records in times.items():
            record, problem = _time(program, file)
            if problem and program is other:
                raise BuildError(f"{program}: {problem}")
            if problem:
                says = f"At {SIZE} x {SIZE} x {SIZE} on the GPU it fails: {problem}."
                look = "offsets that do not fit 32 bits, and the grid's size."
                raise Failed(Finding("gpu", says, look=look))
            records.append(record)
    time_us = statistics.median(record["time_us"] for record in times[mine])
    ratios = [record["ratio_to_cublas"] for record in times[mine] if record["ratio_to_cublas"]]
    against = f", {statistics.median(ratios):.1%} of cuBLAS in the same run" if ratios else ""
    notes.append(f"{time_us / 1000:.2f} ms at {SIZE}{against}")
    if speed is None:
        return
    faster = statistics.median(record["time_us"] for record in times[other]) / time_us
    if faster < speed.at_least:
        says = (
            f"Right, but not fast enough: {faster:.2f} times as fast as {speed.over} at {SIZE} on this GPU; "
            f"at least {speed.at_least:g} times is asked for."
        )
        look = f"docs/steps/{exercise.step}.md, and the X-ray of your kernel."
        raise Failed(Finding("speed", says, 0, [f"It takes {time_us / 1000:.2f} ms{against}."], look))
    notes.append(f"{faster:.2f} times as fast as {speed.over} (at least {speed.at_least:g})")
