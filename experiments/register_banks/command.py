"""Puts patterns of registers into a program that times FFMAs, and compares what it measured with models.

  python3 experiments/register_banks build/experiments/register_banks/probes -o OUT
  OUT/register_banks --json FILE            on the machine with the GPU; needs only what is in OUT
  python3 experiments/register_banks compare FILE --patterns OUT/patterns.txt
  python3 experiments/register_banks record FILE --patterns OUT/patterns.txt

The first writes the program OUT/register_banks and what it put into it, OUT/patterns.txt. It says what the
models predict, for each pattern and for the main loops of the steps; without -o, that is all it does.
`compare` prints what was measured beside it; `record` writes both to docs/evidence, for the pages.

Exit status: 0 done; 1 the tool found a mistake in its own work; 2 refused, or bad usage.
"""

import json
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from machine_code.command import write
from machine_code.cubin import find_cubins
from machine_code.rewrite import ARCH, Broken, Refused, check_origin, disassemble
from tools.base import EVIDENCE, Parser, UsageError, write_json
from tools.machine_code import sass
from tools.machine_code.listing import Instruction, parse_instruction
from tools.machine_code.loops import Loop

from register_banks.model import MODELS, errors, predict
from register_banks.patch import Probe, check, find_probes, put
from register_banks.patterns import LARGE_PATTERNS, PATTERNS, in_notation, replay
from register_banks.record import make_record

SMALL_STEPS = ("09", "10", "11")  # with few enough registers for four warps per scheduler
LARGE_STEPS = ("12", "13", "14")


@dataclass
class Pattern:
    """As it stands in patterns.txt."""

    name: str
    size: str
    kernel: int
    others: int  # further instructions in the loop
    registers: list[int]
    code: list[Instruction] = field(default_factory=list)

    def lines(self) -> list[str]:
        head = f"pattern {self.name} {self.size} {self.kernel} {self.others}"
        return [head, f"registers {' '.join(map(str, self.registers))}", *(i.text for i in self.code)]


def main() -> int:
    if sys.argv[1:2] == ["compare"]:
        return compare(sys.argv[2:])
    if sys.argv[1:2] == ["record"]:
        return record(sys.argv[2:])
    parser = Parser(__doc__)
    parser.add_argument("program", type=Path, help="<build>/experiments/register_banks/probes")
    parser.add_argument("-o", "--out", type=Path, metavar="FOLDER", help="where to write the changed copy")
    parser.add_argument("--steps", type=Path, help="the built steps (default: those of the program's build)")
    args = parser.parse_args()
    try:
        data = bytearray(args.program.read_bytes())
    except OSError as error:
        raise UsageError(f"{args.program}: cannot be read: {error.strerror}") from None
    loops = step_loops(args.steps or Path(os.path.abspath(args.program)).parent.parent.parent / "steps")
    try:
        patterns = change(data, loops)
    except Broken as error:
        raise UsageError(f"{args.program}: a mistake in this tool, nothing is written: {error}", 1) from None
    print("Cycles per FFMA and scheduler, by the models:")
    print_table((p.name, [f"{value:.3f}" for value in predict(p.code, p.others).values()]) for p in patterns)
    print("\nThe steps' main loops, with their other instructions at a cycle each: of the FFMA peak, %")
    steps = {name: predict(loop.instructions) for name, loop in loops.items()}
    print_table((name, [f"{100 / value:.1f}" for value in row.values()]) for name, row in steps.items())
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        lines = [line for pattern in patterns for line in pattern.lines()]
        (args.out / "patterns.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        write(args.out / "register_banks", bytes(data), args.program)
        print(f"\n{args.out}: register_banks and patterns.txt written")
    return 0


def step_loops(folder: Path) -> dict[str, Loop]:
    """The main loops of the steps to replay, by the steps' names."""
    found = {}
    for number in (*SMALL_STEPS, *LARGE_STEPS):
        program = next(folder.glob(f"{number}_*/run"), None)
        if program is None:
            raise UsageError(f"there is no step {number} in {folder}: build it, or say --steps FOLDER")
        found[program.parent.name] = sass.main_kernel(sass.kernels(program, ARCH)).loop
    return found


def change(data: bytearray, loops: dict[str, Loop]) -> list[Pattern]:
    """Puts all patterns into a program's kernels. Raises SassError; then `data` is as it was."""
    cubins = [cubin for cubin in find_cubins(bytes(data)) if cubin.arch == ARCH and cubin.kernels]
    if len(cubins) != 1:
        raise Refused(f"it has machine code for {ARCH} in {len(cubins)} places, not in one")
    (cubin,) = cubins
    check_origin(cubin)
    probes = find_probes(cubin)
    replays = {
        size: [(f"replay_{n}", loop) for n, loop in loops.items() if n[:2] in steps]
        for size, steps in (("small", SMALL_STEPS), ("large", LARGE_STEPS))
    }
    patterns: list[Pattern] = []
    done: list[tuple[Probe, list[Instruction]]] = []
    for size, notations in (("small", PATTERNS), ("large", LARGE_PATTERNS)):
        for kernel, (name, source) in enumerate([*notations.items(), *replays[size]]):
            probe = probes.get((size, kernel))
            if probe is None:
                raise Refused(f"probes.cu has too few {size} kernels for all patterns")
            make = replay if isinstance(source, Loop) else in_notation
            code = make(source, probe.registers, probe.loop.ffma)
            put(cubin, probe, code)
            done.append((probe, code))
            patterns.append(Pattern(name, size, kernel, probe.others, probe.registers, code))
    read = disassemble(cubin)
    for probe, code in done:
        check(probe, code, read[probe.symbol], cubin.words(probe.symbol))
    data[cubin.at : cubin.at + len(cubin.data)] = cubin.data
    return patterns


def print_table(rows: Iterable[tuple[str, list[str]]], *heads: str) -> None:
    """A column for each of the heads, and for each model."""
    for name, values in [("", [*heads, *MODELS]), *rows]:
        print(f"{name:<28}" + "".join(f"{value:>9}" for value in values))


# ---- What was measured -----------------------------------------------------------------------------------


def read_patterns(path: Path) -> dict[str, Pattern]:
    found: dict[str, Pattern] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, *words = line.split()
        if kind == "pattern":
            name, size, kernel, others = words
            current = found[name] = Pattern(name, size, int(kernel), int(others), [])
        elif kind == "registers":
            current.registers = [int(word) for word in words]
        else:
            current.code.append(parse_instruction(line))
    return found


def measured_parser(description: str | None) -> Parser:
    parser = Parser(description)
    parser.add_argument("measured", type=Path, help="what the program wrote with --json")
    parser.add_argument("--patterns", type=Path, help="default: patterns.txt in the same folder")
    return parser


def read_measured(measured: Path, listed: Path | None) -> tuple[dict[str, Pattern], list[dict[str, Any]]]:
    """The patterns, and what was measured of them. What is not right is refused."""
    try:
        patterns = read_patterns(listed or measured.with_name("patterns.txt"))
        results = json.loads(measured.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {error}") from None
    if not results:
        raise UsageError(f"{measured} is empty")
    if wrong := sorted({r["pattern"] for r in results if not r["pass"] or r["pattern"] not in patterns}):
        raise UsageError(f"wrong sums, or patterns of another run: {', '.join(wrong)}")
    return patterns, results


def record(arguments: list[str]) -> int:
    """Writes what was measured, the patterns and what the models say of them to the project's evidence."""
    parser = measured_parser(record.__doc__)
    parser.add_argument("-o", "--out", type=Path, default=EVIDENCE / "register_banks.json", metavar="FILE")
    args = parser.parse_args(arguments)
    patterns, results = read_measured(args.measured, args.patterns)
    if missing := sorted(patterns.keys() - {r["pattern"] for r in results}):
        raise UsageError(f"{args.measured} lacks {', '.join(missing)}")
    write_json(args.out, make_record([*patterns.values()], results))
    print(f"{args.out} written: {len(patterns)} patterns, {len(results)} measurements")
    return 0


def compare(arguments: list[str]) -> int:
    """Prints what was measured beside what each model predicts, and how far off each is."""
    parser = measured_parser(compare.__doc__)
    parser.add_argument("--warps", type=int, nargs="+", default=[1, 2, 4], help="per scheduler")
    args = parser.parse_args(arguments)
    patterns, results = read_measured(args.measured, args.patterns)
    predicted = {p.name: predict(p.code, p.others) for p in patterns.values()}
    first = results[0]
    print(f"{first['device']}, driver {first['driver']}, CUDA {first['cuda']}, {first['date']}")
    for warps in args.warps:
        measured = {r["pattern"]: r["cycles_per_ffma"] for r in results if r["warps_per_scheduler"] == warps}
        if not measured:
            continue
        print(f"\n{warps} warps per scheduler: cycles per FFMA, measured and by the models")
        values = ((name, [value, *predicted[name].values()]) for name, value in measured.items())
        rows = [(name, [f"{value:.3f}" for value in row]) for name, row in values]
        off = {m: errors(measured, {name: predicted[name][m] for name in measured}) for m in MODELS}
        rows.append(("off by (root mean square)", ["", *(f"{100 * size:.1f} %" for size, _ in off.values())]))
        print_table(rows, "measured")
        best = min(off, key=lambda model: off[model][0])
        print(f"nearest: {best}; it is farthest off for {off[best][1]}")
    return 0
