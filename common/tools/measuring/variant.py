"""Builds a step's program with other values for its constants, or with a kernel of your own.

  ladder variant 05_2d_tiling BK=32 --out build/mine
  build/mine/run --xray

NAME=VALUE goes into one of the kernel's `constexpr int` lines. DIR gets kernel.cu, to read and to edit, and
run, which has the build's devices and the options of the step's program; the step itself stays as it is.
After an edit: ladder variant 05_2d_tiling --kernel build/mine/kernel.cu --out build/mine.

Exit status: 0 built, 1 the kernel does not compile, 2 bad usage or the step is not built. Standard library
only.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.base import BUILD, ROOT, Parser, UsageError, read_text, write_whole
from tools.edits import base_path, with_constants
from tools.kernel_build import KernelBuild, first_error
from tools.measuring.ladder import choose_steps


def build(commands: KernelBuild, source: Path, program: Path) -> str:
    """Compiles the source for every device of the build and links the program. Returns what is wrong, ""
    if nothing is: then, and only then, the program is new."""
    if missing := [made for made in commands.linked if not made.exists()]:
        raise UsageError(f"{missing[0].name} is not built yet; run `.venv/bin/meson compile -C build` first")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        units = {device: Path(folder).resolve() / f"{device}.o" for device in commands.units}
        results = pool.map(
            lambda device: commands.compile(commands.units[device], source, units[device]), units
        )
        for result in [*results]:
            if result.returncode:
                return first_error(result)
        result = commands.link_program(program, **units)
        return first_error(result) if result.returncode else ""


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("step", help="its number is enough")
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--kernel", type=Path, metavar="FILE", help="the source [steps/STEP/kernel.cu]")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="gets kernel.cu and run")
    parser.add_argument("--build", type=Path, default=BUILD, help="the build directory [build]")
    args = parser.parse_args()
    if wrong := [text for text in args.values if not all(text.partition("="))]:
        raise UsageError(f"'{wrong[0]}' is not NAME=VALUE, e.g. BK=32")
    step, *more = choose_steps(args.build, args.step)
    if more:
        raise UsageError(f"give one step, not {args.step}")
    source = read_text(args.kernel or ROOT / base_path(step))
    source = with_constants(source, dict(text.split("=", 1) for text in args.values))
    commands = KernelBuild(args.build.resolve(), step)
    args.out.mkdir(parents=True, exist_ok=True)
    write_whole(args.out / "kernel.cu", source)
    if problem := build(commands, args.out.resolve() / "kernel.cu", args.out.resolve() / "run"):
        print(f"{args.out / 'kernel.cu'} does not compile: {problem}", file=sys.stderr)
        return 1
    print(f"built {args.out / 'run'}")
    return 0
