"""Runs a step on the GPU: gpu_test.py PROGRAM CASES [SANITIZER_TOOL].

Exit status: the program's, 77 ("skipped" to Meson) where there is no GPU, no compute-sanitizer, or not
enough memory for one of the problems.
"""

import shutil
import subprocess
import sys
from pathlib import Path

SKIP = 77
NO_DEVICE = 3  # the program's own exit status
SANITIZER_ERROR = 9
BAD_INPUT, TOO_LARGE = 2, "the matrices need"  # what the program says of too little memory


def find_sanitizer() -> str | None:
    known = Path("/usr/local/cuda/bin/compute-sanitizer")
    return shutil.which("compute-sanitizer") or (str(known) if known.exists() else None)


def main() -> int:
    program, cases, *tool = sys.argv[1:]
    command = [program, "--device", "gpu", "--cases", cases, "--repeat", "0"]
    if subprocess.run([program, "--device", "gpu", "--size", "1", "--repeat", "0"]).returncode == NO_DEVICE:
        return SKIP
    if tool:
        sanitizer = find_sanitizer()
        if sanitizer is None:
            print("skipped: compute-sanitizer is neither on PATH nor in /usr/local/cuda/bin")
            return SKIP
        command = [sanitizer, "--tool", tool[0], "--error-exitcode", str(SANITIZER_ERROR), *command]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    print(done.stderr, end="", file=sys.stderr)
    return SKIP if done.returncode == BAD_INPUT and TOO_LARGE in done.stderr else done.returncode


if __name__ == "__main__":
    sys.exit(main())
