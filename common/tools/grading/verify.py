"""For teachers and tests: whether the exercises themselves are in order. Standard library only."""

from collections.abc import Callable
from pathlib import Path

from tools.claims.values import Context
from tools.grading.content import Exercise
from tools.grading.finding import Grade
from tools.grading.predict import Unanswerable, correct_answer

NO_BEGINNING = ("compile", "rule", "no CUDA", "toml")  # a starter has to fail in a better way
GradeSource = Callable[[Exercise, str, str], Grade]


def solution_of(exercise: Exercise, build: Path) -> str:
    """What a student would have to write: the solution's source, or the answers as TOML."""
    if exercise.kind != "predict":
        return exercise.solution.read_text(encoding="utf-8")
    context = Context(build, exercise.step)
    lines = []
    for question in exercise.questions:
        try:
            lines.append(f"{question.id} = {correct_answer(question, context)!r}")
        except Unanswerable:
            lines.append(f"{question.id} = 0  # cannot be computed here")
    return "\n".join(lines) + "\n"


def problems_of(exercise: Exercise, build: Path, grade: GradeSource) -> tuple[list[str], list[str]]:
    """What is wrong with an exercise, and remarks. Raises BuildError."""
    problems, remarks = [], []
    starter = grade(exercise, exercise.starter.read_text(encoding="utf-8"), exercise.starter.name)
    if starter.finding is None:
        problems.append("the starter passes")
    elif starter.finding.code in NO_BEGINNING:
        problems.append(f"the starter does not even begin: {starter.finding.says}")
    else:
        remarks.append(f"the starter fails in {starter.seconds:.1f} s: {starter.finding.says}")
    solution = grade(exercise, solution_of(exercise, build), exercise.solution.name)
    if solution.finding is not None:
        at = f" (line {solution.finding.line})" if solution.finding.line else ""
        details = " ".join(solution.finding.details)
        problems.append(f"the solution fails: {solution.finding.says} {details}{at}")
    else:
        remarks.append(f"the solution passes in {solution.seconds:.1f} s")
        remarks += [note for note in solution.notes if "not checked here" in note]
    return problems, remarks


def verify(exercises: list[Exercise], build: Path, grade: GradeSource, say: Callable[[str], None]) -> int:
    """Says how it stands with each exercise. Returns 0 if all is well, else 1."""
    bad = 0
    for exercise in exercises:
        problems, remarks = problems_of(exercise, build, grade)
        bad += bool(problems)
        say(f"{'FAILED' if problems else 'ok':<7} {exercise.name}")
        for text in [*problems, *remarks]:
            say(f"          {text}")
    say(f"{len(exercises) - bad} of {len(exercises)} exercises are in order")
    return 1 if bad else 0
