"""For teachers and for whoever adds an exercise: whether every starter fails and every solution passes.
Standard library only.
"""

from collections.abc import Callable
from pathlib import Path

from tools.claims.context import Context
from tools.claims.objects import NotAvailable
from tools.grading.content import Exercise
from tools.grading.finding import Grade
from tools.grading.predict import correct_answer

NO_BEGINNING = ("compile", "rule", "no CUDA", "toml")  # a starter must get further than this


def solution_of(exercise: Exercise, build: Path) -> str:
    """What a student would have to write: the solution's source, or the answers as TOML."""
    if exercise.kind != "predict":
        return exercise.solution
    context = Context(build, exercise.step)
    lines = []
    for question in exercise.questions:
        try:
            lines.append(f"{question.id} = {correct_answer(question, context)!r}")
        except NotAvailable:
            lines.append(f"{question.id} = 0  # cannot be computed here")
    return "\n".join(lines) + "\n"


def verify(
    exercises: list[Exercise], build: Path, grade: Callable[[Exercise, str, str], Grade],
    say: Callable[[str], None],
) -> int:  # fmt: skip
    """Says how it stands with each exercise. Returns 0 if all is well, else 1. Raises BuildError."""
    in_order = 0
    for exercise in exercises:
        starter = grade(exercise, exercise.starter, exercise.file_name).finding
        solution = grade(exercise, solution_of(exercise, build), exercise.file_name)
        problems, remarks = [], []
        if starter is None:
            problems.append("the starter passes")
        elif starter.code in NO_BEGINNING:
            problems.append(f"the starter does not even begin: {starter.says}")
        else:
            remarks.append(f"the starter fails: {starter.says}")
        if wrong := solution.finding:
            problems.append(
                f"the solution fails: {' '.join([wrong.says, *wrong.details])} (line {wrong.line})"
            )
        else:
            remarks.append(f"the solution passes in {solution.seconds:.1f} s")
        in_order += not problems
        say(f"{'FAILED' if problems else 'ok':<7} {exercise.name}")
        for text in [*problems, *remarks, *(note for note in solution.notes if "not checked here" in note)]:
            say(f"          {text}")
    say(f"{in_order} of {len(exercises)} exercises are in order")
    return int(in_order < len(exercises))
