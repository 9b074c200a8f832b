"""Grades a kernel: says the first thing that is wrong with it, or that all is well. Standard library only.

In order: the rules (rules.py); it compiles; on small problems of fixed and of random sizes, with numbers that
nobody knows beforehand, no fault and the right result; the kernel does the work, not the host, and without
fault on larger problems, too; the exercise's goals (goals.py); on a GPU the right results there and the
speed (gpu.py).
"""

import json
import random
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.base import write_json
from tools.claims.context import MINE, STANDARD_PROBLEM
from tools.claims.objects import rows_of
from tools.grading.budget import Budget
from tools.grading.build import BuildError, Built, Toolchain
from tools.grading.content import Exercise
from tools.grading.finding import COMMAND, Failed, Finding, Grade, graded
from tools.grading.goals import Elsewhere, check_elsewhere, check_goal, holds_nearly, is_mine
from tools.grading.gpu import check_on_gpu, compile_step, gpu_here
from tools.grading.predict import grade_answers
from tools.grading.run import (
    BELOW,
    TALL,
    WIDE,
    Outcome,
    Problem,
    aligned_problem,
    ragged_problem,
    run,
    small_problems,
)
from tools.grading.source import read
from tools.grading.state import version_of
from tools.grading.words import FIRST, ended_finding, fault_finding, forgotten_shared, wrong_finding

UNITS = (64, 128, 256)  # of the sizes on which goals are checked
Record = dict[str, Any]
Sizes = tuple[int, int, int]
RAGGED = TALL, WIDE, BELOW  # of the ragged problems
EXPECTED: dict[tuple[Path, str], list[list[bool]]] = {}  # of Grader.expected(), for a class
LATEST_UNITS: dict[str, list[int]] = {}  # that an exercise's latest kernel needed, for a class


def grade_file(exercise: Exercise, build: Path, source: str, file: str, *how: Any) -> Grade:
    """Grades a student's file of any kind. file: how to name it; how: as for Grader. Raises BuildError."""
    if exercise.kind == "predict":
        return grade_answers(exercise, build, source)
    return Grader(exercise, build, *how).grade(source, file)


@dataclass
class Grader:
    """Grades a kernel of one exercise. device: auto, cpu or gpu; seed: of the hidden problems, a secret by
    default; budget: the time for all of it, as usual by default; machine_code: whether nvcc, where there is
    one, is asked for remarks, which do not count and take a quarter of the time."""

    exercise: Exercise
    build: Path
    device: str = "auto"
    seed: int | None = None
    budget: Budget | None = None
    machine_code: bool = True

    def __post_init__(self) -> None:
        self.seed = secrets.randbits(31) if self.seed is None else self.seed
        self.chooser = random.Random(self.seed)

    def grade(self, source: str, file: str) -> Grade:
        """source: what the student wrote; file: how to name it. Raises BuildError."""
        self.file = file
        self.time = self.budget or Budget()
        with graded() as grade:
            self._grade(source, grade)
        return grade

    def _grade(self, source: str, grade: Grade) -> None:
        toolchain = Toolchain(self.build, self.exercise.step)
        code = read(source, self.exercise.starter)
        gpu, why_not = (None, "") if self.device == "cpu" else gpu_here(self.build, toolchain)
        if gpu is None and self.device == "gpu":
            raise BuildError(f"{why_not}; leave out --device")
        self.built = built = toolchain.compile(code, source, gpu=gpu is not None)
        grade.device = gpu or "CPU device"
        grade.warnings = built.warnings
        small = small_problems(self.chooser)
        self._judge(self._run(small, "--check"), small)
        grade.notes.append(
            f"right over {len(small)} problems; no race, no stray access, nothing read before it is written"
        )
        if self.machine_code and toolchain.has_nvcc:
            try:
                toolchain.compile_machine_code(built)
            except Failed as failed:
                grade.warnings.append(failed.finding)
        self._check_goals(toolchain, *self._check_work(), grade)
        if gpu is not None:
            speed = self.exercise.speed
            over = compile_step(self.build, speed.over) if speed else None
            check_on_gpu(self.exercise, built, over, small, self.file, grade.notes)
        elif self.exercise.speed is not None:
            grade.notes.append("speed: not checked here, there is no GPU")

    def _run(self, problems: list[Problem], *options: str) -> Outcome:
        if self.time.left <= 0:
            raise Failed(self.time.finding())
        outcome = run(self.built, problems, *options, source=self.file, total=self.time.left)
        if self.time.left <= 0 and outcome.crash:
            raise Failed(self.time.finding())
        return outcome

    def _fail(self, finding: Finding, problem: Problem | None) -> None:
        """Raises Failed; of a hidden problem it says how to meet it again."""
        if problem is not None and problem.hidden:
            again = f"`{COMMAND} check {self.exercise.name} --seed {self.seed}`"
            finding.details.append(f"To meet the same sizes and numbers again: {again}.")
        raise Failed(finding)

    # ---- Right and without faults ----

    def _judge(self, outcome: Outcome, problems: list[Problem]) -> None:
        if outcome.crash:
            self._fail_at_end(outcome)
        for record, problem in zip(outcome.records, problems, strict=True):
            if not record["pass"]:
                self._fail_at(record, problem)

    def _fail_at(self, record: Record, problem: Problem) -> None:
        """Says why a problem's result, or the way to it, is not right."""
        complaints = record["complaints"] or ["wrong result: unknown"]
        # A fault explains a wrong result, not the reverse; and swapped rows and columns, which square
        # matrices reveal, explain an index that is too large.
        for complaint in sorted(complaints, key=lambda text: not text.startswith(FIRST)):
            if finding := fault_finding(complaint, self.file, problem):
                square = Problem("--size 40 --seed 3")
                if finding.code == "out-of-bounds access to global memory" and problem != square:
                    for other in self._run([square], "--check").records:
                        if any("transposed" in text for text in other["complaints"]):
                            self._fail_at(other, square)
                self._fail(finding, problem)
        finding = wrong_finding(complaints[0], problem, self.exercise.look)
        known = self.exercise.solution if self.exercise.has_solution else self.exercise.starter
        if private := forgotten_shared(finding, self.built.source, known):
            raise Failed(private)
        finding.line = self._line_of_store(problem)
        self._fail(finding, problem)

    def _fail_at_end(self, outcome: Outcome) -> None:
        """Says why the program crashed or did not end."""
        self._fail(ended_finding(outcome, self.file, self.built.source), outcome.at)

    def _line_of_store(self, problem: Problem) -> int:
        """Where the kernel stores C, as far as this problem shows; 0 if it does not."""
        # A problem of its own if this one's sizes have no blocks.
        shape = problem if " 0" not in problem.options else Problem("--m 8 --n 8 --k 8")
        outcome = self._run([shape], "--xray")
        rows = [row for record in outcome.records for row in rows_of(record)]
        stores = [row for row in rows if row["array"] == "C" and row["operation"] == "store"]
        return next((row["line"] for row in stores if is_mine(row)), 0)

    # ---- The kernel does the work ----

    def _check_work(self) -> tuple[Elsewhere, dict[Sizes, Elsewhere]]:
        """The kernel must be right and free of faults on larger problems, too. Returns the X-rays of one of
        whole tiles, and of ragged ones."""
        below, above = ragged_problem(self.chooser, BELOW), self.chooser.choice((TALL, WIDE))
        problems = [below, ragged_problem(self.chooser, above)]
        # One program for all problems takes less time, and most kernels of an exercise need the same ones.
        state = self.chooser.getstate()
        guessed = [aligned_problem(self.chooser, unit) for unit in LATEST_UNITS.get(self.exercise.name, [])]
        self.chooser.setstate(state)
        known = self._take_xrays_ahead(problems, guessed)
        records = [known[problem] for problem in problems]
        units = []
        # Where the matrix ends within a tile, an honest kernel's counts differ. A square tile has this edge;
        # if there are as many blocks for any sizes, nobody knows it.
        of_small, of_large = (max(record["xray"]["blocks"], 1) for record in records)
        edge = (above[0] * above[1] / of_large) ** 0.5 if of_small < of_large else UNITS[-1]
        for unit in [u for u in UNITS if u >= min(edge, UNITS[-1])]:
            units.append(unit)
            problem = aligned_problem(self.chooser, unit)
            problems.append(problem)
            records += [known[problem]] if problem in known else self._take_xrays([problem])
            if _whole_tiles(records[-1], records[1], above):
                break
        LATEST_UNITS[self.exercise.name] = units
        of_below, of_above, *_, whole = map(self._elsewhere, records, problems)
        return whole, {above: of_above, BELOW: of_below}

    def _check_goals(
        self, toolchain: Toolchain, whole: Elsewhere, ragged: dict[Sizes, Elsewhere], grade: Grade
    ) -> None:
        """Checks them on hidden problems. If a goal is missed, the standard problem says why, if it can: its
        sizes are always the same."""
        reached: list[str] = []
        remarks: list[Finding] = []
        try:
            for goal in self.exercise.goals:
                check_goal(goal, whole, reached, remarks)
            self._check_ragged(toolchain, ragged)
            grade.notes += reached
            grade.warnings += remarks
            return
        except Failed as failed:
            missed = failed
        problem = Problem("--m {} --n {} --k {}".format(*STANDARD_PROBLEM))
        [record] = self._take_xrays([problem])
        standard = self._elsewhere(record, problem)
        for goal in self.exercise.goals:
            check_goal(goal, standard, grade.notes, grade.warnings)
        for goal in self.exercise.goals:
            if finding := check_elsewhere(goal, whole):
                self._fail(finding, whole.problem)
        raise missed

    def _elsewhere(self, record: Record, problem: Problem, built: Built | None = None) -> Elsewhere:
        context = Elsewhere(self.build, self.exercise.step, mine=(built or self.built).folder)
        context.shape, context.problem = _shape(record), problem
        context.remember_xray(MINE, record)
        return context

    def _check_ragged(self, toolchain: Toolchain, ragged: dict[Sizes, Elsewhere]) -> None:
        """What the solution reaches for ragged sizes, too, the kernel must nearly reach: other tiles will do
        there, but not another idea."""
        for sizes, context in ragged.items():
            for goal, expected in zip(self.exercise.goals, self.expected(toolchain, sizes), strict=True):
                if finding := check_elsewhere(goal, context, expected):
                    self._fail(finding, context.problem)

    def expected(self, toolchain: Toolchain, sizes: Sizes) -> list[list[bool]]:
        """Of each goal which clauses the solution nearly reaches for ragged sizes; kept with the solution."""
        if self.exercise.ragged or not self.exercise.goals:
            return self.exercise.ragged[RAGGED.index(sizes)] if self.exercise.ragged else []
        source = self.exercise.solution
        name = f"ragged-{version_of(repr((self.exercise.name, self.exercise.goals, sizes, source)))}.json"
        if (key := (toolchain.build, name)) not in EXPECTED:
            EXPECTED[key] = self._nearly_reached(toolchain, name, sizes)
        return EXPECTED[key]

    def _nearly_reached(self, toolchain: Toolchain, name: str, sizes: Sizes) -> list[list[bool]]:
        source = self.exercise.solution
        solution = toolchain.compile(read(source, self.exercise.starter), source)
        with suppress(OSError, ValueError):
            return json.loads((solution.folder / name).read_text())
        problem = ragged_problem(random.Random(0), sizes)
        outcome = run(solution, [problem], "--xray")
        if outcome.crash or not outcome.records[0]["pass"]:
            raise BuildError(f"{self.exercise.name}: the solution fails with {problem}: {outcome}")
        context = self._elsewhere(outcome.records[0], problem, solution)
        expected = [holds_nearly(goal.check, context) for goal in self.exercise.goals]
        write_json(solution.folder / name, expected)
        return expected

    def _take_xrays_ahead(self, problems: list[Problem], guessed: list[Problem]) -> dict[Problem, Record]:
        """The X-rays of some problems, and of others that may be needed, but for those in which the kernel
        is wrong: these do not count before they are needed."""
        outcome = self._run([*problems, *guessed], "--xray")
        if outcome.crash and outcome.at in guessed:
            outcome = self._run(problems, "--xray")
        self._judge(Outcome(outcome.records[: len(problems)], outcome.crash, outcome.at), problems)
        records = zip([*problems, *guessed], outcome.records, strict=False)
        return {problem: record for problem, record in records if record["pass"]}

    def _take_xrays(self, problems: list[Problem]) -> list[Record]:
        """The X-rays of some problems in which the kernel is right."""
        outcome = self._run(problems, "--xray")
        self._judge(outcome, problems)
        return outcome.records


def _shape(record: Record) -> tuple[int, int, int]:
    return record["m"], record["n"], record["k"]


def _whole_tiles(record: Record, ragged: Record, below: Sizes) -> bool:
    """Whether blocks that divide the sizes just above the ragged problem's divide this one."""
    (m, n, _), (m0, n0, _) = _shape(record), below
    return record["xray"]["blocks"] * m0 * n0 == ragged["xray"]["blocks"] * m * n
