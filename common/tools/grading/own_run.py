"""Runs a student's kernel in a step's program, confined as when it is graded. Standard library only."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tools.base import EMULATOR
from tools.grading.isolation import Limits, confined, environment
from tools.grading.run import UNPACKED


def run_program(program: Path, options: list[str], tell: Callable[[str], None], *, gpu: bool) -> int:
    """Tells each line of its output and returns its exit status. Files that the options name are read where
    they lie; what it writes comes from a scratch folder, once it has ended."""
    options = [part for word in options for part in re.split(r"(?<=^--json)=|(?<=^--out)=", word)]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        written: dict[Path, Path] = {}
        readable = [program.parent, *([UNPACKED] if UNPACKED.exists() else [])]
        for at, (option, file_name) in enumerate(pairwise(options)):
            if option in ("--json", "--out"):
                written[scratch / f"{at}{Path(file_name).suffix}"] = Path(file_name)
                options[at + 1] = str(scratch / f"{at}{Path(file_name).suffix}")
            elif option in ("--a", "--b", "--c", "--cases") and Path(file_name).is_file():
                options[at + 1] = str(Path(file_name).resolve())
                readable.append(Path(file_name))
        words = [*EMULATOR, str(program), *options]
        words += [] if "--device" in options else ["--device", "cpu"]
        limits, writable = Limits(cpu_s=300, memory=None), [scratch] if written else []
        with subprocess.Popen(
            confined(words, limits, readable=readable, writable=writable, gpu=gpu),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment(),
        ) as process:  # fmt: skip
            for line in process.stdout or ():
                tell(line.rstrip("\n"))
        for made, wanted in written.items():
            if made.is_file() and not made.is_symlink():
                shutil.copyfile(made, wanted)
    return process.returncode
