"""Small changes to a step, measured: what answers the questions on the pages.

  ladder experiment list
  ladder experiment build [NAME...] --keep DIR [--build DIR]
  ladder experiment run DIR --out FILE
  ladder experiment [NAME...] --out FILE [--build DIR]      both, on one machine

docs/experiments/NAME.toml names a step, a question and variants of the step's kernel. A variant is made by
replacing pieces of the source (`replace`), values of its `constexpr int` lines (`constants`) or options of
the program (`options`). Each variant runs in turn with cuBLAS, so that the ratios compare; the records
go to one JSON file. A piece of source that is not there exactly once is an error: an experiment cannot
silently test nothing.

Exit status: 0 done, 1 a variant gave wrong results or failed, 2 bad usage, 3 no GPU.
"""

import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.base import BUILD, ROOT, Parser, UsageError, write_json
from tools.machine_code import sass
from tools.machine_code.identity import sass_sha256
from tools.measuring.variants import Job, Variant, build_all, run_all

FOLDER = ROOT / "docs" / "experiments"


@dataclass
class Experiment:
    name: str
    step: str
    question: str
    sizes: list[int]
    variants: list[Variant]


def read(path: Path) -> Experiment:
    """Raises UsageError, with one line, for a file that does not say what it must."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        experiment = Experiment(
            path.stem,
            content["step"],
            content["question"],
            content.get("sizes", [4096]),
            [Variant(**variant) for variant in content["variant"]],
        )
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: {type(error).__name__}: {error}") from None
    names = [variant.name for variant in experiment.variants]
    if len(set(names)) != len(names):
        raise UsageError(f"{path}: two variants have the same name")
    if not (ROOT / "steps" / experiment.step / "kernel.cu").exists():
        raise UsageError(f"{path}: there is no step {experiment.step}")
    return experiment


def choose(names: list[str]) -> list[Experiment]:
    known = {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no experiment '{unknown[0]}'; there are {', '.join(known)}")
    return [read(known[name]) for name in names or known]


def machine_code(program: Path) -> dict[str, Any]:
    """What the compiler made of the variant: the instance for aligned rows, for the newest architecture."""
    arch = sass.archs(program)[-1]
    kernel = min(sass.kernels(program, arch), key=lambda k: "<false>" in k.name)
    loop = kernel.loop
    return {
        "arch": arch,
        "registers": kernel.registers,
        "shared_bytes": kernel.shared_bytes,
        "local_instructions": kernel.count("LDL") + kernel.count("STL"),
        "sass_sha256": sass_sha256([instruction.text for instruction in kernel.instructions]),
        "loop_instructions": loop and len(loop.instructions),
        "loop_ffma": loop and loop.ffma,
        "loop_bank_conflicts": loop and loop.bank_conflicts,
        "predicted_fraction": loop and loop.predicted_tflops_fraction,
    }


def add_machine_code(job: Job, problem: str) -> None:
    if problem:
        raise UsageError(f"experiment {job.about['experiment']}, variant '{job.variant.name}': {problem}")
    job.say(machine_code=machine_code(job.folder / "run"))


def build_named(names: list[str], build: Path, out: Path) -> None:
    jobs = [
        Job(e.step, variant, out / e.name / f"{n:02}", {"experiment": e.name, "sizes": e.sizes})
        for e in choose(names)
        for n, variant in enumerate(e.variants)
    ]
    build_all(jobs, build, add_machine_code)


def table(records: list[dict[str, Any]]) -> str:
    lines = []
    for record in records:
        ratio = record["ratio_to_cublas"]
        speed = "wrong" if not record["pass"] else f"{ratio:.3f} of cuBLAS" if ratio else "-"
        lines.append(
            f"{record['experiment']:<18} {record['variant']:<44} {record['m']:>6} "
            f"{record['time_us']:>11.1f} us  {speed:<16} {record['machine_code']['registers']:>4} registers"
        )
    return "\n".join(lines)


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("words", nargs="*", metavar="list | build | run DIR | NAME")
    parser.add_argument("--build", default=BUILD, type=Path)
    parser.add_argument("--keep", metavar="DIR", help="compile only, into DIR", type=Path)
    parser.add_argument("--out", metavar="FILE", help="write the records there", type=Path)
    args = parser.parse_args()
    command, names = "", args.words
    if names and names[0] in ("list", "build", "run"):
        command, *names = names
    if command == "list":
        for experiment in choose(names):
            print(f"{experiment.name:<24} step {experiment.step}: {experiment.question}")
        return 0
    if command == "build":
        if not args.keep:
            raise UsageError("build needs --keep DIR, where the programs go")
        build_named(names, args.build, args.keep.resolve())
        return 0
    if not args.out:
        raise UsageError("give --out FILE, where the records go")
    if command == "run" and len(names) != 1:
        raise UsageError("run needs one folder, the one that build --keep filled")
    with tempfile.TemporaryDirectory() as folder:
        if command != "run":
            build_named(names, args.build, Path(folder))
        kept = Path(names[0] if command == "run" else folder)
        programs = sorted(path.parent for path in kept.glob("*/*/about.json"))
        if not programs:
            raise UsageError(f"{kept} holds no experiments; fill it with ladder experiment build --keep")
        records, fine = run_all(programs)
    print(table(records))
    write_json(args.out, records)
    return 0 if fine else 1
