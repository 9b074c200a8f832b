"""Records when the producer and the consumers of a kernel copy, multiply, store and wait.

  ladder timeline --device cpu --out timeline.json

The kernels are the variants of experiments/timeline/kernels.toml, which put a counter's readings where C
should be: on a GPU the multiprocessor's cycles, on the CPU device its own calls. FILE gets what one block of
each did; the pages draw docs/evidence/h200/timeline.json.
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


def record(build: Path, device: str) -> list[dict[str, Any]]:
    import numpy as np

    kernels = experiment.read(ROOT / "experiments" / "timeline" / "kernels.toml")
    m, n, k = SIZES[device]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for variant in kernels.variants:
            commands = KernelBuild(build, kernels.program(variant))
            source, unit, program, out = (
                Path(folder) / name for name in ("kernel.cu", "unit.o", "run", "c.npy")
            )
            source.write_text(variant.source())
            result = commands.compile(commands.units[device], source, unit)
            if result.returncode == 0:
                result = commands.link_program(program, **{device: unit})
            if result.returncode:
                raise UsageError(f"timeline, {variant.name}: {first_error(result)}")
            sizes = [
                word for name, size in zip("mnk", (m, n, k), strict=True) for word in (f"--{name}", str(size))
            ]
            command = [str(program), "--device", device, *sizes, *variant.options, "--out", str(out)]
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode or not out.exists():
                raise UsageError(f"timeline, {variant.name}: {(ran.stderr or ran.stdout).strip()}")
            values = constants(source.read_text())
            about = {"step": variant.kernel, "device": device, "m": m, "n": n, "k": k}
            about |= {"stages": values["STAGES"], "k_tiles": -(-k // values["BK"])}
            found.append(about | {"block": block_of(np.load(out), 0)})
    return found


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("--device", default="gpu", choices=SIZES)
    parser.add_argument("--build", default=BUILD, type=Path)
    parser.add_argument("--out", required=True, type=Path, help="keeps the records of the other device")
    args = parser.parse_args()
    old = read_json(args.out) if args.out.exists() else []
    write_json(args.out, [*(r for r in old if r["device"] != args.device), *record(args.build, args.device)])
    return 0
