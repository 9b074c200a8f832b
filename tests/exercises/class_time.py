#!/usr/bin/env python3
"""How long a class takes: hand-ins of other perfect code for each kernel, graded as `exercises grade` does.

  BUILD=build .venv/bin/python tests/exercises/class_time.py [HAND_INS] [EXERCISE...]

Prints a kernel's processor time, which other work on the machine changes less than the time by the clock, and
what thirty students' kernels take on two cores that do nothing else. Limits alone confine the hand-ins:
bubblewrap, whose processes leave their times to nobody, adds little.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["EXERCISES_ISOLATION"] = "limits"
from conftest import processor_seconds
from tools.grading.class_report import grade_class
from tools.grading.content import read_all

STUDENTS, CORES = 30, 2


def main() -> int:
    hand_ins, names = int((sys.argv[1:2] or ["4"])[0]), sys.argv[2:]
    kernels = [e for e in read_all() if e.kind != "predict" and (not names or e.name in names)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "hand-ins"
        for number in range(hand_ins):
            (folder / f"student{number}").mkdir(parents=True)
            for exercise in kernels:
                own = f"namespace {{ constexpr double own = {time.time_ns()}e{number}; }}\n"
                (folder / f"student{number}" / exercise.file_name).write_text(exercise.solution + own)
        began, clock = processor_seconds(), time.monotonic()
        build, out = Path(os.environ["BUILD"]), Path(name) / "graded"
        how = {"jobs": CORES, "device": "cpu", "seed": 1, "say": lambda text: None}
        rows = grade_class(folder, out, kernels, build, **how)
        used, clock = processor_seconds() - began, time.monotonic() - clock
    grades = {f"{row.hand_in.name}: {name}": grade for row in rows for name, grade in row.grades.items()}
    wrong = [f"{name}: {grade.finding}" for name, grade in grades.items() if not grade.passed]
    each = used / len(grades)
    minutes = STUDENTS * len(kernels) * each / CORES / 60
    print(*wrong, f"{len(grades)} kernels, {len(wrong)} of them not passed", sep="\n")
    print(f"{each:.2f} s of processor time each, {used:.0f} s in all; {clock:.0f} s by the clock")
    print(f"{STUDENTS} students: {minutes:.1f} minutes on {CORES} cores")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
