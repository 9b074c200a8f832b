"""Compiles a student's kernel as the build compiles a step. Standard library only.

The commands are the build's own (kernel_build.py) with another source. Everything made of one source lies in
<build>/exercise-cache/KEY, whose name says what it was made of; old folders are removed.
"""

import hashlib
import os
import re
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tools.base import EMULATOR, ROOT, UsageError
from tools.grading import call_graph, object_file
from tools.grading.call_graph import check_call_graph
from tools.grading.content import Entry, entry_of_step
from tools.grading.finding import Failed, Finding
from tools.grading.isolation import Limits, run_confined
from tools.grading.object_file import check_object, kernel_table
from tools.grading.source import Code
from tools.grading.state import locked
from tools.kernel_build import KernelBuild, first_error, with_output
from tools.machine_code.sass import default_arch

KEPT = 100  # folders in the cache
UNUSED_S = 1800  # before one may go
LIMITS = Limits(cpu_s=20, wall_s=50, memory=6144 << 20, file=64 << 20)
MOST_MADE = 8 << 20  # bytes of an object; solutions have 200 KB
CALLS = "calls.txt"  # call_graph.py
BEFORE = "common/programs/exercise_guard.hpp"
# What is compiled for the CPU device behind the starter's includes: the student's code, whose entry has the
# step's name, as that says how large the error may be. Kernels get sections
# of their own, for object_file.py, and whatever they call is inlined: passing or returning an aggregate would
# read and write memory unobserved.
FOR_CPU = """
#define __noinline__
#define assert(...) ((__VA_ARGS__) ? void() : cpu_device::refuse("assert: " #__VA_ARGS__))
#undef __global__
#define __global__ __attribute__((noipa, flatten, hot))
#line 1 "{kernel}"
{text}
#line 1 "entry.cu"
static_assert(std::is_same_v<decltype({entry.name}), void(const {entry.takes}&)>);
"""
FOR_GPU = """{includes}
#include <cassert>
#line 1 "{kernel}"
{text}
"""
# Static variables that are set at run time need no lock here, and the CPU device has none. Indices are
# checked in the last array of a struct, too. A switch gets no jump table, which object_file.py could not
# follow. Arrays have constant sizes, as nvcc wants them. An endless loop stays endless, though C++ lets
# compilers assume that it ends, and uninitialised variables get a conspicuous value. Beyond -O2, compiling
# takes longer than these small problems give back.
OPTIONS = [
    "-O2",
    "-fno-threadsafe-statics",
    "-fno-jump-tables",
    "-fno-finite-loops",
    "-ftrivial-auto-var-init=pattern",
    "-ffunction-sections",
    "-fno-omit-frame-pointer",
    "-fsanitize=bounds-strict",
    "-Wfloat-conversion",
    "-Werror=vla",
]
_commands = cache(KernelBuild)
EXPORTED = ("run_on_cpu_observed", "exercise_kernels")
TOO_LARGE = "large constants and arrays, and templates that never end."
DOES_NOT_COMPILE = "It does not compile:"
NO_CUDA = "It compiles for the CPU device, but it is not CUDA. nvcc says:"


class BuildError(UsageError):
    """What is wrong with the build directory, in one line."""


@dataclass(frozen=True)
class Built:
    """What was made of one source: folder/kernel.cu, folder/worker for the CPU device, and, if they were
    asked for, folder/kernel.cubin and folder/worker_gpu."""

    folder: Path
    entry: Entry
    judge: Path

    @property
    def source(self) -> str:
        return (self.folder / "kernel.cu").read_text(encoding="utf-8")

    @property
    def warnings(self) -> list[Finding]:
        """What GCC warns of in the student's file."""
        said = (self.folder / "observed.o.said").read_text(encoding="utf-8")
        place = re.escape(str(self.folder / "kernel.cu"))
        found = re.findall(rf"^{place}:(\d+):\d+: warning: (.*?) \[-W.*\]$", said, re.MULTILINE)
        once = dict.fromkeys(found)  # a template's warning comes with each of its instances
        return [Finding("warning", f"GCC warns: {_plain(text)}.", int(line)) for line, text in once]


class Toolchain:
    """What compiles for one step in one build directory."""

    def __init__(self, build: Path, step: str):
        self.build = build.absolute()
        self.step = step
        self.entry = entry_of_step(step)
        self.judge = self.build / "common/judge/judge"
        self.cache = self.build / "exercise-cache"
        try:
            self.commands = _commands(self.build, step)
            self.worker = _commands(self.build, "worker")
        except UsageError as error:
            why = "this build cannot observe kernels, as grading must; configure it with CXX=g++"
            raise BuildError(error if "worker" not in str(error) else why) from None
        for path in (self.judge, *self.worker.linked):
            if not path.exists():
                raise BuildError(f"{path} is not built; run `.venv/bin/meson compile -C {build}` first")

    @property
    def has_nvcc(self) -> bool:
        return "gpu" in self.commands.units

    @cached_property
    def _files(self) -> list[str]:
        """What the student's program is made of, besides the source; it changes with each of the files."""
        headers = [p for p in (ROOT / "common").rglob("*") if p.suffix in (".hpp", ".cpp", ".cu")]
        checks = [
            Path(__file__),
            Path(object_file.__file__),
            Path(call_graph.__file__),
        ]  # what is in the cache has passed them
        made_of = {str(path): path.stat() for path in (*headers, *self.worker.linked, *checks)}
        return [f"{path} {made.st_mtime_ns} {made.st_size}" for path, made in sorted(made_of.items())]

    def compile(self, code: Code, source: str, *, gpu: bool = False) -> Built:
        """Builds what is missing for the CPU device and, on request, for the GPU. source: the text that the
        code was read from. Raises Failed, BuildError."""
        try:
            made_of = (self.step, self.commands.units, self.worker.link, self._files, code.text, source)
            folder = self.cache / hashlib.sha256(repr(made_of).encode()).hexdigest()[:20]
            folder.mkdir(parents=True, exist_ok=True)
            with locked(folder):
                os.utime(folder)  # the oldest are removed
                self._write_units(folder, code, source)
                self._compile_for_cpu(folder, code.text)
                if gpu and not (folder / "worker_gpu").exists():
                    self._one(self.commands.units["gpu"], folder / "gpu.cu", folder / "gpu.o", NO_CUDA)
                    self._link(
                        folder, _commands(self.build, "worker_gpu"), "worker_gpu", gpu=folder / "gpu.o"
                    )
            with suppress(FileNotFoundError):  # another process removes some, too
                self._trim()
        except OSError as error:
            raise BuildError(f"{error.filename or self.cache}: {error.strerror}") from None
        return Built(folder, self.entry, self.judge)

    def compile_machine_code(self, built: Built) -> None:
        """Finds what the CPU device runs although it is not CUDA. Raises Failed, BuildError."""
        out = built.folder / "kernel.cubin"
        with locked(built.folder):
            if not out.exists():
                # For one architecture only, which takes less than half the time.
                archs = re.findall(r"code=(sm_\w+)", " ".join(self.commands.units["gpu"]))
                command = self.commands.cubin_command(default_arch(archs))
                self._one(command, built.folder / "gpu.cu", out, NO_CUDA)

    def step_program(self, built: Built, *, gpu: bool = False) -> Path:
        """The program that steps have, with the student's kernel. Raises Failed, BuildError."""
        folder, out = built.folder, built.folder / ("run_gpu" if gpu else "run")
        objects = {"cpu": folder / "cpu.o", "observed": folder / "kernels.local.o"}
        objects |= {"gpu": folder / "gpu.o"} if gpu and self.has_nvcc else {}
        with locked(folder):
            if not out.exists():
                self._compile_unit("cpu", folder)
                self._link(folder, self.commands, out.name, **objects)
        return out

    def _trim(self) -> None:
        """Removes old folders, but none used lately: somebody may work in it, without a lock."""
        used = {path: path.stat().st_mtime for path in self.cache.iterdir()}
        for last_used, path in sorted((status, path) for path, status in used.items())[:-KEPT]:
            if last_used < time.time() - UNUSED_S:
                shutil.rmtree(path, ignore_errors=True)

    def _write_units(self, folder: Path, code: Code, source: str) -> None:
        includes = "\n".join(f'#include "{header}"' for header in code.includes)
        kernel = folder / "kernel.cu"
        fields = {"includes": includes, "kernel": kernel, "text": code.text, "entry": self.entry}
        kernel.write_text(source, encoding="utf-8")
        (folder / "before.hpp").write_text(f'#include "{BEFORE}"\n{includes}\n', encoding="utf-8")
        (folder / "cpu.cu").write_text(FOR_CPU.format(**fields), encoding="utf-8")
        (folder / "gpu.cu").write_text(FOR_GPU.format(**fields), encoding="utf-8")

    def _compile_for_cpu(self, folder: Path, text: str) -> None:
        """The objects export nothing that could take the place of another part of the program."""
        if (folder / "worker").exists():
            return
        self._compile_unit("observed", folder, f"-fdump-ipa-visibility={folder / CALLS}")
        binutils = self.commands.link[0].removesuffix("g++") if EMULATOR else ""
        if max((folder / name).stat().st_size for name in ("observed.o", CALLS)) > MOST_MADE:
            raise Failed(Finding("compile", "What the compiler makes of it is too large.", look=TOO_LARGE))
        check_call_graph((folder / CALLS).read_text("utf-8", errors="replace"), text)
        kernels = check_object(folder / "observed.o", text, binutils)
        (folder / "table.s").write_text(kernel_table(kernels))
        names = [EXPORTED[0], *kernels, *filter(None, kernels.values())]
        (folder / "names").write_text("\n".join(names))
        # The table finds the kernels by their names, which nothing else of the program then sees.
        steps = [
            "as -o table.o table.s",
            "objcopy --globalize-symbols=names observed.o named.o",
            "ld -r --force-group-allocation -o kernels.o named.o table.o",
            f"objcopy {' '.join(f'-G {name}' for name in EXPORTED)} kernels.o kernels.local.o",
        ]
        tools = " && ".join(f"{binutils}{step}" for step in steps)
        ended = run_confined(["sh", "-c", tools], LIMITS, writable=[folder], cwd=folder)
        if ended.status:
            raise BuildError(f"ld, as and objcopy fail: {ended.said.strip().splitlines()[-1:]}")
        self._link(folder, self.worker, "worker", observed=folder / "kernels.local.o")

    def _compile_unit(self, device: str, folder: Path, *options: str) -> None:
        command = [*self.commands.units[device], *OPTIONS]
        header = self._header(command, (folder / "before.hpp").read_text(encoding="utf-8"))
        command += ["-include", str(header), *options]
        if finding := self._compile_one(command, folder / "cpu.cu", folder / f"{device}.o"):
            raise Failed(finding)

    def _header(self, command: list[str], text: str) -> Path:
        """What every student's file of an exercise begins with, which GCC has precompiled."""
        words = [w for w in self.commands.compile_words(command, ROOT) if not w.startswith("-DSTEP_")]
        options = [word for word in words if not word.startswith("-I") and not word.endswith(".o")]
        key = hashlib.sha256(repr((options, text, self._files)).encode()).hexdigest()[:20]
        folder = self.cache / f"headers-{key}"
        folder.mkdir(parents=True, exist_ok=True)
        header, out = folder / "before.hpp", folder / "before.hpp.gch"
        words[(at := words.index("-c")) : at + 2] = ["-x", "c++-header", str(header)]
        with locked(folder):
            os.utime(folder)
            if not out.exists():
                header.write_text(text, encoding="utf-8")
                if finding := self._compile_one(words, header, out):
                    raise BuildError(finding.says)
        return header

    def _one(self, command: list[str], unit: Path, out: Path, says: str) -> None:
        """Compiles by nvcc."""
        if finding := self._compile_one(command, unit, out):
            finding.says = finding.says.replace(DOES_NOT_COMPILE, says, 1)
            finding.look = "what the kernel calls: helpers need __device__; min and max stand without std::."
            raise Failed(finding)

    def _compile_one(self, command: list[str], unit: Path, out: Path) -> Finding | None:
        folder, new = out.parent, out.with_name(f"new-{out.name}")
        words = with_output(self.commands.compile_words(command, unit), new)
        readable = [ROOT / "common", self.build]
        ended = run_confined(words, LIMITS, readable=readable, writable=[folder], cwd=self.build)
        if ended.endless:
            return Finding("compile", f"The compiler did not finish within {LIMITS.cpu_s} s.", look=TOO_LARGE)
        if ended.status or not new.exists():
            return finding_of(ended.said, folder / "kernel.cu")
        out.with_name(f"{out.name}.said").write_text(ended.said, encoding="utf-8")
        new.replace(out)
        return None

    def _link(self, folder: Path, program: KernelBuild, name: str, **objects: Path) -> None:
        result = program.link_program(folder / name, **objects)
        if result.returncode == 0:
            return
        # GNU's linkers, and LLVM's.
        match = re.search(r"undefined (?:reference to [`']|symbol: )(.*?)'?$", result.stdout, re.MULTILINE)
        if match is None:
            raise BuildError(f"the linker fails: {first_error(result)}")
        says = f"the program does not link: `{match[1]}` is declared and nowhere defined."
        look = "where it is used: is the name right, and has the function a body?"
        raise Failed(Finding("compile", says, look=look))


def _plain(said: str) -> str:
    """Without the compilers' names for the unnamed namespace."""
    return re.sub(r"(?:_NV_ANON_NAMESPACE|\(anonymous namespace\)|\{anonymous\}|<unnamed>)::", "", said)


def finding_of(output: str, kernel: Path) -> Finding:
    """The compiler's first error, at the line of the student's file that holds it or led to it."""
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
    said = re.sub(r" \[-W\S+\]$", "", _plain(said.replace(str(kernel), "your file").strip().rstrip(".")))
    if marked := re.search("no CUDA: (.*)", said):  # of exercise_guard.hpp
        return Finding(
            "no CUDA", f"{marked[1][0].upper()}{marked[1][1:]}.", line, look="what is given to launch()."
        )
    look = "the line, and the ones before it: a missing bracket or semicolon shows later than it is."
    look = "the array's size: CUDA wants a constant, as TILE is." if "variable length array" in said else look
    return Finding("compile", f"{DOES_NOT_COMPILE} {said}.", line, look=look)
