"""Grades a kernel: says the first thing that is wrong with it, or that all is well. Standard library only.

In order: the rules (exercises_rules.py); it compiles; on small problems, every access checked, no fault and
the right result; the right result over the table of shapes and over random ones, all in one process and with
numbers that nobody knows beforehand; the kernel does the work, not sgemm() on the host; the exercise's goals;
on a GPU the right results there and the speed (exercises_gpu.py).
"""

import ast
import random
import re
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import exercises_rules
from exercises_build import BuildError, Built, DoesNotCompile, Toolchain
from exercises_content import Exercise, Goal, names_of
from exercises_finding import Finding, Grade
from exercises_run import Outcome, Problem, Runs, observed_problems, plain_problems, run
from exercises_words import ended_finding, fault_finding, host_finding, wrong_finding
from values import (
    MINE,
    STANDARD_PROBLEM,
    Comparison,
    Context,
    ExpressionError,
    NotAvailable,
    explain,
)


class Failed(Exception):
    """Grading ends with this finding."""

    def __init__(self, finding: Finding):
        super().__init__(finding.says)
        self.finding = finding


class Grader:
    """Grades kernels of one exercise. device: auto, cpu or gpu; seed: of the hidden problems, a secret by
    default; progress is told what is being done."""

    def __init__(
        self,
        exercise: Exercise,
        build: Path,
        device: str = "auto",
        seed: int | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ):
        self.exercise = exercise
        self.build = build
        self.device = device
        self.chooser = random.Random(secrets.randbits(64) if seed is None else seed)
        self.progress = progress

    def grade(self, source: str, file: str) -> Grade:
        """source: what the student wrote; file: how to name it. Raises BuildError."""
        begun = time.monotonic()
        grade = Grade(None)
        try:
            self._grade(source, file, grade)
        except Failed as failed:
            grade.finding = failed.finding
        except DoesNotCompile as error:
            grade.finding = error.finding
        grade.seconds = time.monotonic() - begun
        return grade

    def _grade(self, source: str, file: str, grade: Grade) -> None:
        starter = self.exercise.starter.read_text(encoding="utf-8")
        if finding := exercises_rules.check(source, starter):
            raise Failed(finding)
        toolchain = Toolchain(self.build, self.exercise.step)
        self.progress("compiling")
        gpu = self._gpu(toolchain, grade)
        built = toolchain.compile(source, gpu=gpu is not None)
        grade.device = gpu or "CPU device"
        self.progress("running")
        # Two cores or more: the table while the small problems are observed.
        with ThreadPoolExecutor(max_workers=1) as pool:
            plain_list = plain_problems(self.chooser)
            observed_list = observed_problems(self.chooser)
            runs = Runs()
            plain = pool.submit(run, built.program, plain_list, "--device", "cpu", source=file, runs=runs)
            try:
                observed = run(built.program, observed_list, "--check", source=file, runs=runs)
                self._judge(built, observed, observed_list, file)
                self._judge(built, plain.result(), plain_list, file)
            except BaseException:
                runs.stop()
                raise
        grade.notes.append(
            f"right over {len(plain_list) + len(observed_list)} problems; no race, no stray access, "
            "nothing read before it is written"
        )
        self.progress("taking the X-ray")
        context = Context(self.build, self.exercise.step, mine=built.folder)
        self._check_work(built, context, observed_list, file)
        if any("sass" in names_of(goal.check) for goal in self.exercise.goals):
            self.progress("compiling for the GPU")
            toolchain.compile(source, cubin=True)
        for goal in self.exercise.goals:
            self._check_goal(goal, context, grade)
        if gpu is not None:
            from exercises_gpu import check_on_gpu

            self.progress(f"running on the {gpu}")
            if finding := check_on_gpu(self.exercise, built, self.build, plain_list, file, grade.notes):
                raise Failed(finding)
        elif self.exercise.speed is not None:
            grade.notes.append("speed: not checked here, there is no GPU")

    def _gpu(self, toolchain: Toolchain, grade: Grade) -> str | None:
        """The GPU's name if this build and this machine can grade on it."""
        from exercises_gpu import gpu_here

        if self.device == "cpu":
            return None
        name, why_not = gpu_here(self.build, toolchain)
        if name is None and self.device == "gpu":
            raise BuildError(f"no GPU: {why_not}; leave out --device")
        return name

    # ---- Right and without faults ----

    def _judge(self, built: Built, outcome: Outcome, problems: list[Problem], file: str) -> None:
        if outcome.crash or outcome.timeout:
            raise Failed(ended_finding(outcome, file))
        right: set[str] = set()
        for record, problem in zip(outcome.records, problems, strict=True):
            if record["pass"]:
                right.add(problem.without_seed)
                continue
            raise Failed(self._explain(built, record, problem, problem.without_seed in right, file))

    def _explain(
        self, built: Built, record: dict[str, Any], problem: Problem, first_time_right: bool, file: str
    ) -> Finding:
        complaints = record["complaints"] or ["wrong result: unknown"]
        # A fault explains a wrong result, not the reverse.
        for complaint in complaints:
            if finding := fault_finding(complaint, file, problem):
                return finding
        finding = wrong_finding(complaints[0], problem, first_time_right)
        finding.line = self._line_of_store(built, problem, file)
        return finding

    def _line_of_store(self, built: Built, problem: Problem, file: str) -> int:
        """Where the kernel stores C, as far as this problem shows; 0 if it does not."""
        # A problem of its own if this one's sizes have no blocks.
        shape = problem if " 0" not in problem.options else Problem("--m 8 --n 8 --k 8")
        outcome = run(built.program, [shape], "--xray", timeout=20, source=file)
        rows = [row for record in outcome.records for row in _rows(record)]
        stores = [row for row in rows if row["array"] == "C" and row["operation"] == "store"]
        return next((row["line"] for row in stores if _is_mine(row)), 0)

    # ---- The kernel does the work ----

    def _check_work(self, built: Built, context: Context, problems: list[Problem], file: str) -> None:
        """All of C must be stored by the kernel, from A and B that it loaded. The X-ray first asks sgemm()
        for its launches with null for A, B and C: touching them on the host is found out."""
        aligned = Problem(
            f"--m {64 * self.chooser.randint(2, 5)} --n {64 * self.chooser.randint(2, 5)} "
            f"--k {32 * self.chooser.choice((1, 2, 3, 5))}"
        )
        m, n, k = STANDARD_PROBLEM
        standard = Problem(f"--m {m} --n {n} --k {k}")
        outcome = run(built.program, [problems[-1], aligned, standard], "--xray", source=file)
        if outcome.crash and "in the kernel" not in outcome.crash:
            raise Failed(host_finding())
        if outcome.crash or outcome.timeout:
            raise Failed(ended_finding(outcome, file))
        context.remember_xray(MINE, outcome.records[-1])
        for seen in outcome.records:
            m, n, k = _shape(seen)
            rows = _rows(seen)
            if not rows:
                raise Failed(_no_launch())
            for array, operations, elements in (
                ("C", ("store",), m * n),
                ("A", ("load", "copy"), m * k),
                ("B", ("load", "copy"), k * n),
            ):
                mine = [r for r in rows if r["array"] == array and r["operation"] in operations]
                # The distinct bytes of each warp's request: a lower bound that every honest kernel exceeds.
                done = sum(r["bytes_used"] for r in mine if r["space"] == "global") // 4
                if done < elements:
                    verb = "stores" if array == "C" else "loads"
                    raise Failed(
                        Finding(
                            "work not done",
                            f"The kernel {verb} {done} elements of {array} with M = {m}, N = {n}, K = {k}, "
                            f"and {array} has {elements}: the work is not done by the kernel.",
                            next((r["line"] for r in mine if _is_mine(r)), 0),
                            look="sgemm(), which may only launch; the kernel must compute all of C.",
                        )
                    )
        _check_same_way(outcome.records[1], outcome.records[2], aligned)

    # ---- Goals ----

    def _check_goal(self, goal: Goal, context: Context, grade: Grade) -> None:
        try:
            evaluation = explain(goal.check, context)
        except NotAvailable as reason:
            if "is not built" in str(reason):
                raise BuildError(f"{reason}; run `meson compile -C {self.build}` first") from None
            why = "there is no nvcc" if "sass" in names_of(goal.check) else str(reason)
            grade.notes.append(f"not checked here, {why}: {goal.says}")
            return
        except ExpressionError as error:
            said = str(error).replace(MINE, "your kernel")
            raise Failed(
                Finding("goal", f"Right, but not there yet: {goal.says}", 0, [f"{said}."], goal.look)
            ) from None
        if evaluation.value is True:
            grade.notes.append(goal.says)
            return
        wrong = [c for c in evaluation.comparisons if not c.holds] or evaluation.comparisons
        raise Failed(
            Finding(
                "goal",
                f"Right, but not there yet: {goal.says}",
                _line_of_goal(goal.check, context),
                [sides(comparison) for comparison in wrong[:2]],
                goal.look,
            )
        )


def _check_same_way(hidden: dict[str, Any], standard: dict[str, Any], problem: Problem) -> None:
    """What the goals are checked on must be what happens with other sizes, too."""

    def way(record: dict[str, Any]) -> set[tuple[str, str, int]]:
        return {
            (kernel["kernel"], row["array"], row["line"])
            for kernel in record["xray"]["kernels"]
            for row in kernel["accesses"]
            if row["space"] == "global" and _is_mine(row)
        }

    if missing := way(standard) - way(hidden):
        kernel, array, line = min(missing)
        m, n, k = STANDARD_PROBLEM
        raise Failed(
            Finding(
                "another way",
                f"With M = {m}, N = {n}, K = {k}, where the goals are checked, {kernel} accesses {array} "
                f"here; with {problem} it does not.",
                line,
                look="what the sizes decide: multiples of 4 may take a faster way, and all of them the same.",
            )
        )


def _no_launch() -> Finding:
    return Finding(
        "work not done",
        "sgemm() launches no kernel that touches A, B and C: the work is not done by the kernel.",
        look="launch(kernel, grid, block, 0, g) in sgemm().",
    )


def _rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for kernel in record["xray"]["kernels"] for row in kernel["accesses"]]


def _is_mine(row: dict[str, Any]) -> bool:
    return str(row["file"]).endswith("kernel.cu")


def _shape(record: dict[str, Any]) -> tuple[int, int, int]:
    return record["m"], record["n"], record["k"]


def _line_of_goal(check: str, context: Context) -> int:
    """The line that most likely misses the goal: of the accesses that it speaks of, the most expensive."""
    try:
        rows = [row for row in _rows(context.xray_record(MINE)) if _is_mine(row)]
    except (NotAvailable, ExpressionError):
        return 0
    wanted: list[dict[str, Any]] = []
    for node in ast.walk(ast.parse(check.strip(), mode="eval")):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if "mine" not in ast.unparse(node.func) or node.func.attr not in ("load", "store", "copy", "access"):
            continue
        texts = [a.value for a in node.args[:1] if isinstance(a, ast.Constant)]
        texts += [
            k.value.value for k in node.keywords if k.arg == "array" and isinstance(k.value, ast.Constant)
        ]
        wanted += [
            row
            for row in rows
            if (not texts or row["array"] == texts[0]) and node.func.attr in (row["operation"], "access")
        ]
    if not wanted and "xray(mine)" in check.replace(" ", ""):
        space = "shared" if re.search(r"\.(shared_\w+|excess|conflicts)", check) else "global"
        wanted = [row for row in rows if row["space"] == space]

    def cost(row: dict[str, Any]) -> float:
        if row["space"] == "global":
            return row["sectors"] / max(row["requests"], 1)
        return row["wavefronts"] - row["ideal_wavefronts"]

    return max(wanted, key=cost)["line"] if wanted else 0


def sides(comparison: Comparison) -> str:
    """A comparison that failed, in words: what it is, and what it should be."""

    def number(value: object) -> str:
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    words = {"==": "", "!=": "other than ", "<": "below ", "<=": "at most ", ">": "above ", ">=": "at least "}
    c = comparison
    wish = words.get(c.sign, f"{c.sign} ") + number(c.right_value)
    of = f" ({c.right})" if not re.fullmatch(r"[\d.+*/ -]+", c.right) else ""
    left = c.left.replace("xray(mine).", "").replace("sass(mine).", "")
    return f"{_source(c.left)}: {left} is {number(c.left_value)}; it should be {wish}{of}."


def _source(expression: str) -> str:
    """Where a value comes from, in words."""
    names = names_of(expression)
    return "X-ray" if "xray" in names else "machine code" if "sass" in names else "your file"
