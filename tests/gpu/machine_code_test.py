"""What experiments/machine_code writes, on the GPU: machine_code_test.py PROGRAM CASES.

The program with its main loop written anew must compute the same as before, bit for bit: every sum has the
same terms in the same order. Where blocks share tiles, that order depends on the number of blocks, and on
nothing else. And the program must be right over the cases.

Exit status: 0 so it is, 1 it is not; 77 ("skipped" to Meson) where there is no GPU, or no machine code that
the tool knows.
"""

import filecmp
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common"), str(ROOT / "experiments")]

from machine_code.cubin import find_cubins  # noqa: E402
from machine_code.rewrite import ARCH, Refused, check_origin  # noqa: E402
from tools.machine_code.binary import find_tool  # noqa: E402
from tools.machine_code.listing import SassError  # noqa: E402

DEVICE = "gpu"
SKIP = 77
NO_DEVICE = 3  # the program's own exit status
TILE_M, TILE_N = 128, 256  # of a block

Shape = dict[str, int | float]


def run(program: Path, *options: object) -> int:
    command = [str(program), "--device", DEVICE, "--repeat", "0", *map(str, options)]
    return subprocess.run(command, check=False).returncode


def reason_to_skip(program: Path) -> str:
    """Why the tool has nothing to do here; "" if it has."""
    try:
        find_tool("nvdisasm")
        cubins = [cubin for cubin in find_cubins(program.read_bytes()) if cubin.arch == ARCH]
        for cubin in cubins:
            check_origin(cubin)
    except (Refused, SassError) as reason:
        return str(reason)
    return "" if cubins else f"the build has no machine code for {ARCH}"


def even_tiles(multiprocessors: int) -> tuple[int, int]:
    """Rows and columns of a C with one tile for each multiprocessor, as square as may be."""
    down = max(
        n for n in range(1, multiprocessors + 1) if multiprocessors % n == 0 and n * n <= 2 * multiprocessors
    )
    return down * TILE_M, multiprocessors // down * TILE_N


def shapes(multiprocessors: int) -> list[Shape]:
    """Of the first, the tiles are a multiple of the multiprocessors, and no tile is cut; of the last three,
    fewer, and more."""
    m, n = even_tiles(multiprocessors)
    even: Shape = {"m": m, "n": n, "k": 320}
    return [
        even,
        even | {"k": 2048},
        even | {"k": 72, "alpha": -0.5, "beta": 2},  # the last slab is cut short
        even | {"batch": 3, "alpha": 2, "beta": -0.5},
        even | {"m": m - 5, "n": n - 3, "k": 333},  # rows are not aligned
        even | {"m": m - 127, "n": n - 252, "k": 5, "beta": 1, "lda": 8, "ldb": n, "ldc": n + 4},
        even | {"k": 0, "beta": 2},
        {"m": 1000, "n": 1100, "k": 1500},
        {"m": 1001, "n": 1101, "k": 1501, "alpha": -0.5, "beta": 2},
        even | {"m": 2 * m + 1, "beta": 1},
    ]


def same(programs: tuple[Path, Path], shape: Shape, folder: Path) -> bool:
    """Whether both programs are right and write the same file."""
    options = [word for name, value in shape.items() for word in (f"--{name}", value)]
    files = [folder / f"{n}.npy" for n in range(len(programs))]
    for program, file in zip(programs, files, strict=True):
        file.unlink(missing_ok=True)
        if run(program, *options, "--out", file) != 0 or not file.exists():
            return False
    return filecmp.cmp(*files, shallow=False)


def main() -> int:
    program, cases = map(Path, sys.argv[1:])
    if run(program, "--size", 1) == NO_DEVICE:
        return SKIP
    if reason := reason_to_skip(program):
        print(f"skipped: {reason}")
        return SKIP
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        changed, report = folder / "run", folder / "report.json"
        tool = [sys.executable, ROOT / "experiments" / "machine_code", program, "-o", changed]
        if subprocess.run([*map(str, tool)], check=False).returncode != 0:
            return 1
        run(changed, "--size", 1, "--json", report)
        [result] = json.loads(report.read_text())
        wrong = [s for s in shapes(result["multiprocessors"]) if not same((program, changed), s, folder)]
        for shape in wrong:
            print(f"not the same bits, or a wrong result, at {shape}")
        return 1 if run(changed, "--cases", cases) != 0 or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
