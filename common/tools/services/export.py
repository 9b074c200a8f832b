"""Exercises for services that grade on their own machines: a zip file for Gradescope, a template repository
for GitHub Classroom. Standard library only.

Both hold the same: the grader, the CPU device, and for each step that an exercise belongs to the starter in
place of the kernel, for the commands that compile it. No solution is needed to grade: the goals are in
exercise.toml, and what the grader would find out from the solution (Exercise.ragged) is found out here and
written there. The answers of predictions are written as numbers, so these go to Gradescope alone, where no
student sees them.
"""

import dataclasses
import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.base import ROOT, UsageError, read_text, write_whole
from tools.claims.context import Context
from tools.claims.objects import NotAvailable
from tools.grading.build import Toolchain
from tools.grading.content import (
    CODE_OF_NOTE,
    WITHOUT_SOLUTION,
    Exercise,
    code_lines,
    lines_to_write,
    read_exercise,
)
from tools.grading.grader import Grader
from tools.grading.predict import correct_answer

FILES = Path(__file__).parent / "files"
KEPT = ("LICENSE", "meson.build", "meson.options", "setup.sh", "common", "steps/meson.build",
        "tests/shapes.txt")  # fmt: skip
LEFT_OUT = ("__pycache__", "pages", "website")


def export_gradescope(exercises: list[Exercise], build: Path, out: Path) -> None:
    """A zip file, or a folder of what is in it. Raises UsageError, BuildError."""

    def fill(folder: Path) -> None:
        _write_grader(folder / "grader", exercises, build)
        for name in ("setup.sh", "run_autograder"):
            shutil.copy(FILES / "gradescope" / name, folder / name)

    _fill(out, fill)


def export_classroom(exercises: list[Exercise], build: Path, out: Path) -> None:
    """The template repository. Raises UsageError, also if a file would show a solution; BuildError."""
    for exercise in exercises:
        if exercise.kind == "predict":
            raise UsageError(
                f"{exercise.name} is a prediction, which is graded by its answers, and a repository hides "
                "nothing from its owner: name other --exercises"
            )
        if not float(exercise.points).is_integer():
            raise UsageError(f"{exercise.name} gives {exercise.points} points; GitHub counts whole ones")

    def fill(folder: Path) -> None:
        _write_grader(folder, exercises, build)
        for exercise in exercises:
            write_whole(folder / exercise.file_name, exercise.starter)
        tasks = (f"## `{e.file_name}`: {e.title}\n\n{e.task}\n" for e in exercises)
        write_whole(folder / "README.md", read_text(FILES / "classroom.md") + "\n".join(tasks))
        (workflow := folder / ".github/workflows/classroom.yml").parent.mkdir(parents=True)
        write_whole(workflow, _workflow(exercises))
        write_whole(folder / ".gitignore", "/.venv/\n/build/\n__pycache__/\n")
        _check_hidden(folder, exercises)

    _fill(out, fill)


def _fill(out: Path, fill: Callable[[Path], None]) -> None:
    """Makes a zip file or a folder, which appears only when it is complete."""
    if out.exists():
        raise UsageError(f"{out} is there already; give another, or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as name:
        fill(folder := Path(name) / "made")
        if out.suffix == ".zip":
            made = shutil.make_archive(str(folder), "zip", folder)
            Path(made).replace(out)
        else:
            folder.replace(out)


def _write_grader(folder: Path, exercises: list[Exercise], build: Path) -> None:
    for name in KEPT:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns(*LEFT_OUT))
        else:
            shutil.copy2(source, target)
    packages = re.findall(r"(?m)^(?:meson|ninja)==.*\n", read_text(ROOT / "requirements.txt"))
    write_whole(folder / "requirements.txt", "".join(packages))
    kernels = {e.step: e.starter for e in exercises if e.kind != "predict"}
    if not kernels:  # the commands are some kernel's
        kernels = {"01_naive": read_exercise(ROOT / "steps/01_naive/exercise").starter}
    for step, starter in kernels.items():
        (steps := folder / "steps" / step).mkdir(parents=True)
        shutil.copy(ROOT / "steps" / step / "meson.build", steps)
        write_whole(steps / "kernel.cu", starter)
    for exercise in exercises:
        (place := folder / exercise.folder.relative_to(ROOT)).mkdir(parents=True)
        write_whole(place / "exercise.toml", _described(exercise, build, min(kernels)))
        starter = "answers.toml" if exercise.kind == "predict" else WITHOUT_SOLUTION
        write_whole(place / starter, exercise.starter)


def _described(exercise: Exercise, build: Path, step: str) -> str:
    """exercise.toml, with what the grader would ask the solution or other steps. step: one that is there."""
    table: dict[str, Any] = dataclasses.asdict(exercise)
    for key in ("name", "folder", "speed"):  # the speed is checked where the whole ladder is
        del table[key]
    if exercise.kind == "predict":
        context = Context(build, exercise.step)
        table["after"] = step
        for question, entry in zip(exercise.questions, table["questions"], strict=True):
            try:
                entry["answer"] = repr(correct_answer(question, context))
            except NotAvailable as reason:
                raise UsageError(f"{exercise.name}: {question.id} has no answer here: {reason}") from None
    else:
        table["ragged"] = Grader(exercise, build).expected(Toolchain(build, exercise.step))
    goals, questions = table.pop("goals"), table.pop("questions")
    text = _toml({key: value for key, value in table.items() if value != "" and value != []})
    for name, entries in (("goal", goals), ("question", questions)):
        text += "".join(f"\n[[{name}]]\n{_toml(entry)}" for entry in entries)
    return text


def _toml(table: dict[str, Any]) -> str:
    """JSON's texts, numbers and lists are TOML's, too."""
    return "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in table.items())


def _workflow(exercises: list[Exercise]) -> str:
    """By the actions of GitHub Classroom, which counts the points."""
    frame, step, reporter = read_text(FILES / "classroom.yml").split("# ----\n")
    names = [exercise.name for exercise in exercises]
    steps = (
        step.replace("NAME", e.name).replace("FILE", e.file_name).replace("POINTS", f"{e.points:g}")
        for e in exercises
    )
    result = '          E{}_RESULTS: "${{{{steps.e{}.outputs.result}}}}"\n'
    results = "".join(result.format(name.upper(), name) for name in names)
    runners = ",".join(f"e{name}" for name in names)
    return frame + "".join(steps) + reporter.replace("RESULTS\n", results).replace("RUNNERS", runners)


def _check_hidden(folder: Path, exercises: list[Exercise]) -> None:
    """No file may hold all that is to be written, as the starter of a later exercise does."""
    wanted = {e.name: {line for line in lines_to_write(e) if len(line) >= CODE_OF_NOTE} for e in exercises}
    for path in (path for path in folder.rglob("*") if path.is_file()):
        held = code_lines(path.read_text(encoding="utf-8", errors="replace"))
        for name, lines in wanted.items():
            if lines and lines <= held:
                shown = path.relative_to(folder)
                raise UsageError(f"{shown} would show the solution of {name}; export the two apart")
