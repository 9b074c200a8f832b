"""The commands that compile and link the program around one kernel, and what they make of another source.

They are read from Ninja, so that whatever is compiled here is compiled as the build does it. All that this
relies on: steps/NN_name/run is linked from objects, or libraries of one object, that common/unit.cpp (with
-DSTEP_ENTRY=run_on_cpu, run_on_cpu_observed), common/unit.cu and common/harness/main.cpp were compiled to,
with the kernel's file in -DSTEP_SOURCE. Standard library only.
"""

import os
import shlex
import subprocess
from pathlib import Path

from tools.base import UsageError, find_ninja

Result = subprocess.CompletedProcess[str]
# The units of a program, and the words in the commands that compile them.
UNITS = {
    "main": ("harness/main.cpp",),
    "plain": ("common/unit.cpp", "-DSTEP_ENTRY=run_on_cpu"),
    "observed": ("common/unit.cpp", "-DSTEP_ENTRY=run_on_cpu_observed"),
    "gpu": ("common/unit.cu",),
}


class KernelBuild:
    """The commands of one step's program in a build directory, in which they run: `units`, for each unit that
    the build has, and `link`. Raises error, in one line, if the build has no such program."""

    def __init__(self, build: Path, step: str, error: type[UsageError] = UsageError):
        self.build = build
        self.program = f"steps/{step}/run"
        command = [find_ninja(error), "-C", str(build), "-t", "commands", self.program]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        commands = [shlex.split(line) for line in result.stdout.splitlines()]
        self.units: dict[str, list[str]] = {}
        for name, (source, *words) in UNITS.items():
            for command in commands:
                if "-c" in command and command[-1].endswith(source) and all(w in command for w in words):
                    self.units[name] = command
        self.link = next((c for c in commands if self.program in c and "-c" not in c), [])
        if result.returncode != 0 or not self.link or not {"main", "plain"} <= self.units.keys():
            raise error(f"{build} cannot build {self.program}; run ./setup.sh first")

    @property
    def linked(self) -> list[Path]:
        """The objects and libraries of the program, which must have been built before others are linked."""
        return [self.build / word for word in self.link if word.endswith((".o", ".a"))]

    def compile(self, command: list[str], source: Path, out: Path, timeout: float | None = None) -> Result:
        """Compiles the source by a unit's command. Compilers speak English, without colours; stdout has all
        that they say. out appears only if all went well. Raises TimeoutExpired, OSError."""
        words = [
            f'-DSTEP_SOURCE="{source.absolute()}"' if w.startswith("-DSTEP_SOURCE=") else w for w in command
        ]
        for notes in ("-MF", "-MQ", "-MT"):  # for Ninja
            if notes in words:
                del words[(at := words.index(notes)) : at + 2]
        return self._run([w for w in words if w not in ("-MD", "-fdiagnostics-color=always")], out, timeout)

    def link_program(self, out: Path, **objects: Path) -> Result:
        """Links the step's program with other objects in place of some of its units'."""
        words = list(self.link)
        for name, replacement in objects.items():
            command = self.units[name]
            object_file = command[command.index("-o") + 1]
            linked = (object_file, object_file.partition(".p/")[0])  # as it is, or in a library
            words = [str(replacement.absolute()) if word in linked else word for word in words]
        return self._run(words, out)

    def _run(self, words: list[str], out: Path, timeout: float | None = None) -> Result:
        new = out.with_name(f"new-{out.name}")
        words[words.index("-o") + 1] = str(new.absolute())
        result = subprocess.run(
            words, cwd=self.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", timeout=timeout, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
        if result.returncode == 0:
            new.replace(out)
        return result


def first_error(result: Result) -> str:
    """The line of what a compiler or linker said that tells most."""
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), (lines or ["it says nothing"])[0])
