"""Compiles mutants as the build compiles the steps, runs them over the steps' problems, and says what rejects
them. mutate.py has put common/ on the path."""

import functools
import hashlib
import inspect
import json
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

from generate import Mutant, for_cpu
from tools.base import UsageError, is_library
from tools.kernel_build import KernelBuild

ROOT = Path(__file__).resolve().parents[2]
ALL_STEPS = sorted(p.parent.name for p in ROOT.glob("steps/*/kernel.cu"))
STEPS = [step for step in ALL_STEPS if step >= "03" and not is_library(step)]
NOT_COMPILED, SURVIVED, SAME_CODE = "does not compile", "survived", "same code"
SOON_S = 30  # in which most mutants are rejected
VERIFICATION = ("wrong result", "write outside of a matrix")

Verdict = dict[str, object]  # "by": what rejected it, "problems": the table's lines, "said": its first words


def kernel_of(step: str) -> str:
    return f"steps/{step}/kernel.cu"


@functools.cache
def files_of(step: str) -> dict[str, str]:
    """What is mutated of that which the step compiles: paths from the project's root, and the texts."""
    found: dict[str, str] = {}
    waiting = [kernel_of(step)]
    while waiting:
        if (file := waiting.pop()) in found:
            continue
        found[file] = (ROOT / file).read_text()
        waiting += [
            name
            for name in re.findall(r'^#include "([^"]+)"', for_cpu(found[file]), re.MULTILINE)
            if name.startswith(("common/", "steps/")) and not name.startswith("common/cpu_device/")
        ]
    kernel = re.compile(r"\b__(?:device|global)__\b")
    return {f: text for f, text in sorted(found.items()) if f[0] == "s" or kernel.search(for_cpu(text))}


def problems_of(*names: str) -> list[str]:
    """The lines of those of these tables that there are."""
    tables = [table for name in names if (table := ROOT / "tests" / f"{name}.txt").exists()]
    lines = [line for table in tables for line in table.read_text().splitlines()]
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


class Builder:
    """Compiles mutants of a step with the commands of a build directory, and runs them."""

    def __init__(self, build: Path, step: str, scratch: Path):
        self.build, self.step, self.scratch = build, step, scratch
        self.commands = KernelBuild(build, step)
        program = build / "steps" / step / "run"
        if "observed" not in self.commands.units:
            raise UsageError(f"{build} cannot observe {step}; configure it with GCC, then compile")
        if missing := [path for path in (program, *self.commands.linked) if not path.exists()]:
            raise UsageError(f"{missing[0]} is missing; compile first")
        # Over which the tests run it: its own first, which are about what it has more. In some of them
        # --check starves warps, and goes over the others once.
        own, large = f"shapes_{step[3:]}", "shapes_large_tiles"
        self.problems = problems_of(own, "shapes", large, "shapes_far")
        self.starved = problems_of(own, "shapes_starved", large)
        self.once = [line for line in self.problems if line not in self.starved]
        self.table = hashlib.sha256("\n".join([*self.problems, *self.starved]).encode()).hexdigest()
        # What a verdict depends on, but for the mutant and the problems.
        parts = program.read_bytes() + inspect.getsource(Builder).encode()
        self.environment = hashlib.sha256(parts).hexdigest()
        self.lock = threading.Lock()
        self.originals: dict[str, bytes] = {}  # by kind

    @functools.cached_property
    def longest_s(self) -> float:
        """How long a mutant may run, which only one that does not end soon has to know."""
        started = time.monotonic()
        command = [self.build / "steps" / self.step / "run", "--device", "cpu", "--repeat", "0"]
        cases = self.scratch / f"{self.step}.txt"
        cases.write_text("\n".join(self.problems))
        if subprocess.run([*command, "--cases", cases], capture_output=True).returncode:
            raise UsageError(f"{self.step} fails unchanged")
        return SOON_S + 10 * (time.monotonic() - started)

    def compile(self, edited: dict[str, str], name: str, kinds: tuple[str, ...]) -> dict[str, Path]:
        """Objects by kind, with these texts for some of the step's files; CalledProcessError if it does not
        compile."""
        folder = self.scratch / self.step / name
        for file, text in (files_of(self.step) | edited).items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        source = folder / kernel_of(self.step)
        objects = {}
        for kind in kinds:
            words = self.commands.units[kind]
            # Equal code is to make equal objects: neither paths nor columns in them.
            equal = [f"-ffile-prefix-map={folder}=.", "-gno-column-info", "-w"]
            objects[kind] = folder / f"{kind}.o"
            command = [words[0], f"-I{folder}", *words[1:], *equal]
            self.commands.compile(command, source, objects[kind]).check_returncode()
        return objects

    def linked(self, objects: dict[str, Path], name: str) -> Path:
        program = self.scratch / self.step / name / "run"
        self.commands.link_program(program, **objects).check_returncode()
        return program

    def is_unchanged(self, objects: dict[str, Path], kind: str) -> bool:
        """Whether the compiler makes of it what it makes of the kernel as it is. Few are asked that."""
        with self.lock:
            if kind not in self.originals:
                self.originals[kind] = self.compile({}, "unchanged", (kind,))[kind].read_bytes()
        return objects[kind].read_bytes() == self.originals[kind]

    def run(self, program: Path, problems: list[str], *options: str) -> Verdict:
        """What the problems say about a program. Two that reject it are enough; what --check says of one does
        not depend on its numbers."""
        cases = program.with_name("cases.txt")
        cases.write_text("\n".join(problems))
        command = [program, "--device", "cpu", "--repeat", "0", "--cases", cases, *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
        )
        ended, late = threading.Event(), threading.Event()

        def limit() -> None:
            if not ended.wait(SOON_S):
                with self.lock:
                    longest = self.longest_s * (5 if options else 1)
                if not ended.wait(longest - SOON_S):
                    late.set()
                    process.kill()

        threading.Thread(target=limit).start()
        results, failed, said, line = 0, [], "", ""
        for line in process.stdout:
            if failed and not said:
                said = line.strip()
            if re.search(r"  (PASS|FAIL)$", line):
                failed += [problems[results]] if line.endswith("FAIL\n") else []
                results += 1
                if len(failed) == (1 if options else 2) and said:
                    process.kill()
        status = process.wait()
        ended.set()
        if failed:
            by = said.split(":")[0]
            by = "verification" if by in VERIFICATION else by
            return {"by": by, "problems": failed[:2], "said": said}
        if status == 0 and results == len(problems):
            return {"by": SURVIVED, "problems": [], "said": ""}
        by = "time limit" if late.is_set() else "crash"
        return {"by": by, "problems": problems[results : results + 1], "said": line.strip()}

    def judge(self, mutant: Mutant) -> Verdict:
        name = hashlib.sha256((mutant.file + mutant.text).encode()).hexdigest()[:16]
        edited = {mutant.file: mutant.text}
        try:
            objects = self.compile(edited, name, ("cpu",))
            verdict = self.run(self.linked(objects, name), self.problems)
            # Rejected nowhere or at one problem: what does --check see?
            if len(verdict["problems"]) <= 1 and verdict["by"] in (SURVIVED, "verification"):
                same = verdict["by"] == SURVIVED and self.is_unchanged(objects, "cpu")
                objects |= self.compile(edited, name, ("observed",))
                if same and self.is_unchanged(objects, "observed"):
                    return verdict | {"by": SAME_CODE}
                program = self.linked(objects, name)
                checked = self.run(program, self.starved, "--check")
                if checked["by"] == SURVIVED:
                    checked = self.run(program, self.once, "--check", "--schedules", "1")
                verdict = (checked if verdict["by"] == SURVIVED else verdict) | {"checked": checked["by"]}
                if verdict["by"] == SURVIVED and same:
                    verdict["by"] = SAME_CODE
            return verdict
        except subprocess.CalledProcessError as error:
            errors = [line for line in error.stdout.splitlines() if "error" in line]
            return {"by": NOT_COMPILED, "problems": [], "said": errors[0] if errors else ""}
        finally:
            shutil.rmtree(self.scratch / self.step / name)


class Judge:
    """Verdicts, of earlier runs where nothing has changed on which they depend."""

    def __init__(self, path: Path, builders: dict[str, Builder]):
        self.path, self.builders, self.lock = path, builders, threading.Lock()
        self.verdicts: dict[str, Verdict] = {}
        if path.exists():
            self.verdicts = dict(json.loads(line) for line in path.read_text().splitlines())

    def verdict(self, mutant: Mutant) -> Verdict:
        """Of the first step that rejects it; that it survives, if in three it makes another program."""
        found: list[Verdict] = []
        for step in self.builders:
            if mutant.file in files_of(step) and len(found) < 3:
                verdict = self.of_step(self.builders[step], mutant)
                if verdict["by"] not in (SURVIVED, SAME_CODE):
                    return verdict
                found += [verdict] if verdict["by"] == SURVIVED else []
        return found[0] if found else {"by": SAME_CODE, "problems": [], "said": ""}

    def of_step(self, builder: Builder, mutant: Mutant) -> Verdict:
        key = hashlib.sha256((builder.environment + mutant.file + mutant.text).encode()).hexdigest()
        verdict = self.verdicts.get(key, {"by": "", "table": "", "problems": []})
        # What several problems reject is rejected by any table that still has the first of them.
        rejected = len(verdict["problems"]) > 1 and verdict["problems"][0] in builder.problems
        if verdict["table"] != builder.table and verdict["by"] != NOT_COMPILED and not rejected:
            verdict = builder.judge(mutant) | {"table": builder.table}
            with self.lock, self.path.open("a") as file:
                self.verdicts[key] = verdict
                file.write(json.dumps([key, verdict]) + "\n")
        return verdict
