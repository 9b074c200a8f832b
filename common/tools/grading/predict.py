"""Grades the numbers that a student predicts. Standard library only."""

import math
import re
import tomllib
from contextlib import suppress
from pathlib import Path

from tools.claims.context import Context
from tools.claims.objects import ExpressionError, NotAvailable
from tools.claims.values import evaluate
from tools.grading.build import BuildError
from tools.grading.content import Exercise, Question
from tools.grading.finding import Failed, Finding, Grade, graded
from tools.grading.goals import need_built

LOOK = 'the form of a line: name = 12 or name = 0.5, and name = "" for one that is still blank.'


def correct_answer(question: Question, context: Context) -> float:
    """Raises NotAvailable if it cannot be computed here, BuildError."""
    try:
        value = evaluate(question.answer, context)
    except NotAvailable as reason:
        raise need_built(reason, context) from None
    except ExpressionError as error:
        raise BuildError(f"{question.id}: the answer `{question.answer}` has no value: {error}") from None
    if (number := finite(value)) is None:
        raise BuildError(f"{question.id}: the answer `{question.answer}` is no number but {value!r}")
    return number


def solution_of(exercise: Exercise, build: Path) -> str:
    """What a student would have to write: the solution's source, or the answers as TOML."""
    if exercise.kind != "predict":
        return exercise.solution
    lines = []
    for question in exercise.questions:
        try:
            lines.append(f"{question.id} = {correct_answer(question, Context(build, exercise.step))!r}\n")
        except NotAvailable:
            lines.append(f"{question.id} = 0  # cannot be computed here\n")
    return "".join(lines)


def is_right(given: float, correct: float, tolerance: float) -> bool:
    """Within the relative tolerance; a hair is always forgiven, as 0.1 + 0.2 is not 0.3."""
    return abs(given - correct) <= max(tolerance, 1e-9) * abs(correct) + 1e-12


def finite(value: object) -> float | None:
    """A number of a TOML file, if it is one and not too large for a float."""
    with suppress(OverflowError):
        if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
            return float(value)
    return None


def line_of(name: str, source: str) -> int:
    """Where a key of the student's file is given its value; 0 if nowhere."""
    pattern = re.compile(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=")
    return next((n for n, line in enumerate(source.splitlines(), 1) if pattern.match(line)), 0)


def grade_answers(exercise: Exercise, build: Path, source: str) -> Grade:
    """source: the student's TOML. The worked solution of each right answer is among the notes."""
    with graded(device="any") as grade:
        answers = _read(exercise, source.removeprefix("\ufeff"))  # with which some editors begin a file
        context = Context(build, exercise.step)
        for question in exercise.questions:
            found = _grade_one(question, context, answers.get(question.id, ""), source, grade.notes)
            grade.questions[question.id] = found is None
            grade.finding = grade.finding or found
        if grade.passed and all(" not checked here" in note for note in grade.notes):
            raise BuildError("none of the questions can be graded here: " + grade.notes[0])
    return grade


def _read(exercise: Exercise, source: str) -> dict[str, object]:
    """Raises Failed."""
    try:
        answers = tomllib.loads(source)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits, or brackets
        said, _, place = str(error).partition(" (at ")
        line = int("0" + "".join(re.findall(r"line (\d+)", place)))
        raise Failed(Finding("toml", f"The file cannot be read: {said}.", line, look=LOOK)) from None
    ids = [question.id for question in exercise.questions]
    for name in answers.keys() - ids:
        says = f"There is no question `{name}`; the questions are {', '.join(ids)}."
        look = "the spelling; `reset` brings the file back."
        raise Failed(Finding("toml", says, line_of(name, source), look=look))
    return answers


def _grade_one(
    question: Question, context: Context, given: object, source: str, notes: list[str]
) -> Finding | None:
    line = line_of(question.id, source)
    unit = f" {question.unit}" if question.unit else ""
    if given == "":
        asked = f"in {question.unit}" if question.unit else "a number"
        return Finding("blank", f"Not answered yet: {question.asks} ({question.id}, {asked})", line)
    number = finite(given)
    if number is None:
        huge = isinstance(given, int) and not isinstance(given, bool)
        said = "far too large" if huge else f"{str(given)[:60]!r}, which is no number"
        return Finding("no number", f"{question.id} is {said}.", line)
    try:
        correct = correct_answer(question, context)
    except NotAvailable as reason:
        notes.append(f"{question.id}: not checked here: {reason}")
        return None
    if not is_right(number, correct, question.tolerance):
        direction = "too large" if number > correct else "too small"
        says = f"{question.id}: {number:g}{unit} is {direction}. {question.asks}"
        look = "the hints; the worked solution is shown for each right answer."
        return Finding("wrong answer", says, line, look=look)
    notes.append(f"{question.id}: {number:g}{unit} is right. {question.worked}")
    return None
