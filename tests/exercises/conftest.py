"""What the tests of the exercises share. BUILD in the environment: the build directory."""

import os
import re
import resource
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMON = ROOT / "common"
sys.path.insert(0, str(COMMON))
os.environ["PYTHONPATH"] = str(COMMON)  # of `python -m tools`

from tools.edits import Edit  # noqa: E402
from tools.grading.build import Toolchain  # noqa: E402
from tools.grading.content import read_all  # noqa: E402
from tools.grading.finding import Grade, show  # noqa: E402
from tools.grading.grader import Grader  # noqa: E402
from tools.grading.predict import solution_of  # noqa: E402


@pytest.fixture(scope="session")
def build():
    return Path(os.environ["BUILD"])


@pytest.fixture(scope="session")
def exercises():
    """All of them, by name."""
    return {exercise.name: exercise for exercise in read_all()}


@dataclass
class Kernel(Edit):
    """What is handed in: an edit of an exercise's solution (`of`), for that one or for `exercises`. found: by
    the grader: a code, words of the message, and the code in the line that it names; nothing if it passes.
    nvcc: where there is nvcc only, which finds what does not count: a warning."""

    of: str = ""
    exercises: list = field(default_factory=list)
    found: list = field(default_factory=list)
    nvcc: bool = False


class Kernels:
    """Some, by their names. Those that the chosen tests name are graded at once, two at a time."""

    def __init__(self, kernels: dict[str, Kernel], exercises, build: Path, session):
        def grade(attempt):
            kernel, name = attempt
            source = kernel.text(exercises[kernel.of].solution)
            grader = Grader(exercises[name], build, "cpu", seed=1, machine_code=kernel.nvcc)
            return source, grader.grade(source, "my/it.cu")

        self.kernels = kernels
        has_nvcc = Toolchain(build, "05_2d_tiling").has_nvcc
        calls = [item.callspec.params for item in session.items if hasattr(item, "callspec")]
        chosen = {value for params in calls for value in params.values() if isinstance(value, str)}
        tries = {
            (key, name): (kernel, name)
            for key, kernel in kernels.items()
            for name in kernel.exercises or [kernel.of]
            if key in chosen and (has_nvcc or not kernel.nvcc)
        }
        with ThreadPoolExecutor(max_workers=2) as pool:
            self.grades = dict(zip(tries, pool.map(grade, tries.values()), strict=True))

    def check(self, key: str, exercise: str) -> Grade:
        """Asserts that the grader has found what it should."""
        if (key, exercise) not in self.grades:
            pytest.skip("needs nvcc")
        source, grade = self.grades[key, exercise]
        code, says, place = [*self.kernels[key].found, "", "", ""][:3]
        if not code:
            assert grade.finding is None, grade.finding
            return grade
        finding = grade.finding
        if self.kernels[key].nvcc:
            assert finding is None, finding
            finding = next((w for w in grade.warnings if says in w.says), None)
        assert finding is not None, "it passes"
        assert finding.code == code, finding
        message = show(finding, "my/it.cu", source)
        assert says in " ".join(message.split())
        assert not re.search(r"kernel\.cu|exercise-cache|--check|\b0x", message), message
        assert max(map(len, message.splitlines())) <= 100
        if code.startswith(
            ("wrong result", "endless", "out-of-bounds", "misaligned", "read of", "data race")
        ):
            assert re.search(r"[MNK] = \d+|size = \d+", message), message
        if place:
            assert [n for n, line in enumerate(source.splitlines(), 1) if place in line] == [finding.line]
        return grade


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


def processor_seconds() -> float:
    """Of this process and of those that it has waited for: what a busy machine does not add waiting to."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


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
