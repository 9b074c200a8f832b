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

import json
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import BUILD, ROOT, Parser, UsageError, progress, write_whole
from tools.measuring.sweep import build_source, with_constants

FOLDER = ROOT / "docs" / "experiments"


@dataclass
class Variant:
    name: str
    replace: list[dict[str, str]] = field(default_factory=list)
    constants: dict[str, int] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)

    def source(self, kernel: str) -> str:
        """The step's source with this variant's changes. Raises UsageError where one does not fit."""
        for change in self.replace:
            old, new = change["old"].strip("\n"), change["new"].strip("\n")
            if (count := kernel.count(old)) != 1:
                first = old.splitlines()[0].strip()
                raise UsageError(
                    f"variant '{self.name}': the kernel has {count} places like '{first}', not one"
                )
            kernel = kernel.replace(old, new)
        return with_constants(kernel, {name: str(value) for name, value in self.constants.items()})


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


def machine_code(program: Path, options: list[str]) -> dict[str, Any]:
    """What the compiler made of the variant: the instance for aligned rows, for the newest architecture."""
    from tools.machine_code import sass
    from tools.machine_code.identity import sass_sha256

    arch = sass.archs(program)[-1]
    kernel = sorted(sass.kernels(program, arch), key=lambda k: "<false>" in k.name)[0]
    loop = kernel.loop
    return {
        "arch": arch,
        "registers": kernel.registers,
        "shared_bytes": kernel.shared_bytes,
        "local_instructions": kernel.count("LDL") + kernel.count("STL"),
        "sass_sha256": sass_sha256([instruction.text for instruction in kernel.instructions]),
        "loop_instructions": len(loop.instructions) if loop else None,
        "loop_ffma": loop.ffma if loop else None,
        "loop_bank_conflicts": loop.bank_conflicts if loop else None,
        "predicted_fraction": loop.predicted_tflops_fraction if loop else None,
    }


def build_variant(experiment: Experiment, number: int, build: Path, out: Path) -> None:
    variant = experiment.variants[number]
    folder = out / experiment.name / f"{number:02}"
    kernel = (ROOT / "steps" / experiment.step / "kernel.cu").read_text(encoding="utf-8")
    problem = build_source(build, experiment.step, variant.source(kernel), folder)
    if problem:
        raise UsageError(f"experiment {experiment.name}, variant '{variant.name}': {problem}")
    about = {"experiment": experiment.name, "variant": variant.name, "step": experiment.step}
    about |= {"options": variant.options, "sizes": experiment.sizes}
    about["machine_code"] = machine_code(folder / "run", variant.options)
    (folder / "about.json").write_text(json.dumps(about))


def build_all(names: list[str], build: Path, out: Path) -> None:
    jobs = [(e, i) for e in choose(names) for i in range(len(e.variants))]
    for experiment, number in jobs:  # mistakes in the files first
        variant = experiment.variants[number]
        variant.source((ROOT / "steps" / experiment.step / "kernel.cu").read_text(encoding="utf-8"))
    with ThreadPoolExecutor() as pool:
        work = [pool.submit(build_variant, experiment, number, build, out) for experiment, number in jobs]
        for done, (job, (experiment, number)) in enumerate(zip(work, jobs, strict=True), 1):
            job.result()
            progress(done, len(jobs), f"{experiment.name} {experiment.variants[number].name}")


def run_all(folder: Path) -> tuple[list[dict[str, Any]], bool]:
    """The records of all variants, and whether every one was right."""
    programs = sorted(path.parent for path in folder.glob("*/*/about.json"))
    if not programs:
        raise UsageError(f"{folder} holds no experiments; fill it with ladder experiment build --keep")
    records: list[dict[str, Any]] = []
    fine = True
    with tempfile.TemporaryDirectory() as temporary:
        report = Path(temporary) / "report.json"
        for done, program in enumerate(programs):
            about = json.loads((program / "about.json").read_text())
            progress(done, len(programs), f"{about['experiment']} {about['variant']}")
            sizes = ",".join(map(str, about["sizes"]))
            command = [str(program / "run"), "--device", "gpu", "--sweep", sizes, *about["options"]]
            result = subprocess.run([*command, "--json", str(report)], capture_output=True, text=True)
            if result.returncode == 3:
                raise UsageError(result.stderr.strip().removeprefix("error: "))
            if result.returncode not in (0, 1):
                print(f"{about['experiment']} {about['variant']}: {result.stderr.strip()}", file=sys.stderr)
                fine = False
                continue
            for record in json.loads(report.read_text()):
                fine = fine and record["pass"]
                records.append({**{k: v for k, v in about.items() if k != "sizes"}, **record})
    progress(len(programs), len(programs), "done")
    return records, fine


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
    parser.add_argument("--build", default=BUILD)
    parser.add_argument("--keep", metavar="DIR", help="compile only, into DIR")
    parser.add_argument("--out", metavar="FILE", help="write the records there")
    args = parser.parse_args()
    command, names = (args.words[0], args.words[1:]) if args.words else ("", [])
    if command not in ("list", "build", "run"):
        command, names = "", args.words
    if command == "list":
        for experiment in choose(names):
            print(f"{experiment.name:<24} step {experiment.step}: {experiment.question}")
        return 0
    if command == "build":
        if not args.keep:
            raise UsageError("build needs --keep DIR, where the programs go")
        build_all(names, Path(args.build), Path(args.keep).resolve())
        return 0
    if not args.out:
        raise UsageError("give --out FILE, where the records go")
    if command == "run":
        if len(names) != 1:
            raise UsageError("run needs one folder, the one that build --keep filled")
        records, fine = run_all(Path(names[0]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            build_all(names, Path(args.build), Path(folder))
            records, fine = run_all(Path(folder))
    print(table(records))
    write_whole(Path(args.out), json.dumps(records, indent=1) + "\n")
    return 0 if fine else 1
