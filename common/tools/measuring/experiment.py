"""Small changes to a step, measured: what answers the questions on the pages.

  ladder experiment list
  ladder experiment build [NAME...] --keep DIR [--build DIR]
  ladder experiment run DIR --out FILE       here, or on another machine of a kind
  ladder experiment run NAME...              builds, measures here, and shows the recorded figure beside each
  ladder experiment check [NAME...]          on the CPU device, every access checked; no GPU

`five_ladders` stands for the experiments that docs/other_ladders.toml names: other authors' kernels, rebuilt.

docs/experiments/NAME.toml names a step, a question and variants of the step's kernel. A variant edits the
source (`replace`, `constants`: see edits.py), has options of the program (`options`) or of nvcc (`compiler`),
or has its main loop written anew (`plan`, see experiments/machine_code); `kernel` begins with another kernel:
another step's, or a file of experiments/kernels, which rebuilds what others wrote about; `like` names a
variant before it, whose kernel and changes come first. Each variant runs in turn with cuBLAS, so that the
ratios compare; the records go to one JSON file, which keeps those of other experiments.

Exit status: 0 done, 1 a variant gave wrong results or failed, 2 bad usage, 3 no GPU.
"""

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from tools.base import (
    BUILD,
    EVIDENCE,
    ROOT,
    Parser,
    UsageError,
    aligned,
    progress,
    read_fields,
    read_json,
    read_text,
    read_toml,
    write_json,
)
from tools.edits import Edit, base_path
from tools.kernel_build import KernelBuild, first_error
from tools.machine_code import sass
from tools.machine_code.identity import sass_sha256
from tools.measuring.ladder import NO_GPU, on_this_gpu, refused_by_gpu

FOLDER = ROOT / "docs" / "experiments"
MACHINE_CODE = ROOT / "experiments" / "machine_code"
Record = dict[str, Any]
PROBLEM = ["--m", "128", "--n", "256", "--k", "64", "--alpha", "0.5", "--beta", "2"]


# ---- Variants of a kernel --------------------------------------------------------------------------------


def is_step(name: str) -> bool:
    return not name.endswith(".cu")


def kernel_of(name: str) -> str:
    """The source of a step, or of a file of experiments/kernels."""
    return read_text(ROOT / base_path(name if is_step(name) else f"experiments/kernels/{name}"))


@dataclass(kw_only=True)
class Variant(Edit):
    """An edit of a kernel. kernel: another than the experiment's step has: a step or a file of
    experiments/kernels. like: the name of a variant before it, whose kernel and changes come first. options:
    of the program; compiler: of nvcc. plan: of experiments/machine_code, which writes the main loop anew.
    wrong_at: options of a problem for which it is wrong: it is checked only, never timed. adds: the part of
    the step's change that the step before has here; lacks: the one that the step has not."""

    name: str
    wrong_at: list = field(default_factory=list)
    adds: str = ""
    lacks: str = ""
    kernel: str = ""
    like: str = ""
    options: list = field(default_factory=list)
    compiler: list = field(default_factory=list)
    plan: dict | None = None

    def source(self) -> str:
        """The kernel's source with this variant's changes. Raises UsageError where one does not fit."""
        try:
            return self.text(kernel_of(self.kernel))
        except UsageError as problem:
            raise UsageError(f"variant '{self.name}': {problem}") from None


@dataclass
class Experiment:
    """sizes: of the measurements: M = N = K, or options as "--m 1 --n 4096 --k 4096". problem: what the CPU
    device checks variants with. options: of the program, for all variants."""

    name: str
    step: str
    question: str
    variants: list[Variant]
    sizes: list = field(default_factory=lambda: [4096])
    problem: list = field(default_factory=lambda: PROBLEM)
    options: list = field(default_factory=list)

    def __post_init__(self) -> None:
        names = [variant.name for variant in self.variants]
        if len(set(names)) != len(names):
            raise ValueError("two variants have the same name")
        for n, variant in enumerate(self.variants):
            if variant.like and variant.like not in names[:n]:
                raise ValueError(f"variant '{variant.name}' is like '{variant.like}', none before it")
            if variant.like:
                model = self.variants[names.index(variant.like)]
                variant.kernel = variant.kernel or model.kernel
                variant.compiler = [*model.compiler, *variant.compiler]
                variant.replace = [*model.replace, *variant.replace]
                variant.constants = model.constants | variant.constants
            variant.kernel = variant.kernel or self.step
            variant.options = [*self.options, *variant.options]
        for name in {self.step, *(variant.kernel for variant in self.variants)}:
            kernel_of(name)

    def program(self, variant: Variant) -> str:
        """The step whose program takes the variant's kernel."""
        return variant.kernel if is_step(variant.kernel) else self.step


def read(path: Path) -> Experiment:
    return read_fields(Experiment, read_toml(path), path, name=path.stem)


def choose(names: list[str]) -> list[Experiment]:
    known = {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}
    if "five_ladders" in names:
        ladders = read_toml(ROOT / "docs" / "other_ladders.toml").values()
        names = [
            *(n for n in names if n != "five_ladders"),
            *(n for of in ladders for n in of["experiments"]),
        ]
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"no experiment '{unknown[0]}'; there are {', '.join(known)}")
    return [read(known[name]) for name in names or known]


# ---- Building and running --------------------------------------------------------------------------------


def machine_code(program: Path) -> Record:
    """What the compiler made of the variant: the instance for aligned rows, for the newest architecture."""
    arch = sass.archs(program)[-1]
    kernel = sass.main_kernel(sass.kernels(program, arch))
    loop = kernel.loop
    banks = None if loop is None or loop.on_tensor_cores else loop  # what their model is of
    return {
        "arch": arch,
        "registers": kernel.registers,
        "shared_bytes": kernel.shared_bytes,
        "local_instructions": kernel.count("LDL") + kernel.count("STL"),
        "sass_sha256": sass_sha256(kernel.instructions),
        "loop_instructions": loop and len(loop.instructions),
        "loop_ffma": loop and loop.ffma,
        "loop_hmma": loop and loop.hmma,
        **({"loop_hgmma": loop.hgmma} if loop and loop.hgmma else {}),
        "loop_bank_conflicts": banks and banks.bank_conflicts,
        "predicted_fraction": banks and banks.predicted_tflops_fraction,
    }


def build_one(commands: KernelBuild, experiment: Experiment, variant: Variant, folder: Path) -> str:
    """Makes a folder with the variant's program and about.json. Returns what is wrong, if anything."""
    folder.mkdir(parents=True, exist_ok=True)
    source, unit, program = folder / "kernel.cu", folder / "unit.o", folder / "run"
    source.write_text(variant.source())
    result = commands.compile([*commands.units["gpu"], *variant.compiler], source, unit)
    if result.returncode == 0:
        result = commands.link_program(program, gpu=unit)
        unit.unlink()
    if result.returncode == 0 and variant.plan is not None:
        plan = [word for name, value in variant.plan.items() for word in ("--plan", f"{name}={int(value)}")]
        command = [sys.executable, str(MACHINE_CODE), str(program), "-o", str(folder / "rewritten"), *plan]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode == 0:
            (folder / "rewritten").replace(program)
    if result.returncode:
        return first_error(result)
    about: Record = {"experiment": experiment.name, "sizes": experiment.sizes, "variant": variant.name}
    about |= {"step": experiment.step, "options": variant.options, "machine_code": machine_code(program)}
    write_json(folder / "about.json", about)
    return ""


def build_all(experiments: list[Experiment], build: Path, out: Path) -> None:
    """Builds all variants. One that does not compile is left out if its experiment asks nothing."""
    jobs = []
    for e in experiments:
        for n, variant in enumerate(e.variants):
            variant.source()  # mistakes first
            if variant.wrong_at:
                continue
            words = "_".join(re.findall(r"[\w=]+", variant.name))
            jobs.append((e, variant, out / e.name / f"{n:03}_{words}"))
    programs = {e.program(variant) for e, variant, _ in jobs}
    commands = {name: KernelBuild(build, name) for name in programs}
    if not all("gpu" in of_step.units for of_step in commands.values()):
        raise UsageError(f"{build} has no CUDA; variants need nvcc")
    with ThreadPoolExecutor() as pool:
        work = pool.map(lambda job: build_one(commands[job[0].program(job[1])], *job), jobs)
        for number, ((e, variant, _), problem) in enumerate(zip(jobs, work, strict=True), 1):
            if problem and e.question:
                raise UsageError(f"experiment {e.name}, variant '{variant.name}': {problem}")
            if problem:
                print(f"left out {variant.name}: {problem}", file=sys.stderr)
            progress(number, len(jobs), variant.name)


def run_all(out: Path) -> tuple[list[Record], bool]:
    """The records of the variants in a folder, and whether every one was right."""
    folders = sorted(path.parent for path in out.rglob("about.json"))
    records: list[Record] = []
    fine = True
    for number, folder in enumerate(folders):
        about = read_json(folder / "about.json")
        progress(number, len(folders), about["variant"])
        cases, report = folder / "cases.txt", folder / "report.json"
        sizes = about.pop("sizes")
        cases.write_text("".join(f"--size {n}\n" if isinstance(n, int) else f"{n}\n" for n in sizes))
        command = [str(folder / "run"), "--device", "gpu", "--cases", str(cases), *about["options"]]
        result = subprocess.run([*command, "--json", str(report)], capture_output=True, text=True)
        if result.returncode == NO_GPU:
            raise refused_by_gpu(result.stderr)
        fine = fine and result.returncode == 0
        if result.returncode not in (0, 1) or not report.exists():
            fine = False
            print(f"{about['variant']}: {result.stderr.strip()}", file=sys.stderr)
            continue
        records += [about | record for record in read_json(report)]
    progress(len(folders), len(folders), "done")
    if not records:
        raise UsageError(f"nothing in {out} could be measured; `build --keep` fills it")
    return records, fine


def merge(old: list[Record], new: list[Record]) -> list[Record]:
    """Both; the new records of an experiment replace all its old ones."""
    measured = {record["experiment"] for record in new}
    kept = [record for record in old if record["experiment"] not in measured]
    return sorted([*kept, *new], key=itemgetter("experiment"))


def check(e: Experiment, variant: Variant, commands: KernelBuild, folder: Path) -> tuple[str, bool]:
    """What the CPU device's checker says of a variant, and whether that is as it should be."""
    folder.mkdir(parents=True)
    if missing := [made for made in commands.linked if not made.exists()]:
        raise UsageError(f"{missing[0].name} is not built yet; run `meson compile` first")
    source, unit, program = folder / "kernel.cu", folder / "unit.o", folder / "run"
    source.write_text(variant.source())
    result = commands.compile(commands.units["observed"], source, unit)
    if result.returncode == 0:
        result = commands.link_program(program, observed=unit)
    if result.returncode:
        return first_error(result), False
    command = [str(program), "--device", "cpu", "--check", *(variant.wrong_at or e.problem)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    right = result.returncode == 0
    if right or not variant.wrong_at:
        lines = result.stdout.replace(str(source), "kernel.cu").strip().splitlines()
        return "right" if right else "\n".join(lines), right != bool(variant.wrong_at)
    return f"run {' '.join(command[1:])}\n{result.stdout.replace(str(source), 'kernel.cu')}", True


def check_all(experiments: list[Experiment], build: Path) -> bool:
    """Whether each variant is right on the CPU device, or wrong where it should be; prints what it says. What
    is the same but for the compiler's options, or in another experiment, is run once."""
    fine = True
    commands_of = cache(KernelBuild)
    checked: dict[tuple[str, str, tuple[str, ...], bool], tuple[str, bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for e in experiments:
            for n, variant in enumerate(e.variants):
                program, problem = e.program(variant), tuple(variant.wrong_at or e.problem)
                key = variant.source(), program, problem, bool(variant.wrong_at)
                if key not in checked:
                    where = Path(folder).resolve() / e.name / str(n)
                    checked[key] = check(e, variant, commands_of(build, program), where)
                said, as_said = checked[key]
                print(f"{e.name}, {variant.name}: {said}", flush=True)
                fine = fine and as_said
    return fine


# ---- The verbs -------------------------------------------------------------------------------------------


def run_here(experiments: list[Experiment], build: Path) -> tuple[list[Record], bool]:
    """Measures what it builds, and prints it beside what is recorded of another GPU."""
    with tempfile.TemporaryDirectory() as folder:
        build_all(experiments, build, Path(folder).resolve())
        records, fine = run_all(Path(folder).resolve())
    recorded = {
        (r["experiment"], r["variant"], r["m"]): f"{r['ratio_to_cublas']:.3f} on {r['device']}"
        for r in read_json(EVIDENCE / "experiments.json")
    }
    print(f"{records[0]['device']} beside what is recorded, as fractions of cuBLAS on each")
    rows = [[*row(r), recorded.get((r["experiment"], r["variant"], r["m"]), "-")] for r in records]
    print(aligned(rows, left=2))
    return records, fine


def row(record: Record) -> list[str]:
    ratio = record["ratio_to_cublas"]
    speed = "wrong" if not record["pass"] else f"{ratio:.3f} of cuBLAS" if ratio else "-"
    takes = f"{record['machine_code']['registers']} registers"
    return [
        *(record["experiment"], record["variant"]),
        *(f"{record['m']}", f"{record['time_us']:.1f} us", speed, takes),
    ]


def main() -> int:
    parser = Parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing, build, checking = map(commands.add_parser, ("list", "build", "check"))
    for command in (listing, build, checking):
        command.add_argument("names", nargs="*", metavar="NAME")
    for command in (build, checking):
        command.add_argument("--build", default=BUILD, type=Path)
    build.add_argument("--keep", metavar="DIR", help="where the programs go", type=Path, required=True)
    run = commands.add_parser("run")
    run.add_argument("what", metavar="DIR|NAME", nargs="+", help="what build --keep filled, or experiments")
    run.add_argument("--out", metavar="FILE", help="of the records; a folder's must go somewhere", type=Path)
    run.add_argument("--build", default=BUILD, type=Path)
    args = parser.parse_args()
    if args.command == "list":
        for experiment in choose(args.names):
            print(f"{experiment.name:<24} step {experiment.step}: {experiment.question}")
    elif args.command == "build":
        build_all(choose(args.names), args.build, args.keep.resolve())
    elif args.command == "check":
        return int(not check_all(choose(args.names), args.build))
    else:
        folder = Path(args.what[0])
        if folder.is_dir() and len(args.what) == 1:
            if args.out is None:
                raise UsageError("give --out FILE, where the records of the folder go")
            records, fine = run_all(folder.resolve())
            print(aligned(map(row, records), left=2))
        else:
            wanted = choose(args.what)
            here = on_this_gpu(args.build, list(dict.fromkeys(e.step for e in wanted)))
            records, fine = run_here([e for e in wanted if e.step in here], args.build)
        if args.out:
            write_json(args.out, merge(read_json(args.out) if args.out.exists() else [], records))
        return int(not fine)
    return 0
