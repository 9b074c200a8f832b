"""What stands around the exercises: the pages about them, worked solutions, speed goals, places to see."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT
from tools.base import is_library
from tools.claims.context import Context, all_steps
from tools.claims.objects import NotAvailable
from tools.grading.content import read_all
from tools.grading.predict import correct_answer, is_right
from tools.grading.program import COMMANDS

EXERCISES = read_all()
PREDICTIONS = [exercise for exercise in EXERCISES if exercise.kind == "predict"]
PAGE = ROOT / "docs" / "exercises.md"


def names(exercises):
    return pytest.mark.parametrize("exercise", exercises, ids=lambda exercise: exercise.name)


@names(PREDICTIONS)
def test_the_numbers_of_a_worked_solution_are_the_answers(exercise, build):
    block = re.search(r"\n```toml\n(.*?)```\n$", exercise.solution, re.DOTALL)
    assert block, f"{exercise.solution} does not end with the answers in a toml block"
    stated = tomllib.loads(block[1])
    assert list(stated) == [question.id for question in exercise.questions]
    for question in exercise.questions:
        try:
            correct = correct_answer(question, Context(build, exercise.step))
        except NotAvailable as reason:
            pytest.skip(str(reason))
        assert is_right(stated[question.id], correct, max(question.tolerance, 0.005)), question.id


def recorded_gain(build, step, before):
    """How many times as fast as another step."""
    context = Context(build, step)
    try:
        return context.ladder(step).tflops / context.ladder(before).tflops
    except NotAvailable as reason:
        pytest.skip(str(reason))


@names([exercise for exercise in EXERCISES if exercise.speed])
def test_a_speed_goal_asks_for_most_of_the_recorded_gain(exercise, build):
    speed = exercise.speed
    gain = recorded_gain(build, exercise.step, speed.over) - 1
    assert 1 + 0.5 * gain < speed.at_least <= 1 + 0.7 * gain


@names([exercise for exercise in EXERCISES if exercise.kind == "kernel" and not exercise.speed])
def test_without_a_speed_goal_there_is_little_to_gain(exercise, build):
    """Under 2 % another run of the same kernel may say otherwise."""
    steps = all_steps()
    before = steps[steps.index(exercise.step) - 1]
    if is_library(before):
        pytest.skip("nothing came before")
    assert recorded_gain(build, exercise.step, before) < 1.02


def test_the_registers_that_a_question_states_are_those_recorded(build, exercises):
    task = " ".join(exercises["occupancy"].task.split())
    for step in ("03", "06", "12"):
        recorded = Context(build, "12_larger_tiles").profile(step).registers_per_thread
        assert f"{recorded:.0f} in step {step}" in task


@names(EXERCISES)
def test_what_to_look_at_is_there(exercise):
    text = " ".join([exercise.task, *exercise.hints, *(goal.look for goal in exercise.goals)])
    for path in re.findall(r"\b(?:docs|steps|common)/[\w/.]*\w", text):
        assert (ROOT / path).exists(), path
    for goal in exercise.goals:
        assert "docs/" in goal.look, goal.says


# ---- The walk through an exercise on the page for students -------------------------------------------------


def without_what_varies(text: str) -> str:
    text = re.sub(r"\(\d+\.\d s", "(0.0 s", text)
    text = re.sub(r"right over \d+ problems", "right over 0 problems", text)
    text = re.sub(r"Seen with .*", "Seen somewhere.", text)
    text = re.sub(r"block \(\d+,\d+,\d+\)|C\[\d+\]\[\d+\]", "somewhere", text)  # whichever core was first
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_the_walk_of_the_page_goes_as_the_page_says(build, tmp_path):
    """Types the commands of the page, makes its changes, and wants the output that it shows."""
    walk = PAGE.read_text().split("## A walk through")[1].split("\n## ")[0]
    steps = re.findall(r"\n```(console|diff)\n(.*?)```\n", walk, re.DOTALL)
    assert [kind for kind, _ in steps].count("console") >= 4
    workspace = tmp_path / "work"
    shown = []
    for kind, block in steps:
        if kind == "diff":
            path = workspace / "02_coalescing.cu"
            old, new = (re.search(rf"^\{sign}(.*)", block, re.MULTILINE)[1] for sign in "-+")
            assert path.read_text().count(old) == 1
            path.write_text(path.read_text().replace(old, new))
            continue
        command, _, expected = block.partition("\n")
        arguments = command.removeprefix("$ ./build/exercises ").split()
        if arguments[0] == "check":
            arguments += ["--device", "cpu"]
        words = [sys.executable, "-m", "tools", "exercises", "--build", build, "--workspace", workspace]
        result = subprocess.run(
            [*words, *arguments], env=os.environ | {"EXERCISES_COMMAND": "./build/exercises"}, cwd=tmp_path,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert result.stderr == ""
        output = result.stdout.replace(f" --workspace {workspace}", "")
        output = re.sub(rf"{re.escape(str(workspace))}|\bwork(?=/02)", "my_exercises", output)
        if "there is no GPU" not in output:  # but something else that is missing
            output = re.sub(r"  \+ speed: .*", "  + speed: not checked here, there is no GPU", output)
        assert without_what_varies(output) == without_what_varies(expected), command
        shown.append(result.returncode)
    assert shown[0] == 1  # not yet
    assert shown[-1] == 0  # passed


def test_the_page_names_every_command():
    for name in COMMANDS:
        if name not in ("grade", "export"):  # for teachers
            assert f"`exercises {name}" in PAGE.read_text(), name
    assert "exercises grade" in (ROOT / "docs" / "teaching.md").read_text()


def test_the_course_has_every_exercise():
    outline = (ROOT / "docs" / "teaching.md").read_text().split("## Without GPUs")[0]
    for exercise in EXERCISES:
        assert outline.count(f"`{exercise.name}`") >= 1, exercise.name
