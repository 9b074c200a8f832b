"""The exercises: what is done, what comes next, and whether it is right. In a build: <build>/exercises.

  exercises                        progress and the next exercise
  exercises check NAME...          grade; --all: every exercise that was begun
  exercises run NAME [OPTION...]   runs your kernel as a step's program runs: --xray, --size 64, --help ...
  exercises hint NAME              the next of three hints
  exercises watch [NAME]           grade again whenever the file is saved; Ctrl-C ends it
  exercises solution NAME          the solution, once the exercise is passed; --reveal: at once, for no points
  exercises reset NAME             the starter again; the old file stays as NAME.cu.old
  exercises grade FOLDER --out DIR  a whole class: FOLDER holds a folder or a zip file for each student
  exercises export                 for other services: --gradescope FILE.zip, --github-classroom DIR

A name may be cut short, as in `exercises check 02`. The files to edit and state.json, the only file that
remembers anything, lie in my_exercises/ (--workspace DIR: elsewhere). Nothing needs a GPU or the network.

Exit status: 0 well, 1 an exercise is not passed, 2 bad usage, or something cannot be graded here.
"""

import argparse
import io
import os
import re
import secrets
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from typing import Any

from tools.base import BUILD, ROOT, Parser, UsageError, chosen
from tools.grading import isolation
from tools.grading.build import BuildError, Toolchain
from tools.grading.class_report import grade_class
from tools.grading.class_report import table as class_table
from tools.grading.content import HINTS, Exercise, read_all
from tools.grading.finding import COMMAND, Failed, Grade, show, wrapped
from tools.grading.grader import grade_file
from tools.grading.own_run import run_program
from tools.grading.roster import Deadline, read_roster, time_of
from tools.grading.run import named
from tools.grading.source import read
from tools.grading.state import Progress, Workspace, now, version_of
from tools.services.export import export_classroom, export_gradescope

KINDS = {"kernel": "kernel", "fault": "find the fault", "predict": "predict"}
POLL_S = 0.25  # while waiting for a save
# What an argument is, for argparse, and which commands have it.
OPTIONS: dict[str, dict[str, Any]] = {
    "--device": {"choices": ("auto", "cpu", "gpu"), "default": "auto"},
    "--seed": {"type": int, "help": "of the hidden problems; to see the same ones again"},
    "--all": {"action": "store_true", "help": "every exercise that was begun"},
    "--reveal": {"action": "store_true", "help": "also if it is not passed; for no points"},
    "--jobs": {"type": int, "default": os.cpu_count() or 1, "metavar": "N", "help": "files graded at a time"},
    "--out": {"metavar": "DIR", "required": True, "help": "where the results go"},
    "--exercises": {"metavar": "02,05", "help": "these alone; all by default"},
    "--roster": {"metavar": "FILE.csv", "help": "the class, as Moodle or Canvas exports it"},
    "--due": {"metavar": "TIME", "default": "", "help": "the deadline, as '2026-12-01 23:59'"},
    "--late": {"type": float, "default": 0, "metavar": "PERCENT", "help": "taken off for each day begun"},
    "--gradescope": {"metavar": "FILE.zip", "help": "the autograder; a folder without .zip"},
    "--github-classroom": {"metavar": "DIR", "help": "a template repository, without solutions"},
    "--assignment": {"metavar": "NAME", "default": "", "help": "the gradebook's column, of Canvas"},
    "folder": {"metavar": "FOLDER", "help": "holds a folder or a zip file for each student"},
    "options": {"metavar": "OPTION", "nargs": argparse.REMAINDER, "help": "--xray, --size 64, --help, ..."},
    "name": {"metavar": "NAME"},
    "maybe": {"metavar": "NAME", "nargs": "?"},
    "names": {"metavar": "NAME", "nargs": "*"},
}
COMMANDS = {
    "check": "names --all --device --seed",
    "run": "name options",
    "hint": "name",
    "watch": "maybe --device --seed",
    "solution": "name --reveal",
    "reset": "name",
    "grade": "folder --out --exercises --roster --due --late --assignment --jobs --device --seed",
    "export": "--exercises --gradescope --github-classroom",
}


def say(text: str = "") -> None:
    print(text, flush=True)


class Program:
    """One call of the program."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.build = Path(args.build)
        self.workspace = Workspace(Path(args.workspace))
        self.exercises = read_all()
        if not self.exercises:
            raise UsageError("there are no exercises in this repository")
        words = [os.environ.get("EXERCISES_COMMAND") or "exercises"]
        if Path(args.workspace) != ROOT / "my_exercises":
            words += ["--workspace", args.workspace]
        self.command = shlex.join(words)

    def typed(self, text: str) -> str:
        """A text with its commands as they were typed here."""
        return text.replace(COMMAND, self.command)

    def find(self, name: str) -> Exercise:
        """The exercise of this name, which may be cut short; 2 is 02."""
        whole = name.zfill(2) if name.isdecimal() else name
        names = [exercise.name for exercise in self.exercises]
        [found] = chosen([whole], names, "exercise")
        return self.exercises[names.index(found)]

    def named_exercises(self) -> list[Exercise]:
        """Those of --exercises, in order, or all."""
        names = (self.args.exercises or "").split(",")
        chosen = {self.find(name.strip()).name for name in names if name.strip()}
        return [e for e in self.exercises if not chosen or e.name in chosen]

    def next_exercise(self) -> Exercise | None:
        """The first that is neither passed nor given up."""
        state = self.workspace.load()
        return next((e for e in self.exercises if not state.get(e.name, Progress()).closed), None)

    # ---- Commands ----

    def overview(self) -> int:
        state = self.workspace.load()
        following = self.next_exercise()
        marks = [self.workspace.mark(e, state.get(e.name, Progress())) for e in self.exercises]
        points = sum(e.points for e, mark in zip(self.exercises, marks, strict=True) if mark in "x~")
        score = round(100 * points / sum(e.points for e in self.exercises), 1)
        passed = sum(entry.passed for entry in state.values())
        say(f"{passed} of {len(self.exercises)} exercises passed, score {score:g} %\n")
        for exercise, mark in zip(self.exercises, marks, strict=True):
            line = f"  [{mark}] {exercise.name:<26} {KINDS[exercise.kind]:<15} {exercise.title}"[:90]
            arrow = "  <- next" if exercise is following else ""
            say(line + arrow)
        legend = {"r": "[r] solution revealed, no points", "~": "[~] passed, and changed since"}
        if shown := [words for mark, words in legend.items() if mark in marks]:
            say("  " + "; ".join(shown))
        if following is None:
            say("\nThat was the last one.")
            return 0
        self.workspace.begin(following)
        self.introduce(following)
        return 0

    def introduce(self, exercise: Exercise) -> None:
        say(f"\n{exercise.name}: {exercise.title} ({KINDS[exercise.kind]})\n")
        say(self.typed(wrapped(exercise.task)))
        for question in exercise.questions:
            unit = f" ({question.unit})" if question.unit else ""
            say(wrapped(f"{question.id}: {question.asks}{unit}", "  - ", "    "))
        say(f"\n  edit   {self.workspace.shown(exercise)}")
        say(f"  grade  {self.command} check {exercise.name}")
        say(f"  stuck  {self.command} hint {exercise.name}")

    def check(self) -> int:
        if self.args.all == bool(self.args.names):
            raise UsageError("check needs the name of an exercise, or --all")
        chosen = [self.find(name) for name in self.args.names]
        chosen = chosen or [e for e in self.exercises if self.workspace.file(e).exists()]
        if not chosen:
            raise UsageError(f"{self.workspace.folder} holds no exercise that was begun")
        grades = []
        for exercise in chosen:
            try:
                grades.append(self.grade(exercise))
            except BuildError as error:
                if len(chosen) == 1:
                    raise
                say(f"{exercise.name}: not graded\n\n{wrapped(str(error))}")  # the others may do
        passed = sum(grade.passed for grade in grades)
        if len(chosen) > 1:
            say(f"\n{passed} of {len(chosen)} passed")
        return 2 if len(grades) < len(chosen) else int(passed < len(chosen))

    def grade(self, exercise: Exercise) -> Grade:
        """Grades the student's file, remembers the result and says it."""
        file = self.workspace.shown(exercise)
        source = ""
        try:
            source = self.workspace.read(exercise)
            grade = grade_file(exercise, self.build, source, file, self.args.device, self.args.seed)
        except Failed as failed:
            grade = Grade(failed.finding)
        with self.workspace.update(exercise) as progress:
            progress.attempts += 1
            if grade.passed:
                progress.passed_at = progress.passed_at or now()
                progress.device = grade.device
                progress.version = version_of(source)
        self.tell(exercise, grade, progress, source, file)
        return grade

    def tell(self, exercise: Exercise, grade: Grade, progress: Progress, source: str, file: str) -> None:
        name = exercise.name
        if grade.finding is None:
            where = "" if grade.device == "any" else f", {grade.device}"
            say(f"{name}: passed" + f" ({grade.seconds:.1f} s{where})")
        else:
            say(f"{name}: not yet" + f" ({grade.seconds:.1f} s)")
        if grade.finding is None or exercise.kind == "predict":
            for text in grade.notes:
                say(wrapped(text, "  + ", "    "))
        for warning in grade.warnings:
            say(self.typed(f"\n{show(warning, file, source)}"))
        if grade.finding is not None:
            if exercise.symptom and grade.finding.code == exercise.found and not progress.hints:
                say(
                    self.typed(f"\n{wrapped(exercise.symptom)}")
                    + "\n\n  What the check found is shown after the first hint."
                )
            else:
                say(self.typed(f"\n{show(grade.finding, file, source)}"))
            if progress.hints < HINTS:
                say(f"\n  Stuck? {self.command} hint {name} (hint {progress.hints + 1} of {HINTS})")
            return
        if progress.revealed:
            say("  The solution was revealed before: no points.")
        if exercise.kind == "predict":
            say("\n" + indent(exercise.solution.rstrip("\n"), "  "))
        say(f"\n  solution  {self.command} solution {name}")
        if following := self.next_exercise():
            say(f"  next      {self.command} ({following.name})")

    def run(self) -> int:
        """What the kernel prints is shown, and all that a step's program can tell."""
        exercise = self.find(self.args.name)
        if exercise.kind == "predict":
            raise UsageError(f"{exercise.name} has no kernel to run; see its task: {self.command}")
        file, options = self.workspace.shown(exercise), self.args.options
        gpu = "gpu" in options and "--device" in options
        try:
            source = self.workspace.read(exercise)
            toolchain = Toolchain(self.build, exercise.step)
            built = toolchain.compile(read(source, exercise.starter), source, gpu=gpu)
            program = toolchain.step_program(built, gpu=gpu)
        except Failed as failed:
            say(self.typed(show(failed.finding, file, source)))
            return 1
        if weak := isolation.weakness():
            say(wrapped(f"Note: {weak}.", ""))
        command = f"{self.command} run {self.args.name}"

        def tell(line: str) -> None:
            said = named(line, program, file).replace(str(program), command)
            say(re.sub(rf"^(?:Step )?{exercise.step}\b", exercise.name, said))

        status = run_program(program, options, tell, gpu=gpu)
        return status if status in (0, 2, 3) else 1

    def hint(self) -> int:
        exercise = self.find(self.args.name)
        self.workspace.begin(exercise)
        with self.workspace.update(exercise) as progress:
            number = min(progress.hints + 1, HINTS)
            if not progress.passed:
                progress.hints = number
        for n, text in enumerate(exercise.hints[:number], 1):
            say(self.typed(wrapped(text, f"{n} of {HINTS}: ", "        ")))
        return 0

    def watch(self) -> int:
        """Grades now and after each save, until Ctrl-C: one exercise, or the next whenever one is passed."""
        wanted = self.find(self.args.maybe) if self.args.maybe is not None else None
        exercise = wanted or self.next_exercise()
        with suppress(KeyboardInterrupt):
            while exercise is not None:
                seen = _stamp(self.workspace.begin(exercise))
                self.grade(exercise)
                before, exercise = exercise, wanted or self.next_exercise()
                if exercise is None:
                    break
                if exercise is not before:
                    self.introduce(exercise)
                    seen = _stamp(self.workspace.begin(exercise))
                say(f"\nwatching {self.workspace.shown(exercise)}; Ctrl-C ends")
                # An editor that saves by renaming takes the file away for a moment.
                while _stamp(self.workspace.file(exercise)) in (seen, None):
                    time.sleep(POLL_S)
                say()
            say("All exercises are done; name one to watch it.")
        return 0

    def solution(self) -> int:
        exercise = self.find(self.args.name)
        if not self.workspace.load().get(exercise.name, Progress()).closed:
            if not self.args.reveal:
                say(f"{exercise.name} is not passed yet. At once, for no points:")
                say(f"  {self.command} solution {exercise.name} --reveal")
                return 1
            with self.workspace.update(exercise) as progress:
                progress.revealed = not progress.passed
        say(exercise.solution.rstrip("\n"))
        return 0

    def reset(self) -> int:
        exercise = self.find(self.args.name)
        old = self.workspace.reset(exercise)
        kept = f"; what was there is {old.name} now" if old is not None else ""
        say(f"{self.workspace.shown(exercise)} is the starter again{kept}")
        return 0

    def grade_class(self) -> int:
        if self.args.jobs < 1:
            raise UsageError(f"--jobs is {self.args.jobs}; give 1 or more")
        seed = secrets.randbits(31) if self.args.seed is None else self.args.seed
        if weak := isolation.weakness():
            say(wrapped(f"Note: {weak}.", ""))
        out, exercises = Path(self.args.out), self.named_exercises()
        roster = read_roster(Path(self.args.roster)) if self.args.roster else None
        deadline = Deadline(time_of(self.args.due, "--due"), self.args.late)
        say(f"The hidden problems come from one number: --seed {seed} goes on after an interruption.")
        rows = grade_class(
            Path(self.args.folder), out, exercises, self.build, jobs=self.args.jobs, device=self.args.device,
            seed=seed, say=say, roster=roster, deadline=deadline, assignment=self.args.assignment,
            known=self.exercises,
        )  # fmt: skip
        say(f"\n{class_table(rows, exercises)}\n")
        say(
            f"Written: {out}/class.csv, {out}/class.json, {f'{out}/grades.csv, ' if roster else ''}and two "
            f"files for each student. The same problems again: --seed {seed}"
        )
        return 0

    def export(self) -> int:
        made = {export_gradescope: self.args.gradescope, export_classroom: self.args.github_classroom}
        if not any(made.values()):
            raise UsageError("export needs --gradescope FILE.zip or --github-classroom DIR")
        for make, out in made.items():
            if out:
                make(self.named_exercises(), self.build, Path(out))
                say(f"Written: {out}")
        return 0


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Changes when the file is saved; None if it is not there."""
    with suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return None


def arguments(words: list[str]) -> argparse.Namespace:
    parser = Parser(__doc__, prog="exercises")
    parser.add_argument("--build", default=BUILD, help="the build directory")
    parser.add_argument("--workspace", default=str(ROOT / "my_exercises"), metavar="DIR")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, options in COMMANDS.items():
        [about] = re.findall(rf"^  exercises {name}\b.*?  +(.*)", __doc__ or "", re.MULTILINE)
        command = commands.add_parser(name, help=about, description=about)
        for option in options.split():
            command.add_argument(option, **OPTIONS[option])
    args = parser.parse_args(words)
    args.command = args.command or "overview"
    return args


def main() -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no × shows a ? in its place
    args = arguments(sys.argv[1:])
    try:
        return getattr(Program(args), {"grade": "grade_class"}.get(args.command, args.command))()
    except OSError as error:
        if error.filename is None:  # a pipe that nobody reads
            raise
        raise UsageError(f"{error.filename}: {error.strerror}") from None
