#!/usr/bin/env python3
"""Whether two builds made the same machine code of the steps: then what was measured with one holds for both.

  same_machine_code.py OLD_BUILD NEW_BUILD [STEP...]

Compares the instructions of every kernel of every step's program, for each architecture that is in it, and
the registers and the memory that each kernel takes. Kernels go by their name without parameters, as those may
be spelled otherwise. One line for each program. Exit status: 0 the same, 1 not, 2 bad usage or a program that
cannot be read.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common" / "tools"))

from sass_binary import resources, run_tool, short_name  # noqa: E402
from sass_listing import SassError  # noqa: E402

Kernels = dict[tuple[str, str], tuple[str, str]]  # by architecture and name: what it takes, its instructions


def steps_own(symbols: set[str]) -> dict[str, str]:
    """The kernels' names by symbol, without the harness's own."""
    ordered = sorted(symbols)
    result = subprocess.run(["c++filt"], input="\n".join(ordered), capture_output=True, text=True, check=True)
    named = zip(ordered, result.stdout.splitlines(), strict=True)
    return {symbol: short_name(name) for symbol, name in named if "harness::" not in name}


def instructions_of(cubin: Path) -> dict[str, str]:
    """By symbol: the code as nvdisasm prints it, encodings with it, without lines and symbols' names."""
    found: dict[str, list[str]] = {}
    symbol = ""
    for line in run_tool("nvdisasm", "--print-code", "--print-instruction-encoding", cubin).splitlines():
        if match := re.match(r"\s*\.section\s+\.text\.([^,\s]+)", line):
            symbol = match[1]
            found[symbol] = []
        elif symbol and ("/*" in line or re.match(r"\.L_", line)):
            found[symbol].append(re.sub(r"\s+", " ", line).strip())
    # A jump's target is named by the kernel, or by a number that counts through the whole file.
    return {name: re.sub(r"\.L_x_\d+|`\([^)]*\)", "", "\n".join(lines)) for name, lines in found.items()}


def kernels_of(program: Path) -> Kernels:
    found: Kernels = {}
    for arch, by_symbol in resources(program).items():
        names = steps_own(set(by_symbol))
        with tempfile.TemporaryDirectory() as folder:
            run_tool("cuobjdump", "--extract-elf", arch, program.resolve(), cwd=Path(folder))
            for cubin in sorted(Path(folder).glob(f"*.{arch}.cubin")):
                data = cubin.read_bytes()
                if not any(symbol.encode() in data for symbol in names):
                    continue  # the harness's own
                for symbol, code in instructions_of(cubin).items():
                    if symbol in names:
                        found[arch, names[symbol]] = (str(by_symbol[symbol]), code)
    return found


def compare(old: Kernels, new: Kernels) -> list[str]:
    differences = [
        f"{arch} {name} is only in the {age}"
        for age, there, other in (("old", old, new), ("new", new, old))
        for arch, name in sorted(there.keys() - other.keys())
    ]
    for arch, name in sorted(old.keys() & new.keys()):
        if old[arch, name][0] != new[arch, name][0]:
            differences.append(f"{arch} {name} takes {new[arch, name][0]}, not {old[arch, name][0]}")
        elif old[arch, name][1] != new[arch, name][1]:
            differences.append(f"{arch} {name} has other instructions")
    return differences


def main(arguments: list[str]) -> int:
    if len(arguments) < 2 or arguments[0].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    builds = [Path(argument) for argument in arguments[:2]]
    steps = arguments[2:] or sorted(path.parent.name for path in builds[0].glob("steps/*/run"))
    if not steps:
        print(f"error: {builds[0]} has no step's program; build it first", file=sys.stderr)
        return 2
    same = True
    for step in steps:
        try:
            old, new = (kernels_of(build / "steps" / step / "run") for build in builds)
        except SassError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        differences = compare(old, new)
        archs = ", ".join(sorted({arch for arch, _ in old}))
        print(
            f"{step}: " + ("; ".join(differences) or f"{len(old)} kernels the same{archs and f' ({archs})'}")
        )
        same = same and not differences
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
