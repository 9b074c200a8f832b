"""Tries other values for the compile-time constants of a step and measures each.

  ladder sweep STEP NAME=V,V,... [NAME=V,V,...] [--sizes N,N] [--build DIR] [--json FILE]

Every combination of values is put into a copy of steps/STEP/kernel.cu (into its `constexpr int` lines),
compiled for the GPU as the build does it, and run on the GPU at hand; cuBLAS runs in turn with each. What a
static_assert of the kernel forbids is left out. Example:

  ladder sweep 08_warp_tiling LM=2,4,8 LN=4,8,16 BK=8,16,32 --sizes 4096

The two halves can run on different machines of one kind: --keep DIR compiles only and leaves the programs in
DIR; --run DIR runs what lies there. Standard library only.
"""

import argparse
import itertools
import json
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.base import BUILD, ROOT, Parser, UsageError, find_ninja, progress, write_whole


def with_constants(source: str, values: dict[str, str]) -> str:
    """The kernel's source with other values for some of its `constexpr int` constants."""
    for name, value in values.items():
        line = re.compile(rf"^(constexpr int (?:.*, )?{name} = )([^,;]+)", re.MULTILINE)
        source, count = line.subn(rf"\g<1>{value}", source)
        if count != 1:
            raise UsageError(f"the kernel has {count} definitions of `constexpr int {name}`, not one")
    return source


def commands(build: Path, step: str) -> tuple[list[str], list[str]]:
    """The build's own commands that compile the step for the GPU and link its program."""
    target = f"steps/{step}/run"
    result = subprocess.run(
        [find_ninja(UsageError), "-C", str(build), "-t", "commands", target], capture_output=True, text=True
    )
    if result.returncode != 0:
        raise UsageError(f"{build} cannot build {target}; run ./setup.sh first")
    lines = [line for line in result.stdout.splitlines() if step in line]
    compile_lines = [line for line in lines if "unit.cu.o" in line and " -c " in line]
    link_lines = [line for line in lines if f" -o {target} " in line]
    if not compile_lines or not link_lines:
        raise UsageError(f"{build} has no CUDA; a sweep needs nvcc")
    return shlex.split(compile_lines[0]), shlex.split(link_lines[0])


def build_variant(build: Path, step: str, values: dict[str, str], out: Path) -> str | None:
    """Compiles one combination to out/<values>/run. Returns what is wrong with it, or None."""
    folder = out / ",".join(f"{name}={value}" for name, value in values.items())
    source = with_constants((ROOT / "steps" / step / "kernel.cu").read_text(), values)
    return build_source(build, step, source, folder)


def build_source(build: Path, step: str, source: str, folder: Path) -> str | None:
    """Compiles a step with another source of its kernel to folder/run. Returns what is wrong, or None."""
    folder.mkdir(parents=True, exist_ok=True)
    kernel = folder / "kernel.cu"
    kernel.write_text(source)
    compile_command, link_command = commands(build, step)
    library = f"common/programs/libgpu_{step}.a"
    unit = folder / "unit.o"
    compile_command = [
        f'-DSTEP_SOURCE="{kernel}"' if w.startswith("-DSTEP_SOURCE=") else w for w in compile_command
    ]
    for option, value in (("-o", str(unit)), ("-MF", str(folder / "unit.d")), ("-MT", str(unit))):
        compile_command[compile_command.index(option) + 1] = value
    result = subprocess.run(compile_command, cwd=build, capture_output=True, text=True)
    if result.returncode != 0:
        errors = [line for line in (result.stdout + result.stderr).splitlines() if "error" in line]
        return errors[0] if errors else "does not compile"
    link_command = [str(unit) if word == library else word for word in link_command]
    link_command[link_command.index("-o") + 1] = str(folder / "run")
    result = subprocess.run(link_command, cwd=build, capture_output=True, text=True)
    unit.unlink()
    return None if result.returncode == 0 else (result.stderr.splitlines() or ["does not link"])[0]


def combinations_of(args: argparse.Namespace) -> list[dict[str, str]]:
    """Every combination of the values. UsageError if the step does not have such constants."""
    if not (ROOT / "steps" / args.step / "kernel.cu").exists():
        raise UsageError(f"there is no step {args.step}; see steps/")
    names = [item.split("=")[0] for item in args.values]
    choices = [item.split("=")[1].split(",") for item in args.values]
    combinations = [dict(zip(names, combination, strict=True)) for combination in itertools.product(*choices)]
    with_constants((ROOT / "steps" / args.step / "kernel.cu").read_text(), combinations[0])
    return combinations


def build_all(args: argparse.Namespace, combinations: list[dict[str, str]], out: Path) -> None:
    with ThreadPoolExecutor() as pool:
        results = pool.map(
            lambda values: (values, build_variant(Path(args.build), args.step, values, out)), combinations
        )
        for done, (values, problem) in enumerate(results, 1):
            progress(done, len(combinations), " ".join(f"{name}={value}" for name, value in values.items()))
            if problem:
                print(f"left out {values}: {problem}", file=sys.stderr)


def require_gpu(program: Path) -> None:
    """UsageError if the program finds no GPU; a program that is not there is another's matter."""
    if not program.exists():
        return
    command = [str(program), "--device", "gpu", "--size", "16", "--repeat", "0"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 3:
        said = result.stderr.strip().removeprefix("error: ").removesuffix("; use --device cpu")
        raise UsageError(f"{said}; --keep DIR compiles for a machine with one, where --run DIR runs it")


def run_all(args: argparse.Namespace, out: Path) -> list[dict[str, object]]:
    programs = sorted(path.parent for path in out.glob("*/run"))
    records: list[dict[str, object]] = []
    for done, folder in enumerate(programs):
        progress(done, len(programs), folder.name)
        report = out / "report.json"
        command = [
            str(folder / "run"),
            "--device",
            "gpu",
            "--sweep",
            args.sizes,
            "--repeat",
            str(args.repeat),
        ]
        result = subprocess.run([*command, "--json", str(report)], capture_output=True, text=True)
        if result.returncode not in (0, 1):
            print(f"{folder.name}: {result.stderr.strip()}", file=sys.stderr)
            continue
        for record in json.loads(report.read_text()):
            records.append({"values": folder.name, **record})
    progress(len(programs), len(programs), "done")
    return records


def table(records: list[dict[str, object]]) -> str:
    """The variants, fastest first at the largest size; one column of cuBLAS ratios for each size."""
    sizes = sorted({r["m"] for r in records})
    ratios: dict[str, dict[object, float]] = {}
    for r in records:
        ratios.setdefault(str(r["values"]), {})[r["m"]] = (
            float(r["ratio_to_cublas"] or 0) if r["pass"] else 0.0
        )
    ordered = sorted(ratios, key=lambda name: -ratios[name].get(sizes[-1], 0))
    lines = [f"{'fraction of cuBLAS at':<40}" + "".join(f"{size:>9}" for size in sizes)]
    for name in ordered:
        cells = (
            f"{ratios[name][size]:9.3f}" if ratios[name].get(size) else f"{'wrong':>9}" for size in sizes
        )
        lines.append(f"{name:<40}" + "".join(cells))
    return "\n".join(lines)


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("step", nargs="?")
    parser.add_argument("values", nargs="*", metavar="NAME=V,V")
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--build", default=BUILD)
    parser.add_argument("--json", help="write the records there")
    parser.add_argument("--keep", metavar="DIR", help="compile only, into DIR")
    parser.add_argument("--run", metavar="DIR", help="run what --keep has compiled")
    args = parser.parse_args()
    if args.run is None and (args.step is None or not all("=" in item for item in args.values)):
        raise UsageError("give a step and what to vary, e.g. 08_warp_tiling LM=4,8")
    if args.keep:
        build_all(args, combinations_of(args), Path(args.keep).resolve())
        return 0
    with tempfile.TemporaryDirectory() as folder:
        out = Path(args.run or folder).resolve()
        if args.run is None:
            combinations = combinations_of(args)
            require_gpu(Path(args.build) / "steps" / args.step / "run")
            build_all(args, combinations, out)
        records = run_all(args, out)
    if not records:
        raise UsageError("nothing could be measured")
    print(table(records))
    if args.json:
        write_whole(Path(args.json), json.dumps(records, indent=1) + "\n")
    return 0
