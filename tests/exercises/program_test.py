"""The program from outside: commands, state, watch."""

import json
import re
import signal
import subprocess
import time

from tools.grading.predict import solution_of

FAULT_LINE = re.compile(r"at \S*02_coalescing\.cu:\d+")


def state(student):
    return json.loads((student.workspace / "state.json").read_text())["exercises"]


# ---- The overview ----


def test_overview_lists_all_and_begins_the_next(student, exercises):
    result = student()
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    names = list(exercises)
    listed = [line.split()[2] for line in lines if line.startswith("  [ ] ")]
    assert listed == names
    assert lines[0] == f"0 of {len(names)} exercises passed, score 0 %"
    assert next(line for line in lines if line.endswith("<- next")).split()[2] == names[0]
    assert f"check {names[0]}" in result.stdout
    copy = student.workspace / exercises[names[0]].file_name
    assert copy.read_text() == exercises[names[0]].starter
    assert [path.name for path in student.workspace.iterdir()] == [copy.name]
    assert max(map(len, lines)) <= 100 + len(str(student.workspace))


# ---- Grading ----


def test_a_fault_shows_its_symptom_first(student, exercises):
    exercise = exercises["wrong_at_19"]
    said = " ".join(student("check", "wrong_at_19", "--device", "cpu").stdout.split())
    symptom = exercise.symptom.replace("./build/exercises", " ".join(student.command))
    assert " ".join(symptom.split()) in said
    assert "shown after the first hint" in said
    assert "counted twice" not in said
    text = exercise.starter
    student.writes(exercise, text + "oops\n")  # what is new is said at once
    assert "does not compile" in student("check", "wrong_at_19", "--device", "cpu").stdout
    student.writes(exercise, text)
    student("hint", "wrong_at_19")
    said = student("check", "wrong_at_19", "--device", "cpu").stdout
    assert "counted twice" in " ".join(said.split())


def test_a_run_is_headed_by_the_exercise(student):
    student("check", "usually_right")
    result = student("run", "usually_right", "--m", "8", "--n", "8", "--k", "8")
    assert result.stdout.startswith("usually_right on the CPU device")
    command = f"{student.build}/exercises --workspace {student.workspace} run usually_right"
    assert f"Usage: {command} [OPTIONS]" in student("run", "usually_right", "--help").stdout
    said = student("check", "usually_right").stdout  # what it says to type, in one line
    assert f"`{command} --m 35 --n 79 --k 19`" in said


def test_from_starter_to_solution(student, exercises):
    exercise = exercises["02_coalescing"]
    result = student("check", "02", "--device", "cpu")
    assert result.returncode == 1, result.stderr
    assert result.stdout.startswith("02_coalescing: not yet")
    assert FAULT_LINE.search(result.stdout)
    assert "Look at: " in result.stdout
    assert "hint 1 of 3" in result.stdout
    assert state(student)["02_coalescing"]["attempts"] == 1
    assert state(student)["02_coalescing"]["passed_at"] is None

    student.writes(exercise, exercise.solution)
    result = student("check", "02_coalescing", "--device", "cpu")
    assert result.returncode == 0, result.stdout
    assert result.stdout.startswith("02_coalescing: passed")
    for goal in exercise.goals:
        assert " ".join(goal.says.split()) in " ".join(result.stdout.split())
    entry = state(student)["02_coalescing"]
    assert entry["attempts"] == 2
    assert entry["device"] == "CPU device"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry["passed_at"])
    assert "\033[" not in result.stdout

    # A later failure does not take the pass away.
    student.writes(exercise, exercise.starter)
    assert student("check", "02_coalescing", "--device", "cpu").returncode == 1
    assert state(student)["02_coalescing"]["passed_at"] == entry["passed_at"]
    assert "[~] 02_coalescing" in student().stdout


def test_check_all_grades_what_was_begun(student, exercises, numbers):
    student.writes(numbers, numbers.starter)
    result = student("check", "--all")
    assert result.returncode == 1
    assert [line for line in result.stdout.splitlines() if ": not yet" in line] == [
        f"{numbers.name}: not yet (0.0 s)"
    ]
    assert {path.name for path in student.workspace.iterdir()} == {numbers.file_name, "state.json"}


def test_a_starter_is_never_copied_over_work(student, exercises, numbers):
    path = student.writes(numbers, "mine = 1\n")
    student("check", numbers.name)
    student("hint", numbers.name)
    student()
    assert path.read_text() == "mine = 1\n"


# ---- Hints ----


def test_hints_one_after_the_other(student, exercises):
    hints = exercises["02_coalescing"].hints
    for number in (1, 2, 3, 3):
        result = student("hint", "02_coalescing")
        assert result.returncode == 0
        said = " ".join(result.stdout.split())
        assert [hint in said for hint in hints] == [n < number for n in range(3)]
        assert state(student)["02_coalescing"]["hints"] == number
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_hints_after_the_pass_do_not_count(student, numbers):
    student.solves(numbers)
    assert student("hint", numbers.name).returncode == 0
    assert state(student)[numbers.name]["hints"] == 0


# ---- Solution ----


def test_solution_before_the_pass_only_with_reveal(student, exercises):
    exercise = exercises["03_shared_memory"]
    result = student("solution", exercise.name)
    assert result.returncode == 1
    assert "__global__" not in result.stdout
    assert "--reveal" in result.stdout
    assert not (student.workspace / "state.json").exists()
    result = student("solution", exercise.name, "--reveal")
    assert result.returncode == 0
    assert exercise.solution.strip() in result.stdout
    assert state(student)[exercise.name]["revealed"] is True
    assert f"[r] {exercise.name}" in student().stdout
    assert student("solution", exercise.name).returncode == 0


def test_a_pass_after_revealing_gives_no_points(student, numbers):
    student("solution", numbers.name, "--reveal")
    student.solves(numbers)
    assert "1 of " in student().stdout.splitlines()[0]
    assert student().stdout.splitlines()[0].endswith("score 0 %")


def test_solution_after_the_pass_costs_nothing(student, numbers):
    student.solves(numbers)
    for options in ((), ("--reveal",)):
        assert student("solution", numbers.name, *options).returncode == 0
    assert state(student)[numbers.name]["revealed"] is False


# ---- Reset ----


def test_reset_keeps_the_old_file(student, exercises):
    exercise = exercises["02_coalescing"]
    path = student.writes(exercise, "// mine\n")
    result = student("reset", exercise.name)
    assert result.returncode == 0
    assert path.read_text() == exercise.starter
    assert (student.workspace / "02_coalescing.cu.old").read_text() == "// mine\n"
    assert "02_coalescing.cu.old" in result.stdout
    # Once more: the starter does not take the place of the work.
    assert student("reset", exercise.name).returncode == 0
    assert (student.workspace / "02_coalescing.cu.old").read_text() == "// mine\n"


def test_number_without_its_zero(student):
    assert "02_coalescing.cu" in student("reset", "2").stdout


# ---- Watch ----


class Watching:
    def __init__(self, student, *arguments):
        self.log = student.folder / "watch.log"
        self.process = subprocess.Popen(
            [*student.command, "watch", *arguments], cwd=student.folder, stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def until(self, count, words, seconds=60):
        """Waits until the words were said so many times."""
        end = time.monotonic() + seconds
        while self.log.read_text().count(words) < count:
            assert time.monotonic() < end, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        return self.log.read_text()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(20)


def test_watch_grades_after_each_save(student, numbers):
    watching = Watching(student, numbers.name)
    try:
        watching.until(1, "watching ")
        path = student.workspace / numbers.file_name
        path.write_text(path.read_text() + "# saved\n")
        watching.until(2, ": not yet")
        watching.until(2, "watching ")
        # As editors do: another file takes the place.
        new = path.with_name("new")
        new.write_text(path.read_text() + "# saved again\n")
        path.unlink()
        time.sleep(0.6)
        new.replace(path)
        watching.until(3, ": not yet")
        watching.until(3, "watching ")
    finally:
        status = watching.stop()
    assert status == 0
    assert "Traceback" not in watching.log.read_text()
    assert state(student)[numbers.name]["attempts"] == 3


def test_watch_goes_on_to_the_next_exercise(student, exercises):
    first, second = list(exercises.values())[:2]
    watching = Watching(student, "--device", "cpu")
    try:
        watching.until(1, "watching ")
        student.writes(first, solution_of(first, student.build))
        text = watching.until(2, "watching ")
    finally:
        assert watching.stop() == 0
    assert f"{first.name}: passed" in text
    assert f"{second.name}: {second.title}" in text


def test_ctrl_c_while_grading_ends_at_once(student, exercises):
    exercise = exercises["01_naive"]
    endless = exercise.solution.replace("++k)", "k += 0)")
    assert endless != exercise.solution
    student.writes(exercise, endless)
    watching = Watching(student, exercise.name, "--device", "cpu")
    time.sleep(3)
    begun = time.monotonic()
    assert watching.stop() == 0, watching.log.read_text()
    assert time.monotonic() - begun < 5
    assert "Traceback" not in watching.log.read_text()
