"""Grades on a GPU: the right results there, and the speed. Standard library only.

Times compare only if they are taken together: the student's program and the step that it is measured against
run in turn, and cuBLAS runs in turn with each.
"""

import json
import statistics
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from tools.grading.build import BuildError, Built, Toolchain
from tools.grading.content import Exercise
from tools.grading.finding import Finding
from tools.grading.run import Problem, run
from tools.grading.words import ended_finding, wrong_finding

SIZE = 4096
ROUNDS = 2
TIMEOUT_S = 120


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
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [
            str(program.resolve()),
            "--device",
            "gpu",
            "--size",
            "8",
            "--repeat",
            "0",
            "--json",
            str(out),
        ]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            if result.returncode == 0:
                return json.loads(out.read_text())[0]["device"], ""
        except (OSError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
            return None, f"{type(error).__name__} when one was asked for"
    said = result.stderr.strip().splitlines() or ["it cannot be used"]
    return None, said[-1].removeprefix("error: ").removeprefix("no GPU: ").removesuffix("; use --device cpu")


def check_on_gpu(
    exercise: Exercise, built: Built, build: Path, problems: list[Problem], file: str, notes: list[str]
) -> Finding | None:
    """The first thing that is wrong on the GPU; what is well goes to the notes."""
    large = [*problems, Problem("--m 1023 --n 1025 --k 511 --seed 77"), Problem("--size 1024 --seed 78")]
    outcome = run(
        built.gpu_program, large, "--device", "gpu", "--repeat", "0", timeout=TIMEOUT_S, source=file
    )
    if outcome.crash or outcome.timeout:
        finding = ended_finding(outcome, file)
        finding.says = f"On the GPU: {finding.says}"
        return finding
    for record, problem in zip(outcome.records, large, strict=True):
        if not record["pass"]:
            finding = wrong_finding((record["complaints"] or ["wrong result"])[0], problem, False)
            finding.says = f"Right on the CPU device, but not on the {record['device']}. {finding.says}"
            return finding
    return _check_speed(exercise, built, build, file, notes)


def _time(program: Path, file: str) -> tuple[dict[str, float], str]:
    """The record of one measurement, or what went wrong."""
    problems = [Problem(f"--m {SIZE} --n {SIZE} --k {SIZE} --seed 5")]
    outcome = run(program, problems, "--device", "gpu", "--repeat", "10", timeout=TIMEOUT_S, source=file)
    if outcome.timeout:
        return {}, f"did not finish within {TIMEOUT_S} s"
    if outcome.crash:
        return {}, outcome.crash
    record = outcome.records[0]
    return (record, "") if record["pass"] else ({}, (record["complaints"] or ["wrong result"])[0])


def _check_speed(
    exercise: Exercise, built: Built, build: Path, file: str, notes: list[str]
) -> Finding | None:
    speed = exercise.speed
    other = build / "steps" / speed.over / "run" if speed else None
    if other is not None and not other.exists():
        raise BuildError(f"{other} is not built; run `meson compile -C {build}` first")
    mine: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    for _ in range(ROUNDS if speed else 1):  # in turn, so that both see the same clocks
        for program, records in ((built.gpu_program, mine), (other, theirs)):
            if program is None:
                continue
            record, problem = _time(program, file)
            if problem and records is mine:
                return Finding(
                    "gpu", f"At {SIZE} x {SIZE} x {SIZE} on the GPU it fails: {problem}.",
                    look="offsets that do not fit 32 bits, and the grid's size.",
                )  # fmt: skip
            if problem:
                raise BuildError(f"{program}: {problem}")
            records.append(record)
    time_us = statistics.median(record["time_us"] for record in mine)
    ratios = [record["ratio_to_cublas"] for record in mine if record["ratio_to_cublas"]]
    against = f", {statistics.median(ratios):.1%} of cuBLAS in the same run" if ratios else ""
    notes.append(f"{time_us / 1000:.2f} ms at {SIZE}{against}")
    if speed is None:
        return None
    faster = statistics.median(record["time_us"] for record in theirs) / time_us
    if faster < speed.at_least:
        return Finding(
            "speed",
            f"Right, but not fast enough: {faster:.2f} times as fast as {speed.over} at {SIZE} on this GPU; "
            f"at least {speed.at_least:g} times is asked for.",
            0,
            [f"It takes {time_us / 1000:.2f} ms{against}."],
            f"docs/steps/{exercise.step}.md, and the X-ray of your kernel.",
        )
    notes.append(f"{faster:.2f} times as fast as {speed.over} (at least {speed.at_least:g})")
    return None
