"""Compiles a student's kernel as the build compiles a step. Standard library only.

The commands are the build's own (ninja -t commands) with another source. Everything made of one source lies
in <build>/exercise-cache/KEY, whose name says what it was made of; the oldest folders are removed.
"""

import fcntl
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.base import ROOT, UsageError, find_ninja
from tools.grading import object_file
from tools.grading.finding import Finding

KEPT = 60  # folders in the cache
COMPILE_TIMEOUT_S = 120
# What is compiled for the CPU device: the student's file, whose sgemm() is kept from touching A, B and C.
GUARDED = """#include "common/tools/exercises_guard.hpp"
#include "kernel.cu"
static void guarded_sgemm(const Gemm& g) { exercise_guard::call(sgemm, g); }
#define sgemm guarded_sgemm
"""
# A static variable that is set at run time needs no lock here, and the CPU device has none.
NO_LOCKS = "-fno-threadsafe-statics"
DOES_NOT_COMPILE = "It does not compile:"
NO_CUDA = "It compiles for the CPU device, but it is no CUDA. nvcc says:"


class BuildError(UsageError):
    """What is wrong with the build directory, in one line."""


class DoesNotCompile(Exception):
    """The student's file does not compile; finding says where."""

    def __init__(self, finding: Finding):
        super().__init__(finding.says)
        self.finding = finding


@dataclass(frozen=True)
class Built:
    """What was made of one source: folder/kernel.cu, folder/run for the CPU device, folder/kernel.cubin where
    there is nvcc, and gpu_program if it was asked for."""

    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / "run"

    @property
    def gpu_program(self) -> Path:
        return self.folder / "run-gpu"


class Toolchain:
    """The commands of one build directory for one step."""

    def __init__(self, build: Path, step: str):
        self.build = build
        self.step = step
        result = subprocess.run(
            [find_ninja(BuildError), "-C", str(build), "-t", "commands", f"steps/{step}/run"],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = result.stdout.splitlines()
        self._plain = self._compile_line(lines, f"common/programs/libcpu_{step}.a.p/")
        self._observed = self._compile_line(lines, f"common/programs/libobserved_{step}.a.p/")
        self._gpu = self._compile_line(lines, f"common/programs/libgpu_{step}.a.p/")
        self._main = self._compile_line(lines, f"steps/{step}/run.p/")
        self._link = next((shlex.split(x) for x in lines if f" -o steps/{step}/run " in x), None)
        if result.returncode != 0 or not (self._plain and self._main and self._link):
            raise BuildError(f"{build} cannot build steps/{step}/run; run ./setup.sh first")
        if not self._observed:
            raise BuildError(
                "this build cannot observe kernels, which grading needs; configure it with CXX=g++"
            )
        libraries = [build / word for word in self._link if re.fullmatch(r"common/lib\w+\.a", word)]
        if missing := [path for path in libraries if not path.exists()]:
            raise BuildError(f"{missing[0]} is not built; run `meson compile -C {build}` first")
        self._libraries = libraries

    @staticmethod
    def _compile_line(lines: list[str], place: str) -> list[str] | None:
        return next((shlex.split(x) for x in lines if " -c " in x and f" -o {place}" in x), None)

    @property
    def has_nvcc(self) -> bool:
        return self._gpu is not None

    @cached_property
    def architecture(self) -> str | None:
        """The one whose machine code is looked at: sm_90a if the build has it, else its first."""
        built = re.findall(r"code=(sm_\w+)", " ".join(self._gpu or []))
        return "sm_90a" if "sm_90a" in built else next(iter(built), None)

    @cached_property
    def _stamp(self) -> str:
        """Changes with whatever the student's program is made of, besides the source."""
        parts = [repr((self._plain, self._observed, self._gpu, self._main, self._link))]
        headers = [p for p in (ROOT / "common").rglob("*") if p.suffix in (".hpp", ".cpp", ".cu")]
        checks = [Path(__file__), Path(object_file.__file__)]  # what is there has passed them
        for path in sorted([*headers, *self._libraries, *checks]):
            status = path.stat()
            parts.append(f"{path} {status.st_mtime_ns} {status.st_size}")
        return "\n".join(parts)

    @property
    def cache(self) -> Path:
        return self.build / "exercise-cache"

    def folder_for(self, source: str | None) -> Path:
        """Where what is made of the source lies; None: what all sources of the step share."""
        what = "shared" if source is None else f"source\0{source}"
        key = hashlib.sha256(f"{self._stamp}\0{self.step}\0{what}".encode()).hexdigest()[:20]
        return self.cache / key

    def compile(self, source: str, *, cubin: bool = True, gpu: bool = False) -> Built:
        """Makes what is not there yet. The cubin, as far as the build has nvcc, also shows what is no CUDA
        although the CPU device runs it. Raises DoesNotCompile, BuildError."""
        folder = self.folder_for(source)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder / "lock"):
                self._compile_in(folder, source, cubin and self.has_nvcc, gpu and self.has_nvcc)
            os.utime(folder)
        except OSError as error:
            raise BuildError(f"{error.filename or folder}: {error.strerror}") from None
        self._trim(folder)
        return Built(folder)

    def _trim(self, keep: Path) -> None:
        folders = [path for path in self.cache.iterdir() if path.is_dir()]
        if len(folders) <= KEPT:
            return

        def age(path: Path) -> float:
            try:
                return path.stat().st_mtime
            except OSError:
                return 0

        for path in sorted(folders, key=age)[: len(folders) - KEPT]:
            if path != keep:
                shutil.rmtree(path, ignore_errors=True)

    def _compile_in(self, folder: Path, source: str, cubin: bool, gpu: bool) -> None:
        kernel = folder / "kernel.cu"
        if not kernel.exists():
            kernel.write_text(source, encoding="utf-8")
        guarded = folder / "guarded.cu"
        guarded.write_text(GUARDED, encoding="utf-8")
        jobs: list[tuple[list[str], Path, Path]] = []

        def want(command: list[str] | None, unit: Path, name: str) -> None:
            if command is not None and not (folder / name).exists():
                jobs.append((command, unit, folder / name))

        program_is_there = (folder / "run").exists()
        gpu_is_there = not gpu or (folder / "run-gpu").exists()
        if not program_is_there or not gpu_is_there:
            for command, name in ((self._plain, "plain.o"), (self._observed, "observed.o")):
                want([*command, NO_LOCKS] if command else None, guarded, name)
        if cubin:
            want(self._cubin_command(), kernel, "kernel.cubin")
        if not gpu_is_there:
            want(self._gpu, kernel, "gpu.o")
        with ThreadPoolExecutor(max_workers=max(2, os.cpu_count() or 1)) as pool:
            main = None if program_is_there and gpu_is_there else pool.submit(self._compile_main, gpu)
            outcomes = list(pool.map(lambda job: self._run_compiler(*job, kernel), jobs))
            main_folder = main.result() if main is not None else folder
        failed = {out.name: found for (_, _, out), found in zip(jobs, outcomes, strict=True) if found}
        if finding := failed.get("plain.o") or failed.get("observed.o"):
            raise DoesNotCompile(finding)
        if not program_is_there and (finding := object_file.check_object(folder / "plain.o", source)):
            raise DoesNotCompile(finding)
        if finding := next(iter(failed.values()), None):
            finding.says = finding.says.replace(DOES_NOT_COMPILE, NO_CUDA, 1)
            finding.look = "what the kernel calls: helpers need __device__; min and max stand without std::."
            raise DoesNotCompile(finding)
        units = [folder / "plain.o", folder / "observed.o"]
        if not program_is_there:
            self._run_linker(folder, [main_folder / "main.o", *units], "run")
        if not gpu_is_there:
            self._run_linker(folder, [main_folder / "main-gpu.o", *units, folder / "gpu.o"], "run-gpu")

    def _compile_main(self, gpu: bool) -> Path:
        """The program around the kernel, which all exercises of a step share: main.o, and main-gpu.o for one
        that uses a GPU."""
        folder = self.folder_for(None)
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / "lock"):
            for name, left_out in (("main.o", "-DHAVE_GPU"), ("main-gpu.o", "")):
                if (folder / name).exists() or (name == "main-gpu.o" and not gpu):
                    continue
                words = [word for word in self._main or [] if word != left_out]
                if finding := self._run_compiler(
                    words, folder / "kernel.cu", folder / name, folder / "kernel.cu"
                ):
                    raise BuildError(f"the program around the kernel cannot be built: {finding.says}")
        os.utime(folder)
        return folder

    def _cubin_command(self) -> list[str] | None:
        """Machine code for one architecture only, without a host part: less than half the time."""
        if self._gpu is None or self.architecture is None:
            return None
        command = [word for word in self._gpu if not word.startswith("-gencode")]
        number = self.architecture.removeprefix("sm_")
        command[command.index("-c")] = "-cubin"
        return [*command, f"-gencode=arch=compute_{number},code={self.architecture}"]

    def _run_compiler(self, command: list[str], unit: Path, out: Path, kernel: Path) -> Finding | None:
        temporary = out.with_name(f"new-{out.name}")
        notes = temporary.with_suffix(".d")
        words = [f'-DSTEP_SOURCE="{unit}"' if w.startswith("-DSTEP_SOURCE=") else w for w in command]
        words = [w for w in words if w != "-fdiagnostics-color=always"]
        for option, value in (("-o", temporary), ("-MF", notes)):
            words[words.index(option) + 1] = str(value)
        try:
            result = subprocess.run(
                words,
                cwd=self.build,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=COMPILE_TIMEOUT_S,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            return Finding("compile", f"the compiler did not finish within {COMPILE_TIMEOUT_S} s.")
        except OSError as error:
            raise BuildError(f"{words[0]} cannot be run: {error.strerror}") from None
        notes.unlink(missing_ok=True)
        if result.returncode != 0:
            return first_error(result.stdout + result.stderr, kernel)
        temporary.replace(out)
        return None

    def _run_linker(self, folder: Path, objects: list[Path], out: str) -> None:
        assert self._link is not None
        place = f"steps/{self.step}/run"
        # The step's own objects and libraries make way for the student's.
        words = [
            w for w in self._link if not re.match(rf"{place}\.p/|common/programs/lib\w+_{self.step}\.a", w)
        ]
        temporary = folder / f"new-{out}"
        at = words.index("-o") + 1
        assert words[at] == place
        words[at : at + 1] = [str(temporary), *map(str, objects)]
        result = subprocess.run(words, cwd=self.build, capture_output=True, text=True, errors="replace")
        if result.returncode != 0:
            text = result.stdout + result.stderr
            if match := re.search(r"undefined reference to `([^']*)'|Undefined reference to '([^']*)'", text):
                name = match[1] or match[2]
                raise DoesNotCompile(
                    Finding(
                        "compile",
                        f"the program does not link: `{name}` is declared and nowhere defined.",
                        look="where it is used: is the name right, and has the function a body?",
                    )
                )
            said = next((line for line in text.splitlines() if line.strip()), "it says nothing")
            raise BuildError(f"the linker fails: {said}")
        temporary.replace(folder / out)


def first_error(output: str, kernel: Path) -> Finding:
    """The compiler's first error, at the line of the student's file that it is in or that led to it."""
    look = "the line, and the ones before it: a missing bracket or semicolon shows later than it is."
    place = re.escape(str(kernel))
    errors = re.compile(rf"^{place}[:(](\d+)[:)](?:\d+:)? ?(?:fatal )?error ?(?:#\d+)?: (.*)$", re.MULTILINE)
    if match := errors.search(output):
        line, said = int(match[1]), match[2].strip().rstrip(".")
        return Finding("compile", f"{DOES_NOT_COMPILE} {in_plain_names(said)}.", line, look=look)
    other = re.search(r"(?:fatal )?error *(?:#\d+)? *: (.*)$", output, re.MULTILINE)
    # Not the line of an include, which is named as "from FILE:12,".
    led = re.search(rf"{place}:(\d+):\d+: +required from|{place}[:(](\d+)[:)]", output)
    said = other[1].strip() if other else (output.strip().splitlines() or ["the compiler says nothing"])[-1]
    said = said.replace(str(kernel), "your file").rstrip(".")
    line = int(led[1] or led[2]) if led else 0
    return Finding("compile", f"{DOES_NOT_COMPILE} {in_plain_names(said)}.", line, look=look)


def in_plain_names(said: str) -> str:
    """A compiler's message without its names for the namespace that has none."""
    return re.sub(r"(?:_NV_ANON_NAMESPACE|\(anonymous namespace\)|\{anonymous\}|<unnamed>)::", "", said)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time goes past this with the same path."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
