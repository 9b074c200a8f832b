"""Grades one hand-in on Gradescope and writes what it reads. Standard library only.

  python -m tools.services.gradescope SUBMISSION RESULTS.json

https://gradescope-autograders.readthedocs.io/en/latest/specs/ describes results.json.
"""

import secrets
import sys
from pathlib import Path
from typing import Any

from tools.base import BUILD, run_program, write_json
from tools.grading.class_report import BLANK, Row, grade_one, message
from tools.grading.content import Exercise, read_all
from tools.grading.finding import Grade
from tools.grading.hand_ins import read_hand_in


def results(row: Row, exercises: list[Exercise]) -> dict[str, Any]:
    """The content of results.json for what was graded."""
    tests = []
    for exercise in exercises:
        grade = row.grades.get(exercise.name, Grade(BLANK))
        tests.append({
            "name": f"{exercise.name}: {exercise.title}",
            "score": row.points_of(exercise),
            "max_score": exercise.points,
            "status": "passed" if grade.passed else "failed",
            "output": message(row, exercise, grade),
            "visibility": "visible",
        })  # fmt: skip
    ignored = [f"ignored: {path}: {why}" for path, why in row.hand_in.ignored]
    return {"output": "\n".join(ignored), "stdout_visibility": "hidden", "tests": tests}


def main() -> int:
    submission, out = map(Path, sys.argv[1:])
    exercises = read_all()
    row = Row(read_hand_in(submission, exercises), secrets.randbits(31))
    for exercise in exercises:
        if exercise.file_name in row.hand_in.files:
            row.grades[exercise.name] = grade_one(row, exercise, BUILD, "cpu", {})
    write_json(out, results(row, exercises))
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
