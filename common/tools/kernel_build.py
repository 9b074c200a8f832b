"""The commands that compile and link the program around one kernel, and what they make of another source.

<build>/kernel_programs.json, of common/programs/meson.build, says what a program is made of; the commands are
Ninja's, so that whatever is compiled here is compiled as the build does it. Standard library only.
"""

import os
import shlex
import subprocess
from pathlib import Path

from tools.base import UsageError, find_ninja, read_json
from tools.needs import Needs

Result = subprocess.CompletedProcess[str]


class KernelBuild:
    """The commands of a kernel's program in a build directory, in which they run: `units`, which compile the
    kernel, by device, and `link`. UsageError if the build has no such program."""

    def __init__(self, build: Path, name: str):
        self.build = build
        programs = build / "kernel_programs.json"
        made_of = read_json(programs).get(name) if programs.exists() else None
        if made_of is None:
            raise UsageError(f"{build} cannot build {name}; run ./setup.sh first")
        self.needs = Needs(made_of["needs"])  # of a GPU
        self.archives: dict[str, str] = made_of["units"]  # by device
        ninja = [find_ninja(), "-C", str(build), "-t", "commands", made_of["program"]]
        said = subprocess.run(ninja, capture_output=True, text=True, check=False)
        if said.returncode != 0:
            raise UsageError(f"{build} cannot build {name}: {(said.stderr + said.stdout).strip()}")
        commands = {c[c.index("-o") + 1]: c for c in map(shlex.split, said.stdout.splitlines()) if "-o" in c}
        self.link = commands[made_of["program"]]
        self.units = {
            device: command
            for device, archive in self.archives.items()
            for made, command in commands.items()
            if made.startswith(f"{archive}.p/")
        }

    @property
    def linked(self) -> list[Path]:
        """The objects and libraries of the program, which must have been built before others are linked."""
        return [self.build / word for word in self.link if word.endswith((".o", ".a"))]

    def compile(self, command: list[str], source: Path, out: Path, timeout: float | None = None) -> Result:
        """Compiles the source by a unit's command. Compilers speak English, without colours; stdout has all
        that they say. out appears only if all went well. Raises TimeoutExpired, OSError."""
        return self._run(self.compile_words(command, source), out, timeout)

    def cubin_command(self, arch: str) -> list[str]:
        """What compiles for a GPU, but to the machine code of one architecture alone, as sm_90a."""
        words = ["-cubin" if w == "-c" else w for w in self.units["gpu"] if not w.startswith("-gencode")]
        return [*words, f"-gencode=arch=compute_{arch.removeprefix('sm_')},code={arch}"]

    def compile_words(self, command: list[str], source: Path) -> list[str]:
        """A unit's command for another source, without an output."""
        words = [
            f'-DSTEP_SOURCE="{source.absolute()}"' if w.startswith("-DSTEP_SOURCE=") else w for w in command
        ]
        for notes in ("-MF", "-MQ", "-MT"):  # for Ninja
            if notes in words:
                del words[(at := words.index(notes)) : at + 2]
        return [w for w in words if w not in ("-MD", "-fdiagnostics-color=always")]

    def cubin_source(self, arch: str, source: Path) -> str:
        """All that a cubin depends on but for the compiler itself: the options, and the preprocessed text."""
        command = self.compile_words(self.cubin_command(arch), source)
        at = command.index("-o")
        words = ["-E" if w == "-cubin" else w for w in (*command[:at], *command[at + 2 :])]
        text = subprocess.run(
            [*words, "-Xcompiler=-P"], cwd=self.build, check=True, capture_output=True, text=True
        ).stdout
        return "\n".join([*(w for w in words[1:] if not w.startswith(("-I", "-D"))), text])

    def link_program(self, out: Path, **objects: Path) -> Result:
        """Links the program with other objects for some of its devices."""
        replaced = {self.archives[device]: str(path.absolute()) for device, path in objects.items()}
        return self._run([replaced.get(word, word) for word in self.link], out)

    def _run(self, words: list[str], out: Path, timeout: float | None = None) -> Result:
        new = out.with_name(f"new-{out.name}")
        result = subprocess.run(
            with_output(words, new), cwd=self.build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=timeout, env=os.environ | {"LC_ALL": "C"},
        )  # fmt: skip
        if result.returncode == 0:
            new.replace(out)
        return result


def with_output(words: list[str], out: Path) -> list[str]:
    """The command with another output."""
    at = words.index("-o") + 1
    return [*words[:at], str(out.absolute()), *words[at + 1 :]]


def first_error(result: Result) -> str:
    """The line of what a compiler or linker said that tells most."""
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line), (lines or ["it says nothing"])[0])
