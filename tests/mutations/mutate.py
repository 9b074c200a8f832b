#!/usr/bin/env python3
"""Changes the steps' kernels in one place at a time and sees whether the tests reject each change.

  mutate.py [STEP ...] [--sample N] [--every REGEX] [--list] [--build DIR] [--table FILE]

A mutant is compiled as the build compiles the step, and run over tests/shapes.txt: plain, and with --check if
that passes. One that survives both must be named in equivalent.toml, with the reason why it is right on every
problem; a reason that no survivor needs is an error, too. The sample is the same in every run, and what has
been run before is not run again. Examples:

  mutate.py --sample 16 --every '^(barrier|comparison|guard)' --table tests/mutations/table.md
  mutate.py 06_vectorization --sample 0 --every 'valid > 0'

The first makes the table that is kept. Two cores judge about 30 mutants a minute.

Exit status: 0 every mutant is rejected or explained, 1 not, 2 bad usage. Standard library only.
"""

import argparse
import hashlib
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from generate import OPERATORS, Mutant, mutants, sample

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "common"))
from tools.base import UsageError, is_library, run_program  # noqa: E402
from tools.kernel_build import KernelBuild  # noqa: E402

SHAPES = ROOT / "tests" / "shapes.txt"
ALL_STEPS = sorted(p.parent.name for p in ROOT.glob("steps/*/kernel.cu"))
STEPS = [step for step in ALL_STEPS if step >= "03" and not is_library(step)]
NOT_COMPILED, SURVIVED, SAME_CODE = "does not compile", "survived", "same code"
VERIFICATION = ("wrong result", "write outside of a matrix")

HEADER = """# Mutations of the kernels

Made by `tests/mutations/mutate.py {options}`; do not edit.

A mutant is a step's kernel with one change, run over [the problems of every test](../shapes.txt): plain, then
with every access checked. Columns say what rejected it first; `same code`: the compiler makes of it what it
makes of the kernel; `survived`: right on every problem, for a reason given below.
"""

Verdict = dict[str, object]  # "by": what rejected it, "problems": the table's lines, "said": its first words


class Builder:
    """Compiles mutants of a step with the commands of a build directory, and runs them."""

    def __init__(self, build: Path, step: str, scratch: Path):
        self.build, self.step, self.scratch = build, step, scratch
        self.commands = KernelBuild(build, step)
        program = build / "steps" / step / "run"
        if "observed" not in self.commands.units:
            raise UsageError(f"{build} cannot observe {step}; configure it with GCC, then compile")
        if not program.exists():
            raise UsageError(f"{program} is missing; compile first")
        # What a verdict depends on, but for the mutant and the problems.
        parts = [program.read_bytes(), inspect.getsource(Builder).encode()]
        self.environment = hashlib.sha256(b"".join(parts)).hexdigest()

        self.prepared = False
        self.lock = threading.Lock()

    def prepare(self) -> None:
        """Sees, once, how the unchanged kernel compiles and how long it runs."""
        source = (ROOT / "steps" / self.step / "kernel.cu").read_text()
        objects = self.compile(source, "unchanged", ("cpu", "observed"))
        self.original, self.observed = objects["cpu"].read_bytes(), objects["observed"]
        started = time.monotonic()
        self.limit = 600.0
        verdict = self.run(self.linked(objects, "unchanged"), [])
        self.limit = 30 + 10 * (time.monotonic() - started)
        self.check_limit = self.limit * 5
        if verdict["by"] != SURVIVED:
            raise UsageError(f"{self.step} fails unchanged: {verdict['said']}")
        self.prepared = True

    def compile(self, source: str, name: str, kinds: Iterable[str]) -> dict[str, Path]:
        """Objects by kind; CalledProcessError if it does not compile."""
        folder = self.scratch / self.step / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.cu").write_text(source)
        objects = {}
        for kind in kinds:
            # Equal code is to make equal objects: no path in them.
            command = [*self.commands.units[kind], f"-ffile-prefix-map={folder}=.", "-w"]
            objects[kind] = folder / f"{kind}.o"
            self.commands.compile(command, folder / "kernel.cu", objects[kind]).check_returncode()
        return objects

    def linked(self, objects: dict[str, Path], name: str) -> Path:
        program = self.scratch / self.step / name / "run"
        self.commands.link_program(program, **objects).check_returncode()
        return program

    def run(self, program: Path, options: list[str]) -> Verdict:
        """What the table says about a program. Two problems that reject it are enough."""
        command = [program, "--device", "cpu", "--repeat", "0", "--cases", SHAPES, *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
        )
        late = threading.Event()
        timer = threading.Timer(
            self.check_limit if options else self.limit, lambda: (late.set(), process.kill())
        )
        timer.start()
        results, failed, said, line = 0, [], "", ""
        for line in process.stdout:
            if failed and not said:
                said = line.strip()
            if re.search(r"  (PASS|FAIL)$", line):
                failed += [problems()[results]] if line.endswith("FAIL\n") else []
                results += 1
                if len(failed) == 2 and said:
                    process.kill()
        timer.cancel()
        status = process.wait()
        if failed:
            by = said.split(":")[0]
            by = "verification" if by in VERIFICATION else by
            return {"by": by, "problems": failed[:2], "said": said}
        if status == 0 and results == len(problems()):
            return {"by": SURVIVED, "problems": [], "said": ""}
        by = "time limit" if late.is_set() else "crash"
        return {"by": by, "problems": problems()[results : results + 1], "said": line.strip()}

    def judge(self, mutant: Mutant) -> Verdict:
        with self.lock:
            if not self.prepared:
                self.prepare()
        name = hashlib.sha256(mutant.source.encode()).hexdigest()[:16]
        try:
            objects = self.compile(mutant.source, name, ("cpu",))
            verdict = self.run(self.linked(objects | {"observed": self.observed}, name), [])
            # Rejected nowhere or at one problem: what does --check see?
            if len(verdict["problems"]) <= 1 and verdict["by"] in (SURVIVED, "verification"):
                objects |= self.compile(mutant.source, name, ("observed",))
                checked = self.run(self.linked(objects, name), ["--check"])
                verdict = (checked if verdict["by"] == SURVIVED else verdict) | {"checked": checked["by"]}
                if verdict["by"] == SURVIVED and objects["cpu"].read_bytes() == self.original:
                    verdict["by"] = SAME_CODE
        except subprocess.CalledProcessError as error:
            errors = [line for line in error.stdout.splitlines() if "error" in line]
            return {"by": NOT_COMPILED, "problems": [], "said": errors[0] if errors else ""}
        shutil.rmtree(self.scratch / self.step / name)
        return verdict


def problems() -> list[str]:
    lines = [line.strip() for line in SHAPES.read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


class Cache:
    """Verdicts of earlier runs, by everything that they depend on."""

    def __init__(self, path: Path):
        self.path, self.lock = path, threading.Lock()
        self.table = hashlib.sha256("\n".join(problems()).encode()).hexdigest()
        self.verdicts: dict[str, Verdict] = {}
        if path.exists():
            self.verdicts = dict(json.loads(line) for line in path.read_text().splitlines())

    def get(self, builder: Builder, mutant: Mutant) -> Verdict:
        key = hashlib.sha256((builder.environment + mutant.source).encode()).hexdigest()
        verdict = self.verdicts.get(key, {"by": "", "table": "", "problems": []})
        # What several problems reject is rejected by any table that still has the first of them.
        rejected = len(verdict["problems"]) > 1 and verdict["problems"][0] in problems()
        if verdict["table"] != self.table and verdict["by"] != NOT_COMPILED and not rejected:
            verdict = builder.judge(mutant) | {"table": self.table}
            with self.lock, self.path.open("a") as file:
                self.verdicts[key] = verdict
                file.write(json.dumps([key, verdict]) + "\n")
        return verdict


def reasons() -> dict[tuple[str, str, str], str]:
    """By step, line and changed line, why the mutant is equivalent."""
    entries = tomllib.loads((HERE / "equivalent.toml").read_text()).get("equivalent", [])
    return {
        (step, entry["code"], changed): " ".join(entry["reason"].split())
        for entry in entries
        for step in entry["steps"]
        for changed in entry["mutants"]
    }


def key_of(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.step, mutant.code, mutant.changed


def complaints(judged: dict[Mutant, Verdict], every: list[Mutant]) -> list[str]:
    """What is wrong with the survivors and their reasons."""
    known = reasons()
    found = [
        f"{m.name} survives and has no reason\n    code = {m.code!r}\n    mutant = {m.changed!r}"
        for m, v in judged.items()
        if v["by"] == SURVIVED and key_of(m) not in known
    ]
    survivors = {key_of(m) for m, v in judged.items() if v["by"] == SURVIVED}
    run = {key_of(m) for m in judged}
    made = {key_of(m) for m in every}
    for key in known:
        if key[0] in {m.step for m in every} and key not in made:
            found.append(f"equivalent.toml names what is no mutant: {key}")
        elif key in run and key not in survivors:
            found.append(f"equivalent.toml names a mutant that does not survive: {key}")
    return found


def counted(title: str, groups: dict[str, list[Verdict]]) -> list[str]:
    """A table with a row for each group and a column for each verdict."""
    total = Counter(v["by"] for verdicts in groups.values() for v in verdicts)
    last = [by for by in (SAME_CODE, SURVIVED) if total[by]]
    columns = [by for by, _ in total.most_common() if by not in (NOT_COMPILED, *last)] + last
    lines = [f"| {title} | mutants | compile | " + " | ".join(columns) + " |"]
    lines.append("|---|" + "---:|" * (len(columns) + 2))
    for name, verdicts in {**groups, "all": [v for vs in groups.values() for v in vs]}.items():
        by = Counter(v["by"] for v in verdicts)
        cells = [len(verdicts), len(verdicts) - by[NOT_COMPILED], *(by[c] for c in columns)]
        lines.append(f"| {name} | " + " | ".join(str(c or "") for c in cells) + " |")
    return lines


def table(judged: dict[Mutant, Verdict], options: str) -> str:
    """The report, in Markdown."""
    known = reasons()
    steps = {s: [v for m, v in judged.items() if m.step == s] for s in STEPS}
    operators = {o: [v for m, v in judged.items() if m.operator == o] for o in OPERATORS}
    lines = [HEADER.format(options=options)]
    lines += [*counted("step", {k: v for k, v in steps.items() if v}), ""]
    lines += [*counted("change of a", {k: v for k, v in operators.items() if v}), ""]
    lines += ["## Rejected at one problem only", ""]
    lucky = [m for m, v in judged.items() if len(v["problems"]) == 1 and v["by"] == "verification"]
    for m in lucky:
        also = judged[m]["checked"].replace(SURVIVED, "nothing")
        lines.append(f"- {m.name} at `{judged[m]['problems'][0]}`; --check: {also}")
    lines += [] if lucky else ["None."]
    lines += ["", "## Survivors", ""]
    grouped: dict[str, list[Mutant]] = {}
    for m, v in judged.items():
        if v["by"] == SURVIVED:
            grouped.setdefault(known.get(key_of(m), "NO REASON"), []).append(m)
    for reason, group in grouped.items():
        lines += [f"{reason}", ""]
        lines += [f"- `{m.step}:{m.line}` `{m.code}` → `{m.changed or '(nothing)'}`" for m in group]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{STEPS[0]} to {STEPS[-1]} [all]")
    parser.add_argument("--sample", type=int, default=10, metavar="N", help="mutants of each step [10]")
    parser.add_argument(
        "--every", metavar="REGEX", help="and all whose line in --list matches; '': every one"
    )
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build directory [build]")
    parser.add_argument("--table", type=Path, help="where to write the report")
    args = parser.parse_args()
    steps = args.steps or STEPS
    if wrong := [step for step in steps if step not in STEPS]:
        raise UsageError(f"there is no step {wrong[0]} to mutate; choose from {', '.join(STEPS)}")
    try:
        re.compile(args.every or "")
    except re.error as error:
        raise UsageError(f"--every {args.every}: {error}") from None
    every: list[Mutant] = []
    chosen: list[Mutant] = []
    for step in steps:
        of_step = mutants(step, (ROOT / "steps" / step / "kernel.cu").read_text())
        every += of_step
        some = sample(of_step, args.sample)
        chosen += [
            m for m in of_step if m in some or (args.every is not None and re.search(args.every, str(m)))
        ]
    if args.list:
        for m in chosen:
            print(m)
        print(f"{len(chosen)} of {len(every)}")
        return 0
    build = args.build.resolve()
    cache_folder = build / "mutations"
    cache_folder.mkdir(exist_ok=True)
    cache = Cache(cache_folder / "verdicts.jsonl")
    judged: dict[Mutant, Verdict] = {}
    with tempfile.TemporaryDirectory(dir=cache_folder) as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        used = sorted({m.step for m in chosen})
        builders = {step: Builder(build, step, Path(scratch)) for step in used}
        for m, verdict in zip(
            chosen, pool.map(lambda m: cache.get(builders[m.step], m), chosen), strict=True
        ):
            judged[m] = verdict
            where = f" at {verdict['problems'][0]}" if verdict["problems"] else ""
            print(f"{m.name}: {verdict['by']}{where}", flush=True)
    counts = Counter(v["by"] for v in judged.values())
    print(", ".join(f"{count} {by}" for by, count in counts.most_common()))
    if args.table:
        args.table.write_text(table(judged, shlex.join(a for a in sys.argv[1:] if not a.startswith("/"))))
    wrong = complaints(judged, every)
    for line in wrong:
        print("error:", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(run_program(main))
