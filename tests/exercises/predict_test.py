"""Predictions: numbers in a TOML file."""

import tomllib

import pytest
from tools.grading.predict import grade_answers, is_right, line_of, solution_of


def answers(exercise, build, **changes):
    """The right answers, some of them changed."""
    found = tomllib.loads(solution_of(exercise, build)) | changes
    return "".join(f"{name} = {value!r}\n" for name, value in found.items())


def test_blank(numbers, build):
    finding = grade_answers(numbers, build, numbers.starter).finding
    question = numbers.questions[0]
    assert finding.code == "blank"
    assert finding.line == line_of(question.id, numbers.starter) > 0
    assert question.asks in finding.says


@pytest.mark.parametrize(("factor", "word"), [(2, "too large"), (0.5, "too small")])
def test_no_question_takes_another_answer(exercises, build, factor, word):
    for exercise in exercises.values():
        if exercise.kind == "predict":
            right = tomllib.loads(solution_of(exercise, build))
            wrong = {name: value * factor for name, value in right.items()}
            grade = grade_answers(exercise, build, answers(exercise, build, **wrong))
            assert grade.finding.code == "wrong answer", exercise.name
            assert word in grade.finding.says
            assert not any(" is right." in note for note in grade.notes), exercise.name


def test_the_worked_solution_comes_with_the_pass(student, numbers, build):
    worked = numbers.solution.strip().splitlines()[-1]
    result = student("check", numbers.name)
    assert result.returncode == 1
    assert " ".join(worked.split()) not in " ".join(result.stdout.split())
    student.writes(numbers, solution_of(numbers, build))
    result = student("check", numbers.name)
    assert result.returncode == 0
    said = " ".join(result.stdout.split())
    assert " ".join(worked.split()) in said
    for question in numbers.questions:
        assert " ".join(question.worked.split()) in said


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [("x = \n", "toml", "cannot be read"), ("nonsense_of_mine = 1\n", "toml", "nonsense_of_mine")],
)
def test_a_file_that_is_not_as_it_should_be(numbers, build, text, code, words):
    finding = grade_answers(numbers, build, numbers.starter + text).finding
    assert finding.code == code
    assert words in finding.says
    assert finding.line == numbers.starter.count("\n") + 1


LONG = "1" * 400


@pytest.mark.parametrize(
    "text", ['"twelve"', "true", "[1]", "nan", "inf", LONG, f"-{LONG}", f"[{LONG}]", "0x" + "f" * 9000]
)
def test_what_is_no_number(numbers, build, text):
    name = numbers.questions[0].id
    source = f"{name} = {text}\n" + "".join(f'{q.id} = ""\n' for q in numbers.questions[1:])
    finding = grade_answers(numbers, build, source).finding
    assert finding.code == "no number"
    assert finding.line == 1
    assert len(finding.says) < 120


@pytest.mark.parametrize("text", ["1" * 5000, "[" * 5000 + "]" * 5000])
def test_what_cannot_even_be_read(numbers, build, text):
    finding = grade_answers(numbers, build, f"{numbers.questions[0].id} = {text}\n").finding
    assert finding.code == "toml"
    assert "cannot be read" in finding.says
    assert finding.look


def test_a_mark_at_the_beginning_that_some_editors_write(student, numbers, build):
    student.workspace.mkdir()
    path = student.workspace / numbers.file_name
    path.write_bytes(b"\xef\xbb\xbf" + solution_of(numbers, build).encode())
    result = student("check", numbers.name)
    assert result.returncode == 0, result.stdout


def test_tolerance():
    assert is_right(100.9, 100, 0.01)
    assert not is_right(101.1, 100, 0.01)
    assert is_right(0.1 + 0.2, 0.3, 0)
    assert not is_right(4.001, 4, 0)
    assert is_right(0, 0, 0.01)
    assert not is_right(0.01, 0, 0.01)
    assert is_right(-5, -5, 0)
