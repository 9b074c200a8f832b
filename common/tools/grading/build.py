"""Compiles a student's kernel as the build compiles a step. Standard library only.

The commands are the build's own (kernel_build.py) with another source. Everything made of one source lies in
<build>/exercise-cache/KEY, whose name says what it was made of; the oldest folders are removed.
"""

import hashlib
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from subprocess import TimeoutExpired

from tools.base import ROOT, UsageError
from tools.grading import object_file
from tools.grading.content import entry_of_step
from tools.grading.finding import Failed, Finding
from tools.grading.state import locked
from tools.kernel_build import KernelBuild, first_error

KEPT = 60  # folders in the cache
COMPILE_TIMEOUT_S = 120
# What is compiled for the CPU device: the student's file, whose entry is kept from touching A, B and C. An
# entry of another name than the step's does not compile: the name decides how large the error may be.
GUARDED = """#include "common/programs/exercise_guard.hpp"
#include "kernel.cu"
static void guarded_{0.name}(const {0.takes}& g) {{ exercise_guard::call({0.name}, g); }}
#define {0.name} guarded_{0.name}
"""
# A static variable that is set at run time needs no lock here, and the CPU device has none.
NO_LOCKS = "-fno-threadsafe-statics"
DOES_NOT_COMPILE = "It does not compile:"
NO_CUDA = "It compiles for the CPU device, but it is no CUDA. nvcc says:"


class BuildError(UsageError):
    """What is wrong with the build directory, in one line."""


@dataclass(frozen=True)
class Built:
    """What was made of one source: folder/kernel.cu, folder/run for the CPU device, folder/kernel.cubin where
    there is nvcc, and folder/run-gpu if it was asked for."""

    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "run"

    @property
    def source(self) -> str:
        return (self.folder / "kernel.cu").read_text(encoding="utf-8")


class Toolchain:
    """What compiles for one step in one build directory."""

    def __init__(self, build: Path, step: str):
        self.build = build
        self.step = step
        try:
            self.commands = KernelBuild(build, step)
        except UsageError as error:
            raise BuildError(error) from None
        if "observed" not in self.commands.units:
            raise BuildError("this build cannot observe kernels, as grading must; configure it with CXX=g++")
        if missing := [path for path in self.commands.linked if not path.exists()]:
            raise BuildError(f"{missing[0]} is not built; run `meson compile -C {build}` first")

    @property
    def has_nvcc(self) -> bool:
        return "gpu" in self.commands.units

    @cached_property
    def _stamp(self) -> str:
        """Changes with whatever the student's program is made of, besides the source."""
        headers = [p for p in (ROOT / "common").rglob("*") if p.suffix in (".hpp", ".cpp", ".cu")]
        checks = [Path(__file__), Path(object_file.__file__)]  # what is there has passed them
        parts = [self.step, repr(self.commands.units), repr(self.commands.link)]
        for path in sorted([*headers, *self.commands.linked, *checks]):
            parts.append(f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}")
        return "\n".join(parts)

    @property
    def cache(self) -> Path:
        return self.build / "exercise-cache"

    def folder_for(self, source: str) -> Path:
        return self.cache / hashlib.sha256(f"{self._stamp}\0{source}".encode()).hexdigest()[:20]

    def compile(self, source: str, *, gpu: bool = False) -> Built:
        """Makes what is not there yet. Where the build has nvcc it also shows what is no CUDA although the
        CPU device runs it. Raises Failed, BuildError."""
        try:
            folder = self.folder_for(source)
            folder.mkdir(parents=True, exist_ok=True)
            os.utime(folder)  # the oldest are removed
            with locked(folder):
                self._compile_in(folder, source, gpu and self.has_nvcc)
            with suppress(FileNotFoundError):  # where another process removes some
                self._trim(folder)
        except OSError as error:
            raise BuildError(f"{error.filename or self.cache}: {error.strerror}") from None
        return Built(folder)

    def _trim(self, keep: Path) -> None:
        folders = sorted(self.cache.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in folders[:-KEPT]:
            if path != keep:
                shutil.rmtree(path, ignore_errors=True)

    def _compile_in(self, folder: Path, source: str, gpu: bool) -> None:
        kernel, guarded = folder / "kernel.cu", folder / "guarded.cu"
        if not kernel.exists():
            kernel.write_text(source, encoding="utf-8")
            guarded.write_text(GUARDED.format(entry_of_step(self.step)), encoding="utf-8")
        units = self.commands.units
        wanted = {f"{name}.o": ([*units[name], NO_LOCKS], guarded) for name in ("cpu", "observed")}
        if self.has_nvcc:
            wanted["kernel.cubin"] = self._cubin_command(), kernel
        if gpu:
            wanted["gpu.o"] = units["gpu"], kernel
        missing = {name: job for name, job in wanted.items() if not (folder / name).exists()}
        programs = [name for name in ("run", "run-gpu")[: 1 + gpu] if not (folder / name).exists()]
        with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1)) as pool:
            outcomes = pool.map(lambda name: self._compile_one(*missing[name], folder / name), missing)
            failed = {name: found for name, found in zip(missing, outcomes, strict=True) if found}
        if finding := failed.get("cpu.o") or failed.get("observed.o"):
            raise Failed(finding)
        if programs and (finding := object_file.check_object(folder / "cpu.o", source)):
            raise Failed(finding)
        if finding := next(iter(failed.values()), None):
            finding.says = finding.says.replace(DOES_NOT_COMPILE, NO_CUDA, 1)
            finding.look = "what the kernel calls: helpers need __device__; min and max stand without std::."
            raise Failed(finding)
        for name in programs:
            self._link(folder, name)

    def _cubin_command(self) -> list[str]:
        """Machine code for one architecture only, without a host part: less than half the time. sm_90a if the
        build has it, else its first."""
        words = self.commands.units["gpu"]
        built = re.findall(r"code=sm_(\w+)", " ".join(words))
        number = "90a" if "90a" in built else built[0]
        words = ["-cubin" if word == "-c" else word for word in words if not word.startswith("-gencode")]
        return [*words, f"-gencode=arch=compute_{number},code=sm_{number}"]

    def _compile_one(self, command: list[str], unit: Path, out: Path) -> Finding | None:
        try:
            result = self.commands.compile(command, unit, out, COMPILE_TIMEOUT_S)
        except TimeoutExpired:
            return Finding("compile", f"the compiler did not finish within {COMPILE_TIMEOUT_S} s.")
        except OSError as error:
            raise BuildError(f"{command[0]} cannot be run: {error.strerror}") from None
        return finding_of(result.stdout, unit.with_name("kernel.cu")) if result.returncode else None

    def _link(self, folder: Path, program: str) -> None:
        """With the main program of the step, and its GPU part where only the CPU device is used."""
        names = ("cpu", "observed", "gpu") if program == "run-gpu" else ("cpu", "observed")
        result = self.commands.link_program(folder / program, **{n: folder / f"{n}.o" for n in names})
        if result.returncode == 0:
            return
        match = re.search(r"undefined reference to [`'](.*?)'", result.stdout, re.IGNORECASE)
        if match is None:
            raise BuildError(f"the linker fails: {first_error(result)}")
        says = f"the program does not link: `{match[1]}` is declared and nowhere defined."
        look = "where it is used: is the name right, and has the function a body?"
        raise Failed(Finding("compile", says, look=look))


def finding_of(output: str, kernel: Path) -> Finding:
    """The compiler's first error, at the line of the student's file that it is in or that led to it."""
    place = re.escape(str(kernel))
    match = re.search(
        rf"^{place}[:(](\d+)[:)](?:\d+:)? ?(?:fatal )?error ?(?:#\d+)?: (.*)$", output, re.MULTILINE
    )
    if match:
        line, said = int(match[1]), match[2]
    else:
        other = re.search(r"(?:fatal )?error *(?:#\d+)? *: (.*)$", output, re.MULTILINE)
        # Not the line of an include, which is named as "from FILE:12,".
        led = re.search(rf"{place}:(\d+):\d+: +required from|{place}[:(](\d+)[:)]", output)
        said = other[1] if other else (output.strip().splitlines() or ["the compiler says nothing"])[-1]
        line = int(led[1] or led[2]) if led else 0
    said = said.replace(str(kernel), "your file").strip().rstrip(".")
    # Without the compilers' names for the namespace that has none.
    said = re.sub(r"(?:_NV_ANON_NAMESPACE|\(anonymous namespace\)|\{anonymous\}|<unnamed>)::", "", said)
    if marked := re.search("no CUDA: (.*)", said):  # exercise_guard.hpp
        return Finding(
            "no CUDA", f"{marked[1][0].upper()}{marked[1][1:]}.", line, look="what is given to launch()."
        )
    look = "the line, and the ones before it: a missing bracket or semicolon shows later than it is."
    return Finding("compile", f"{DOES_NOT_COMPILE} {said}.", line, look=look)
