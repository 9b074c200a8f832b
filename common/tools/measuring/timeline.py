"""Records when the producer and the consumers of a kernel copy, multiply, store and wait.

  ladder timeline --device cpu --out timeline.json

The kernels are the variants of experiments/timeline/kernels.toml, which put a counter's readings where C
should be: on a GPU the multiprocessor's cycles, on the CPU device its own calls. FILE gets what one block of
each did; the pages draw timeline.json in docs/evidence/<gpu>. To record on another machine,
build with --keep here and run with --programs there.
"""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tools.base import BUILD, ROOT, Parser, UsageError, read_json, write_json
from tools.claims.constants import constants
from tools.kernel_build import KernelBuild, first_error
from tools.measuring import experiment

ROWS = 8  # of C for a block: the producer's, two consumers', their two epilogues'
SIZES = {"gpu": (4096, 4096, 4096), "cpu": (128, 2048, 384)}
WRAPS = 2**24  # the counter is recorded modulo this, which a float holds


def events(row: Any, first: float) -> list[int]:
    """What was recorded in a row of C, counted from `first`; the rest of the row holds NaN."""
    return [int((x - first) % WRAPS) for x in row[: next((n for n, x in enumerate(row) if x != x), len(row))]]


def block_of(c: Any, block: int) -> dict[str, Any]:
    rows = c[block * ROWS : (block + 1) * ROWS]
    names = ("producer", "consumer 0", "consumer 1", "stores 0", "stores 1")
    return {name: events(row, rows[0][0]) for name, row in zip(names, rows, strict=False)}


def build_programs(build: Path, device: str, folder: Path) -> None:
    """Makes <folder>/STEP/run and, beside it, about.json of each of the kernels."""
    kernels = experiment.read(ROOT / "experiments" / "timeline" / "kernels.toml")
    m, n, k = SIZES[device]
    for variant in kernels.variants:
        commands, made = KernelBuild(build, kernels.program(variant)), folder / variant.kernel
        made.mkdir(parents=True, exist_ok=True)
        source, unit = made / "kernel.cu", made / "unit.o"
        source.write_text(variant.source())
        result = commands.compile(commands.units[device], source, unit)
        if result.returncode == 0:
            result = commands.link_program(made / "run", **{device: unit})
        if result.returncode:
            raise UsageError(f"timeline, {variant.name}: {first_error(result)}")
        unit.unlink()
        values = constants(source.read_text())
        about = {"step": variant.kernel, "device": device, "m": m, "n": n, "k": k, "options": variant.options}
        write_json(
            made / "about.json", about | {"stages": values["STAGES"], "k_tiles": -(-k // values["BK"])}
        )


def record(folder: Path) -> list[dict[str, Any]]:
    """Runs what build_programs made."""
    import numpy as np

    found = []
    for path in sorted(folder.glob("*/about.json")):
        about, out = read_json(path), path.with_name("c.npy")
        sizes = [word for name in "mnk" for word in (f"--{name}", str(about[name]))]
        command = [str(path.with_name("run")), "--device", about["device"], *sizes, *about.pop("options")]
        ran = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True)
        if ran.returncode or not out.exists():
            raise UsageError(f"timeline, {about['step']}: {(ran.stderr or ran.stdout).strip()}")
        found.append(about | {"block": block_of(np.load(out), 0)})
    if not found:
        raise UsageError(f"{folder} holds no programs; ladder timeline --keep makes them")
    return found


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--device", default="gpu", choices=SIZES)
    parser.add_argument("--build", default=BUILD, type=Path)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="make the programs there and run nothing")
    parser.add_argument("--programs", type=Path, metavar="DIR", help="take those, which --keep made")
    parser.add_argument("--out", type=Path, help="keeps the records of the other device")
    args = parser.parse_args()
    if (args.keep is None) == (args.out is None):
        raise UsageError("give --out FILE to record, or --keep DIR to build only")
    with tempfile.TemporaryDirectory() as folder:
        programs = args.programs or args.keep or Path(folder)
        if args.programs is None:
            build_programs(args.build, args.device, programs.resolve())
        if args.out is None:
            return 0
        new = record(programs.resolve())
    old = read_json(args.out) if args.out.exists() else []
    write_json(args.out, [*(r for r in old if r["device"] != args.device), *new])
    return 0
