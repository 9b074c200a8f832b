"""Grading on a GPU, with programs that stand in for the ones that would run there."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tools.grading.build import Built
from tools.grading.content import Entry, Speed
from tools.grading.finding import graded
from tools.grading.gpu import _probe, check_on_gpu
from tools.grading.run import Problem, run

# What nothing takes is 300 us here.
PROGRAM = """#!{python}
import json, shlex, sys
from pathlib import Path
words = sys.argv[1:]
cases = [" ".join(words)]
if "--cases" in words:
    cases = Path(words[words.index("--cases") + 1]).read_text().splitlines()
records = []
for case in cases:
    options = shlex.split(case)
    get = lambda name: int(options[options.index(name) + 1]) if name in options else 0
    m = get("--m") or get("--size")
    bad = m == {wrong_at}
    records.append(dict(device="Fake GPU", m=m, n=m, k=m, time_us={time_us} * (m > 8) + 300,
                        complaints=["wrong result: 1 of 4 elements; first C[0][0] = 0"] if bad else [],
                        **{{"pass": not bad}}))
    print("row", "FAIL" if bad else "PASS")
Path(words[words.index("--json") + 1]).write_text(json.dumps(records))
sys.exit({status})
"""
PROBLEMS = [Problem("--m 5 --n 5 --k 5 --seed 1"), Problem("--m 7 --n 7 --k 7 --seed 2")]


def fake(path: Path, time_us=100.0, wrong_at=-1, status=0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PROGRAM.format(python=sys.executable, time_us=time_us, wrong_at=wrong_at, status=status))
    path.chmod(0o755)
    return path


@pytest.fixture
def check(tmp_path, exercises):
    def run(speed=None, over_us=1000.0, **mine):
        exercise = replace(exercises["02_coalescing"], speed=speed)
        programs = []  # each with a judge of its own, who makes it up
        for name, says in (("mine", mine), ("over", {"time_us": over_us})):
            fake(tmp_path / name / "judge_gpu", **says)
            programs.append(Built(tmp_path / name, Entry("sgemm", "Gemm"), tmp_path / name / "judge"))
        notes: list[str] = []
        built, over = programs
        with graded() as grade:
            check_on_gpu(exercise, built, over if speed else None, PROBLEMS, "my/02.cu", notes)
        return grade.finding, notes

    return run


@pytest.mark.parametrize(
    ("speed", "faked", "wanted"),
    [
        (5, {"time_us": 100}, ["0.10 ms at 4096", "10.00 times as fast as 01_naive (at least 5)"]),
        (None, {}, ["0.10 ms at 4096"]),
        (None, {"status": 1, "wrong_at": -2}, ["0.10 ms at 4096"]),  # all is well but the exit status
    ],
)
def test_right_and_fast(check, speed, faked, wanted):
    assert check(speed and Speed("01_naive", speed), **faked) == (None, wanted)


@pytest.mark.parametrize(
    ("speed", "faked", "code", "words"),
    [
        (5, {"time_us": 250}, "speed", ["4.00 times as fast as 01_naive", "0.25 ms"]),  # slow
        (None, {"wrong_at": 7}, "wrong result", ["not on the Fake GPU", "M = 7"]),
        (5, {"wrong_at": 4096}, "wrong result", ["4096"]),
        (None, {"status": 5}, "crash", ["On the GPU"]),  # it ends early
    ],
)
def test_not_on_the_gpu(check, speed, faked, code, words):
    finding, _ = check(speed and Speed("01_naive", speed), **faked)
    assert finding.code == code
    assert all(word in f"{finding.says} {finding.details}" for word in words)
    assert finding.look


@pytest.mark.parametrize(
    "xray", ["None", "dict(kernels=[dict(accesses=[dict(line='x')])])", "dict(kernels=3)"]
)
def test_an_xray_that_is_none(tmp_path, xray):
    """The student's program says what it likes."""
    fake(tmp_path / "judge").write_text(
        (tmp_path / "judge").read_text().replace("complaints=", f"xray={xray}, complaints=")
    )
    outcome = run(Built(tmp_path, Entry("sgemm", "Gemm"), tmp_path / "judge"), PROBLEMS, "--xray")
    assert outcome.crash == "its X-ray cannot be read"


def test_probe(tmp_path):
    assert _probe(fake(tmp_path / "a" / "run")) == ("Fake GPU", "")
    program = tmp_path / "b"
    program.write_text('#!/bin/sh\necho "error: no GPU: there is no driver; use --device cpu" >&2\nexit 3\n')
    program.chmod(0o755)
    assert _probe(program) == (None, "no GPU: there is no driver")


def test_gpu_asked_for_where_there_is_none(student, build):
    from tools.grading.build import Toolchain
    from tools.grading.gpu import gpu_here

    if gpu_here(build, Toolchain(build, "02_coalescing"))[0] is not None:
        pytest.skip("there is a GPU")
    student.refused("check", "02_coalescing", "--device", "gpu", words=["no GPU"])
