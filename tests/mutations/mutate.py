#!/usr/bin/env python3
"""Changes what the steps compile in one place at a time and sees whether the tests reject each change.

  mutate.py [STEP | common ...] [--sample N] [--every REGEX] [--list] [--build DIR] [--table [FILE]]

The mutants of a step change its kernel.cu or a header beside it; those of `common` change the headers of
common/ that steps include, directly or through others, and that hold device code (__device__, __global__):
what the CPU device compiles of it, and not the CPU device itself. A mutant is compiled as the build compiles
the step, and run over the step's problems (of tests/shapes*.txt): plain, and with --check if that passes. One
of `common` is tried in the steps that include the header, until one rejects it or three whose program it
changes have let it pass.

A mutant that survives must be named in equivalent.toml, with the reason why it is right on every problem; a
reason that no survivor needs is an error, too. The sample is the same in every run, and what has been run
before is not run again. Examples:

  mutate.py --sample 16 --every '^(barrier|comparison|guard)' --table table.md
  mutate.py 06_vectorization --sample 0 --every 'valid > 0'

The first writes a table of what rejects what; without a file it is printed. Two cores judge about 30 mutants
a minute.

Exit status: 0 every mutant is rejected or explained, 1 not, 2 bad usage. Standard library only.
"""

import functools
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
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "common"))
from generate import OPERATORS, Mutant, for_cpu, mutants, sample  # noqa: E402
from tools.base import Parser, UsageError, chosen, is_library, markdown, read_toml, run_program  # noqa: E402
from tools.edits import Change, Edit  # noqa: E402
from tools.kernel_build import KernelBuild  # noqa: E402

EQUIVALENT = HERE / "equivalent.toml"
ALL_STEPS = sorted(p.parent.name for p in ROOT.glob("steps/*/kernel.cu"))
STEPS = [step for step in ALL_STEPS if step >= "03" and not is_library(step)]
GROUPS = [*STEPS, "common"]
NOT_COMPILED, SURVIVED, SAME_CODE = "does not compile", "survived", "same code"
SOON_S = 30  # in which most mutants are rejected
VERIFICATION = ("wrong result", "write outside of a matrix")

HEADER = """# Mutations of the kernels

Made by `tests/mutations/mutate.py {options}`.

A mutant is a step's kernel, or a header of it, with one change, run over the problems of the tests: plain,
then with every access checked. Columns say what rejected it first; `same code`: the compiler makes of it what
it makes of the kernel; `survived`: right on every problem, for a reason given below.
"""

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


class Equivalents:
    """equivalent.toml: why mutants are right on every problem."""

    def __init__(self, every: list[Mutant]):
        made = {(m.file, m.text): m for m in every}
        files = {m.file: m.source for m in every}
        self.reasons: dict[Mutant, str] = {}
        self.parts: list[tuple[str, int, int, str]] = []  # file, begin, end, reason
        self.wrong: list[str] = []
        for entry in read_toml(EQUIVALENT)["equivalent"]:
            reason = " ".join(entry["reason"].split())
            for change in entry.get("mutants", [entry]):
                for name in change.get("of", entry.get("of")):
                    file = kernel_of(name) if name in STEPS else name
                    if file not in files:
                        self.wrong.append(f"equivalent.toml: no step includes {file}")
                    elif "old" in change:
                        new = [change["new"]] if isinstance(change["new"], str) else change["new"]
                        changes = [Change(change["old"], n) for n in new]
                        self._add(made, file, files[file], changes, reason)
                    else:
                        begin = files[file].find(change["from"])
                        self.parts.append((file, begin, files[file].find(change["to"], begin), reason))
                        if -1 in self.parts[-1]:
                            self.wrong.append(f"equivalent.toml, {file}: there is no `{change['from']}`")

    def _add(self, made: dict, file: str, source: str, changes: list[Change], reason: str) -> None:
        for change in changes:
            try:
                mutant = made.get((file, Edit([change]).text(source)))
            except UsageError as error:
                self.wrong.append(f"equivalent.toml, {file}: {error}")
                continue
            if mutant is None:
                self.wrong.append(f"equivalent.toml, {file}: `{change.old}` -> `{change.new}` is no mutant")
            else:
                self.reasons[mutant] = reason

    def reason(self, mutant: Mutant) -> str | None:
        found = (r for file, b, e, r in self.parts if file == mutant.file and b <= mutant.begin < e)
        return self.reasons.get(mutant) or next(found, None)

    def complaints(self, judged: dict[Mutant, Verdict]) -> list[str]:
        """What is wrong with the survivors and their reasons."""
        found = list(self.wrong)
        for mutant, verdict in judged.items():
            survives = verdict["by"] == SURVIVED
            if survives and not self.reason(mutant):
                found.append(f"{mutant.name} survives and has no reason")
                found.append(f"  {{ old = {mutant.change.old!r}, new = {mutant.change.new!r} }}")
            if not survives and mutant in self.reasons:
                found.append(f"equivalent.toml names a mutant that does not survive: {mutant.name}")
        return found


def counted(title: str, groups: dict[str, list[Verdict]]) -> str:
    """A table with a row for each group and a column for each verdict."""
    total = Counter(v["by"] for verdicts in groups.values() for v in verdicts)
    last = [by for by in (SAME_CODE, SURVIVED) if total[by]]
    columns = [by for by, _ in total.most_common() if by not in (NOT_COMPILED, *last)] + last
    rows = []
    for name, verdicts in {**groups, "all": [v for vs in groups.values() for v in vs]}.items():
        by = Counter(v["by"] for v in verdicts)
        counts = [len(verdicts), len(verdicts) - by[NOT_COMPILED], *(by[c] for c in columns)]
        rows.append([name, *(str(count or "") for count in counts)])
    return markdown([title, "mutants", "compile", *columns], rows)


def table(judged: dict[Mutant, Verdict], equivalents: Equivalents, options: str) -> str:
    """The report, in Markdown."""
    groups = {g: [v for m, v in judged.items() if m.group == g] for g in GROUPS}
    operators = {o: [v for m, v in judged.items() if m.operator == o] for o in OPERATORS}
    lines = [HEADER.format(options=options)]
    lines += [counted("step", {k: v for k, v in groups.items() if v}), ""]
    lines += [counted("change of a", {k: v for k, v in operators.items() if v}), ""]
    lines += ["## Rejected at one problem only", ""]
    for m, v in judged.items():
        if len(v["problems"]) == 1 and v["by"] == "verification":
            also = v["checked"].replace(SURVIVED, "nothing")
            lines.append(f"- {m.name} at `{v['problems'][0]}`; --check: {also}")
    lines += ["", "## Survivors", ""]
    grouped: dict[str, list[Mutant]] = {}
    for m, v in judged.items():
        if v["by"] == SURVIVED:
            grouped.setdefault(equivalents.reason(m) or "NO REASON", []).append(m)
    for reason, group in grouped.items():
        lines += [reason, "", *(f"- {m.name} in `{m.code}`" for m in group), ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("groups", nargs="*", metavar="STEP", help=f"{STEPS[0]} to {STEPS[-1]}, common [all]")
    parser.add_argument("--sample", type=int, default=10, metavar="N", help="mutants of each step [10]")
    parser.add_argument("--every", metavar="REGEX", help="and all whose line in --list matches; '': all")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build directory [build]")
    parser.add_argument("--table", nargs="?", const="-", metavar="FILE", help="write the report [print it]")
    args = parser.parse_args()
    groups = chosen(args.groups, GROUPS, "step to mutate") or GROUPS
    try:
        wanted = re.compile("(?!)" if args.every is None else args.every)
    except re.error as error:
        raise UsageError(f"--every {args.every}: {error}") from None
    files = {file: text for step in STEPS for file, text in files_of(step).items()}
    every = [m for file, text in files.items() for m in mutants(file, text)]
    selected: list[Mutant] = []
    for group in groups:
        of_group = [m for m in every if m.group == group]
        some = set(sample(of_group, args.sample))
        selected += [m for m in of_group if m in some or wanted.search(str(m))]
    if args.list:
        for m in selected:
            print(m)
        print(f"{len(selected)} of {sum(m.group in groups for m in every)}")
        return 0
    equivalents = Equivalents(every)
    build = args.build.resolve()
    if not build.is_dir():
        raise UsageError(f"{build} is no build directory; run ./setup.sh, then compile")
    cache_folder = build / "mutations"
    cache_folder.mkdir(exist_ok=True)
    judged: dict[Mutant, Verdict] = {}
    with tempfile.TemporaryDirectory(dir=cache_folder) as scratch, ThreadPoolExecutor(os.cpu_count()) as pool:
        used = [s for s in STEPS if any(m.file in files_of(s) for m in selected)]
        judge = Judge(cache_folder / "verdicts.jsonl", {s: Builder(build, s, Path(scratch)) for s in used})
        for m, verdict in zip(selected, pool.map(judge.verdict, selected), strict=True):
            judged[m] = verdict
            where = f" at {verdict['problems'][0]}" if verdict["problems"] else ""
            print(f"{m.name}: {verdict['by']}{where}", file=sys.stderr, flush=True)
    counts = Counter(v["by"] for v in judged.values())
    print(", ".join(f"{count} {by}" for by, count in counts.most_common()), file=sys.stderr)
    if args.table:
        text = table(judged, equivalents, shlex.join(sys.argv[1:]))
        print(text) if args.table == "-" else Path(args.table).write_text(text)
    complaints = equivalents.complaints(judged)
    for line in complaints:
        print("error:", line, file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(run_program(main))
