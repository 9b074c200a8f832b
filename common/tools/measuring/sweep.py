"""Tries other values for the compile-time constants of a step and measures each.

  ladder sweep STEP NAME=V,V,... [NAME=V,V,...] [--sizes N,N] [--build DIR]

Every combination of values is put into a copy of steps/STEP/kernel.cu (into its `constexpr int` lines),
compiled for the GPU as the build does it, and run on the GPU at hand; cuBLAS runs in turn with each. What a
static_assert of the kernel forbids is left out. Example:

  ladder sweep 08_warp_tiling LM=2,4,8 LN=4,8,16 BK=8,16,32 --sizes 4096
"""

import itertools
import tempfile
from pathlib import Path

from tools.base import BUILD, Parser, UsageError, aligned
from tools.measuring.experiment import Experiment, Record, Variant, build_all, row, run_all
from tools.measuring.ladder import choose_steps, numbers, on_this_gpu


def sweep_of(step: str, values: list[str], sizes: list[int], options: list[str]) -> Experiment:
    """A variant for every combination of the values."""
    named = (item.partition("=") for item in values)
    choices = [[(name, value) for value in text.split(",")] for name, _, text in named]
    combinations = list(map(dict, itertools.product(*choices)))
    variants = [
        Variant(name=",".join(map("=".join, c.items())), constants=c, options=options) for c in combinations
    ]
    return Experiment("", step, "", variants, sizes)


def fastest_first(records: list[Record]) -> list[Record]:
    """By size; those that are wrong come last."""
    return sorted(records, key=lambda r: (r["m"], not r["pass"], -(r["ratio_to_cublas"] or 0)))


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("step")
    parser.add_argument("values", nargs="+", metavar="NAME=V,V")
    parser.add_argument("--sizes", default="4096,8192")
    parser.add_argument("--build", default=BUILD, type=Path)
    args = parser.parse_args()
    if not all("=" in item for item in args.values):
        raise UsageError("give a step and what to vary, e.g. 08_warp_tiling LM=4,8")
    experiment = sweep_of(args.step, args.values, numbers(args.sizes), ["--repeat", "10"])
    experiment.variants[0].source()  # mistakes first
    on_this_gpu(args.build, choose_steps(args.build, args.step))
    with tempfile.TemporaryDirectory() as folder:
        build_all([experiment], args.build, Path(folder).resolve())
        records, fine = run_all(Path(folder).resolve())
    print(aligned(map(row, fastest_first(records)), left=2))
    return int(not fine)
