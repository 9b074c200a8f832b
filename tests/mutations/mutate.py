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

import os
import re
import shlex
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "common"))
from generate import OPERATORS, Mutant, mutants, sample  # noqa: E402
from tools.base import Parser, UsageError, chosen, markdown, read_toml, run_program  # noqa: E402
from tools.edits import Change, Edit  # noqa: E402
from verdicts import (  # noqa: E402
    NOT_COMPILED,
    SAME_CODE,
    STEPS,
    SURVIVED,
    Builder,
    Judge,
    Verdict,
    files_of,
    kernel_of,
)

EQUIVALENT = HERE / "equivalent.toml"
GROUPS = [*STEPS, "common"]

HEADER = """# Mutations of the kernels

Made by `tests/mutations/mutate.py {options}`.

A mutant is a step's kernel, or a header of it, with one change, run over the problems of the tests: plain,
then with every access checked. Columns say what rejected it first; `same code`: the compiler makes of it what
it makes of the kernel; `survived`: right on every problem, for a reason given below.
"""


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
