"""For teachers and tests: whether the exercises themselves are in order. Standard library only."""

from collections.abc import Callable
from pathlib import Path

from tools.claims.values import Context, NotAvailable
from tools.grading.content import Exercise
from tools.grading.finding import Grade
from tools.grading.predict import correct_answer

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
        except NotAvailable:
            lines.append(f"{question.id} = 0  # cannot be computed here")
    return "\n".join(lines) + "\n"


def verify(exercises: list[Exercise], build: Path, grade: GradeSource, say: Callable[[str], None]) -> int:
    """Says how it stands with each exercise. Returns 0 if all is well, else 1. Raises BuildError."""
    in_order = 0
    for exercise in exercises:
        starter = grade(exercise, exercise.starter.read_text(encoding="utf-8"), exercise.starter.name).finding
        solution = grade(exercise, solution_of(exercise, build), exercise.solution.name)
        problems = []
        if starter is None:
            problems.append("the starter passes")
        elif starter.code in NO_BEGINNING:
            problems.append(f"the starter does not even begin: {starter.says}")
        if wrong := solution.finding:
            at = f" (line {wrong.line})" if wrong.line else ""
            problems.append(f"the solution fails: {' '.join([wrong.says, *wrong.details])}{at}")
        in_order += not problems
        say(f"{'FAILED' if problems else 'ok':<7} {exercise.name}")
        fails = [f"the starter fails: {starter.says}"] if starter else []
        passes = [] if wrong else [f"the solution passes in {solution.seconds:.1f} s"]
        unchecked = [note for note in solution.notes if "not checked here" in note]
        for text in [*problems, *fails, *passes, *unchecked]:
            say(f"          {text}")
    say(f"{in_order} of {len(exercises)} exercises are in order")
    return int(in_order < len(exercises))
