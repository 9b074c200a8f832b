"""Tries other values for the compile-time constants of a step and measures each.

  ladder sweep STEP NAME=V,V,... [NAME=V,V,...] [--sizes N,N] [--build DIR] [--json FILE]

Every combination of values is put into a copy of steps/STEP/kernel.cu (into its `constexpr int` lines),
compiled for the GPU as the build does it, and run on the GPU at hand; cuBLAS runs in turn with each. What a
static_assert of the kernel forbids is left out. Example:

  ladder sweep 08_warp_tiling LM=2,4,8 LN=4,8,16 BK=8,16,32 --sizes 4096

The two halves can run on different machines of one kind: --keep DIR compiles only and leaves the programs in
DIR; --run DIR runs what lies there. Standard library only.
"""

import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.base import BUILD, Parser, UsageError, write_json
from tools.measuring.variants import Job, Record, Variant, build_all, kernel_of, run_all, with_constants


def jobs_of(step: str, values: list[str], repeat: int, out: Path) -> list[Job]:
    """One for every combination of the values. UsageError if the step does not have such constants."""
    choices = [
        [(name, value) for value in text.split(",")] for name, _, text in (v.partition("=") for v in values)
    ]
    combinations = [dict(combination) for combination in itertools.product(*choices)]
    with_constants(kernel_of(step), combinations[0])
    jobs = []
    for constants in combinations:
        name = ",".join(f"{name}={value}" for name, value in constants.items())
        variant = Variant(name, constants=constants, options=["--repeat", str(repeat)])
        jobs.append(Job(step, variant, out / name, {}))
    return jobs


def left_out(job: Job, problem: str) -> None:
    if problem:
        print(f"left out {job.variant.name}: {problem}", file=sys.stderr)


def require_gpu(program: Path) -> None:
    """UsageError if the program finds no GPU; a program that is not there is another's matter."""
    if not program.exists():
        return
    command = [str(program), "--device", "gpu", "--size", "16", "--repeat", "0"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode == 3:
        said = result.stderr.strip().removeprefix("error: ").removesuffix("; use --device cpu")
        raise UsageError(f"{said}; --keep DIR compiles for a machine with one, where --run DIR runs it")


def table(records: list[Record]) -> str:
    """The variants, fastest first at the largest size; one column of cuBLAS ratios for each size."""
    sizes = sorted({r["m"] for r in records})
    ratios: dict[str, dict[int, float]] = {}
    for r in records:
        ratios.setdefault(r["variant"], {})[r["m"]] = r["ratio_to_cublas"] or 0 if r["pass"] else 0
    lines = [f"{'fraction of cuBLAS at':<40}" + "".join(f"{size:>9}" for size in sizes)]
    for name, of in sorted(ratios.items(), key=lambda item: -item[1].get(sizes[-1], 0)):
        cells = (f"{of[size]:9.3f}" if of.get(size) else f"{'wrong':>9}" for size in sizes)
        lines.append(f"{name:<40}" + "".join(cells))
    return "\n".join(lines)


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("step", nargs="?")
    parser.add_argument("values", nargs="*", metavar="NAME=V,V")
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--build", default=BUILD, type=Path)
    parser.add_argument("--json", help="write the records there", type=Path)
    parser.add_argument("--keep", metavar="DIR", help="compile only, into DIR")
    parser.add_argument("--run", metavar="DIR", help="run what --keep has compiled")
    args = parser.parse_args()
    if args.run is None and (args.step is None or not all("=" in item for item in args.values)):
        raise UsageError("give a step and what to vary, e.g. 08_warp_tiling LM=4,8")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(args.run or args.keep or folder).resolve()
        if args.run is None:
            jobs = jobs_of(args.step, args.values, args.repeat, out)
            if not args.keep:
                require_gpu(args.build / "steps" / args.step / "run")
            build_all(jobs, args.build, left_out)
        if args.keep:
            return 0
        records, _ = run_all(sorted(path.parent for path in out.glob("*/run")), args.sizes)
    if not records:
        raise UsageError("nothing could be measured")
    print(table(records))
    if args.json:
        write_json(args.json, records)
    return 0
