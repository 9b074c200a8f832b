#!/usr/bin/env python3
"""How long a class takes: hand-ins of other perfect code for each kernel, graded as `exercises grade` does.

  BUILD=build .venv/bin/python tests/exercises/class_time.py [HAND_INS] [EXERCISE...]

Prints a kernel's processor time, which other work on the machine changes less than the time by the clock, and
what thirty students' kernels take on two cores that do nothing else. The first hand-in is graded before the
others: with it the grader compiles its headers and the solutions, once for a class. Limits alone confine the
hand-ins: bubblewrap, whose processes leave their times to nobody, adds little.
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
    build, wrong = Path(os.environ["BUILD"]), 0

    def grade(students: range) -> tuple[float, float]:
        """What their hand-ins take: seconds of processor time, and by the clock."""
        nonlocal wrong
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name) / "hand-ins"
            for number in students:
                (folder / f"student{number}").mkdir(parents=True)
                for exercise in kernels:
                    own = f"namespace {{ constexpr double own = {time.time_ns()}e{number}; }}\n"
                    (folder / f"student{number}" / exercise.file_name).write_text(exercise.solution + own)
            began, clock = processor_seconds(), time.monotonic()
            how = {"jobs": CORES, "device": "cpu", "seed": 1, "say": lambda text: None}
            rows = grade_class(folder, Path(name) / "graded", kernels, build, **how)
            used, clock = processor_seconds() - began, time.monotonic() - clock
        for row in rows:
            for exercise, result in row.grades.items():
                if not result.passed:
                    wrong += 1
                    print(f"{row.hand_in.name}: {exercise}: {result.finding}")
        return used, clock

    first, first_clock = grade(range(1))
    used, clock = grade(range(1, hand_ins + 1))
    each = used / (hand_ins * len(kernels))
    once = max(first - each * len(kernels), 0)
    minutes = (once + STUDENTS * len(kernels) * each) / CORES / 60
    print(f"{(hand_ins + 1) * len(kernels)} kernels, {wrong} of them not passed")
    print(f"{each:.2f} s of processor time each, {once:.0f} s once; {first_clock + clock:.0f} s by the clock")
    print(f"{STUDENTS} students: {minutes:.1f} minutes on {CORES} cores")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
