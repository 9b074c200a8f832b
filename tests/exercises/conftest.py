"""What the tests of the exercises share. BUILD in the environment: the build directory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMON = ROOT / "common"
sys.path.insert(0, str(COMMON))
os.environ["PYTHONPATH"] = str(COMMON)  # of `python -m tools`

from tools.grading.content import read_all  # noqa: E402
from tools.grading.grader import Grader  # noqa: E402
from tools.grading.program import solution_of  # noqa: E402


@pytest.fixture(scope="session")
def build():
    return Path(os.environ["BUILD"])


@pytest.fixture(scope="session")
def exercises():
    """All of them, by name."""
    return {exercise.name: exercise for exercise in read_all()}


def edited(source: str, edit: str) -> str:
    """The source with an edit: blocks of lines, with a blank line between. A block's lines that begin with a
    space or - stand once in the source, and those with a space or + take their place."""
    for block in edit.strip("\n").split("\n\n"):
        lines = [(line[:1] or " ", line[1:]) for line in block.splitlines()]
        old, new = ("".join(f"{text}\n" for mark, text in lines if mark in marks) for marks in (" -", " +"))
        assert old and f"\n{source}".count(f"\n{old}") == 1, f"not once in the source: {old}"
        source = f"\n{source}".replace(f"\n{old}", f"\n{new}")[1:]
    return source


@pytest.fixture
def grade_other(exercises, build):
    """Grades an exercise's solution with some text replaced. Returns the finding and the source."""

    def grade_changed(name, *changes, seed=3):
        source = exercises[name].solution
        for old, new in changes:
            assert old in source, old
            source = source.replace(old, new)
        return Grader(exercises[name], build, "cpu", seed=seed).grade(source, "my/it.cu").finding, source

    return grade_changed


def line_with(text, source):
    """The number of the first line that holds it."""
    return 1 + next(n for n, line in enumerate(source.splitlines()) if text in line)


class Student:
    """Somebody at work in a workspace of their own, with the program that the build made."""

    def __init__(self, build: Path, folder: Path):
        self.build = build
        self.folder = folder
        self.workspace = folder / "work"
        self.command = [str(build / "exercises"), "--workspace", str(self.workspace)]

    def __call__(self, *arguments, **options):
        command = [*self.command, *map(str, arguments)]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False, **options
        )

    def writes(self, exercise, text: str) -> Path:
        self.workspace.mkdir(exist_ok=True)
        path = self.workspace / exercise.file_name
        path.write_text(text)
        return path

    def solves(self, exercise) -> None:
        self.writes(exercise, solution_of(exercise, self.build))
        result = (
            self("check", exercise.name, "--device", "cpu")
            if exercise.kind != "predict"
            else self("check", exercise.name)
        )
        assert result.returncode == 0, result.stdout + result.stderr

    def refused(self, *arguments, words=()) -> None:
        """Bad usage: exit status 2 and one line that holds the words."""
        result = self(*arguments)
        assert result.returncode == 2, result.stdout + result.stderr
        lines = result.stderr.splitlines()
        assert len(lines) == 1, result.stderr
        assert lines[0].startswith("error: ")
        for word in words:
            assert word in lines[0]


@pytest.fixture
def student(build, tmp_path):
    return Student(build, tmp_path)


@pytest.fixture(scope="session")
def numbers(exercises):
    """The first exercise of the kind that is graded at once."""
    return next(exercise for exercise in exercises.values() if exercise.kind == "predict")
