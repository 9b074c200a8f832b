"""Reading exercises: what is wrong with a file is said in one line that names it."""

import re
import shutil

import pytest
from conftest import ROOT
from tools.base import UsageError, is_library
from tools.grading.content import exercise_folders, read_all, read_exercise, without_comments
from tools.grading.goals import clauses

ENOUGH = {"kernel": 15, "fault": 6, "predict": 11}


def test_there_are_enough(exercises):
    for kind, number in ENOUGH.items():
        assert sum(exercise.kind == kind for exercise in exercises.values()) >= number
    steps = {path.parent.name for path in ROOT.glob("steps/[0-9][0-9]_*/kernel.cu")}
    steps = {step for step in steps if not is_library(step)}
    assert {e.name for e in exercises.values() if e.kind == "kernel"} <= steps
    assert {e.step for e in exercises.values()} >= steps  # each has one, if only a prediction


def test_every_folder_is_an_exercise(exercises):
    folders = [path for path in ROOT.glob("exercises/*/*") if path.is_dir()]
    assert {path.name for path in folders} <= set(exercises)
    assert len(exercise_folders()) == len(exercises) == len(read_all())


@pytest.fixture
def copy(tmp_path):
    """Copies an exercise and changes its exercise.toml."""

    def make(source, *changes, name=None):
        folder = tmp_path / source.name if source.name != "exercise" else tmp_path / name / "exercise"
        shutil.copytree(source, folder)
        if source.name == "exercise":
            shutil.copy(source.parent / "kernel.cu", folder.parent / "kernel.cu")
        path = folder / "exercise.toml"
        text = path.read_text()
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        path.write_text(text)
        return folder

    return make


@pytest.fixture
def kernel(copy):
    def make(*changes):
        return copy(ROOT / "steps" / "02_coalescing" / "exercise", *changes, name="02_coalescing")

    return make


def rejected(folder, *words):
    with pytest.raises(UsageError) as error:
        read_exercise(folder)
    said = str(error.value)
    assert "\n" not in said
    assert str(folder) in said
    for word in words:
        assert word in said


def test_a_copy_is_fine(kernel):
    exercise = read_exercise(kernel())
    assert (exercise.name, exercise.kind, exercise.step) == ("02_coalescing", "kernel", "02_coalescing")
    assert exercise.file_name == "02_coalescing.cu"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "kernel"', 'kind = "fault"', ["find_the_fault"]),
        ('kind = "kernel"', "", ["kind"]),
        ('kind = "kernel"', 'kind = "kernel"\ncolour = "red"', ["colour"]),
        ('title = "', "title = ", ["cannot be read"]),
        ("hints = [", 'hints = [\n  "And one more hint.",', ["exactly 3"]),
        ("speed = {", 'speed = { nothing = "x" }\nunused = {', ["unused"]),
        ('over = "01_naive"', 'over = "77_nothing"', ["77_nothing"]),
        ("xray(mine)", "xray(here)", ["mine"]),
        ("xray(mine).load('A').sectors_per_request == 1", "xray(mine).load('A').sectors", ["no condition"]),
        ("xray(mine).load('A')", "open('/etc/passwd')", ["open"]),
    ],
)
def test_malformed_kernel(kernel, old, new, words):
    rejected(kernel((old, new)), *words)


@pytest.mark.parametrize("name", ["starter.toml", "../kernel.cu", "exercise.toml"])
def test_a_file_is_missing(kernel, name):
    folder = kernel()
    (folder / name).unlink()
    with pytest.raises(UsageError, match=rf"{name.split('/')[-1]}: cannot be read: No such file"):
        read_exercise(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("starter.toml", r"[\s\S]+", 'header = "TODO: something"', ["is the solution"]),
        ("../kernel.cu", "int row = ", "int y = ", ["starter.toml", "0 places like 'const int row"]),
        ("starter.toml", "TODO", "LATER", ["TODO"]),
    ],
)
def test_a_starter_that_does_not_fit(kernel, file, old, new, words):
    folder = kernel()
    path = folder / file
    path.write_text(re.sub(old, new, path.read_text()))
    rejected(folder, *words)


@pytest.mark.parametrize("where", ["hints = [", "task = ", "look = ", "title = "])
def test_a_line_of_the_solution_is_given_away(kernel, where):
    line = "blockIdx.y * TILE + threadIdx.y"
    new = {
        "hints = [": f'hints = [ "Write const int row = {line}; there.", "x y", "z", ]\nold = [',
        "task = ": f'task = "const int row = {line};"\nold = ',
        "look = ": f'look = "const int row={line}" # ',
        "title = ": f'title = "const int row = {line}" # ',
    }[where]
    folder = kernel((where, new))
    text = (folder / "exercise.toml").read_text()
    if "\nold = " in text:  # the rest of the old value is of no interest
        text = re.sub(r'\nold = (""".*?"""|\[.*?\n\])', "", text, flags=re.DOTALL)
        (folder / "exercise.toml").write_text(text)
    rejected(folder, "line of the solution")


# ---- Predictions ----


@pytest.fixture
def prediction(copy, numbers):
    return lambda *changes: copy(numbers.folder, *changes)


def test_answers_must_fit_the_questions(prediction, numbers):
    folder = prediction()
    path = folder / "answers.toml"
    path.write_text(path.read_text() + 'spare = ""\n')
    rejected(folder, "spare")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[[question]]", "[[riddle]]", ["riddle"]),
        ("worked = ", "unworked = ", ["unworked"]),
        ("answer = ", 'answer = "import os" # ', ["not an expression"]),
        ("answer = ", 'answer = "xray(mine).excess" # ', ["mine"]),
        ("after = ", 'after = "42_nowhere" # ', ["42_nowhere"]),
    ],
)
def test_malformed_prediction(prediction, old, new, words):
    rejected(prediction((old, new)), *words)


def test_a_goal_speaks_of_the_tiles_that_it_looks_at():
    """Of one tile in its text, then also in each part of what is checked."""
    for exercise in read_all():
        for goal in exercise.goals:
            tiles = set(re.findall(r"\b[AB]s\b", goal.says))
            for part in clauses(goal.check):
                assert not tiles or tiles & set(re.findall(r"'([AB]s)'", part)), (
                    f"{exercise.name}: {goal.says}"
                )


# ---- Commands ----


def test_commands_can_be_typed_as_they_are_shown():
    """In texts and in the files that students edit; what the program prints is in program_test.py."""
    for exercise in read_all():
        texts = [exercise.task, exercise.symptom, exercise.starter, *exercise.hints]
        texts += [goal.look for goal in exercise.goals]
        for text in texts:
            assert not re.search(r"(?<![\w/])(?:exercises|ladder) [a-z]+ ", text), f"{exercise.name}: {text}"


def test_comments_are_left_out():
    text = 'a = "// no"; // yes\n/* two\nlines */ b = \'"\'; // "\nc'
    code = without_comments(text)
    assert [line.strip() for line in code.splitlines()] == ['a = "// no";', "", "b = '\"';", "c"]
