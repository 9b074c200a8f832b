#!/usr/bin/env python3
"""The speed of the CPU device before and after a change: two builds of the steps, run in turn.

    tests/cpu/benchmark.py BUILD_BEFORE BUILD_AFTER [--steps 03,09] [--rounds 5]

Each step runs 512 x 512 x 512 plainly and 128 x 96 x 80 with every access checked. Compared is processor
time in user mode, which other programs on the machine disturb least; of all rounds the median counts. Exit
status: 0 if no step takes more than LIMIT times as long as before, 1 otherwise.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

LIMIT = 1.1
RUNS = {
    "plain 512^3": ["--device", "cpu", "--m", "512", "--n", "512", "--k", "512", "--repeat", "1"],
    "checked 128x96x80": ["--check", "--m", "128", "--n", "96", "--k", "80", "--repeat", "10"],
}


def user_seconds(program: Path, options: list[str]) -> float:
    before = os.times().children_user
    subprocess.run([program, *options], check=True, stdout=subprocess.DEVNULL)
    return os.times().children_user - before


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--steps", default="", help="beginnings of names; default: all that run on the CPU")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    begins = tuple(arguments.steps.split(","))
    programs = [
        program.parent.name
        for program in sorted((arguments.after / "steps").glob("*/run"))
        if program.parent.name.startswith(begins) and "_cublas" not in program.parent.name
    ]
    slower = False
    for step in programs:
        for what, options in RUNS.items():
            times: dict[Path, list[float]] = {arguments.before: [], arguments.after: []}
            for _ in range(arguments.rounds):
                for build, list_of in times.items():
                    list_of.append(user_seconds(build / "steps" / step / "run", options))
            before, after = (statistics.median(list_of) for list_of in times.values())
            slower = slower or after > LIMIT * before
            print(f"{step:20} {what:18} {before:7.2f} s {after:7.2f} s  x {after / before:.3f}", flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
