"""The results of all exercises, for a teacher. Nothing is graded again. Standard library only."""

from typing import Any

from tools.grading.content import Exercise
from tools.grading.state import Progress, Workspace, now, version_of


def make_report(
    exercises: list[Exercise], workspace: Workspace, state: dict[str, Progress]
) -> dict[str, Any]:
    """The keys: exercises (one entry each, in order), totals, and score: percent of the points, one for each
    exercise that was passed without its solution revealed before. changed: the file is no longer the one that
    passed."""
    entries = [_entry(exercise, workspace, state.get(exercise.name, Progress())) for exercise in exercises]
    counted = ("passed", "points", "revealed", "changed", "hints_used", "attempts")
    totals = {"exercises": len(entries)} | {key: sum(entry[key] for entry in entries) for key in counted}
    score = round(100 * totals["points"] / len(entries), 1) if entries else 0.0
    return {"date": now(), "exercises": entries, "totals": totals, "score": score}


def _entry(exercise: Exercise, workspace: Workspace, progress: Progress) -> dict[str, Any]:
    try:
        version = version_of(workspace.file(exercise).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        version = None  # not begun, or gone
    return {
        "exercise": exercise.name,
        "kind": exercise.kind,
        "passed": progress.passed,
        "revealed": progress.revealed,
        "points": int(progress.passed and not progress.revealed),
        "hints_used": progress.hints,
        "attempts": progress.attempts,
        "passed_at": progress.passed_at,
        "device": progress.device,
        "version": version,
        "passed_version": progress.version,
        "changed": progress.passed and version != progress.version,
    }


# One character for each standing, and what the table says.
STANDINGS = {"x": "passed", "~": "passed, changed", "r": "revealed", " ": "-"}


def standing(entry: dict[str, Any]) -> str:
    if entry["revealed"]:
        return "r"
    return " " if not entry["passed"] else "~" if entry["changed"] else "x"


def table(report: dict[str, Any]) -> str:
    """The report as a person reads it."""
    lines = [f"{'exercise':<28} {'kind':<8} {'result':<18} {'hints':>5} {'attempts':>8}  passed at"]
    for entry in report["exercises"]:
        lines.append(
            f"{entry['exercise']:<28} {entry['kind']:<8} {STANDINGS[standing(entry)]:<18} "
            f"{entry['hints_used']:>5} {entry['attempts']:>8}  {entry['passed_at'] or '-'}"
        )
    totals = report["totals"]
    return "\n".join(
        [*lines, f"{totals['points']} of {totals['exercises']} points, score {report['score']:g} %"]
    )
