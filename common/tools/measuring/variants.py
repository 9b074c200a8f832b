"""Variants of a step's kernel, compiled as the build does it and run in turn with cuBLAS.

Each is a folder with its program, `run`, and `about.json`, which says what it is. The two halves, building
and running, can be done on different machines of one kind.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import ROOT, UsageError, progress, read_text
from tools.kernel_build import KernelBuild, first_error

Record = dict[str, Any]


def kernel_of(step: str) -> str:
    path = ROOT / "steps" / step / "kernel.cu"
    if not path.exists():
        raise UsageError(f"there is no step {step}; see steps/")
    return path.read_text(encoding="utf-8")


def with_constants(source: str, values: dict[str, Any]) -> str:
    """The kernel's source with other values for some of its `constexpr int` constants."""
    for name, value in values.items():
        line = re.compile(rf"^(constexpr int (?:.*, )?{name} = )([^,;]+)", re.MULTILINE)
        source, count = line.subn(rf"\g<1>{value}", source)
        if count != 1:
            raise UsageError(f"the kernel has {count} definitions of `constexpr int {name}`, not one")
    return source


@dataclass
class Variant:
    name: str
    replace: list[dict[str, str]] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)  # of the program

    def source(self, kernel: str) -> str:
        """The step's source with this variant's changes. Raises UsageError where one does not fit."""
        for change in self.replace:
            old, new = change["old"].strip("\n"), change["new"].strip("\n")
            if (count := kernel.count(old)) != 1:
                first = old.splitlines()[0].strip()
                raise UsageError(
                    f"variant '{self.name}': the kernel has {count} places like '{first}', not one"
                )
            kernel = kernel.replace(old, new)
        return with_constants(kernel, self.constants)


@dataclass
class Job:
    """A variant of a step to be built in a folder; about.json will say `about` of it."""

    step: str
    variant: Variant
    folder: Path
    about: Record

    def say(self, **facts: Any) -> None:
        """Adds facts to about.json."""
        self.about |= facts
        (self.folder / "about.json").write_text(json.dumps(self.about))

    def build(self, commands: KernelBuild) -> str:
        """What is wrong with it; empty if nothing is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.say(variant=self.variant.name, step=self.step, options=self.variant.options)
        source, unit = self.folder / "kernel.cu", self.folder / "unit.o"
        source.write_text(self.variant.source(kernel_of(self.step)))
        result = commands.compile(commands.units["gpu"], source, unit)
        if result.returncode == 0:
            result = commands.link_program(self.folder / "run", gpu=unit)
            unit.unlink()
        return first_error(result) if result.returncode else ""


def build_all(jobs: Sequence[Job], build: Path, done: Callable[[Job, str], None]) -> None:
    """Builds them, and calls done() with each and what is wrong with it."""
    for job in jobs:  # mistakes first
        job.variant.source(kernel_of(job.step))
    commands = {step: KernelBuild(build, step) for step in {job.step for job in jobs}}
    if not all("gpu" in of_step.units for of_step in commands.values()):
        raise UsageError(f"{build} has no CUDA; variants need nvcc")
    with ThreadPoolExecutor() as pool:
        work = pool.map(lambda job: job.build(commands[job.step]), jobs)
        for number, (job, problem) in enumerate(zip(jobs, work, strict=True), 1):
            done(job, problem)
            progress(number, len(jobs), job.variant.name)


def run_all(folders: Sequence[Path], sizes: str = "") -> tuple[list[Record], bool]:
    """The records of the variants, at these sizes or those that they say; and whether every one was right."""
    records: list[Record] = []
    fine = True
    for number, folder in enumerate(folders):
        about = json.loads(read_text(folder / "about.json"))
        progress(number, len(folders), about["variant"])
        wanted = sizes or ",".join(map(str, about["sizes"]))
        command = [str(folder / "run"), "--device", "gpu", "--sweep", wanted, *about["options"]]
        report = folder / "report.json"
        result = subprocess.run([*command, "--json", str(report)], capture_output=True, text=True)
        if result.returncode == 3:
            raise UsageError(result.stderr.strip().removeprefix("error: ").removesuffix("; use --device cpu"))
        fine = fine and result.returncode == 0
        if result.returncode not in (0, 1):
            print(f"{about['variant']}: {result.stderr.strip()}", file=sys.stderr)
            continue
        about.pop("sizes", None)
        records += [about | record for record in json.loads(report.read_text())]
    progress(len(folders), len(folders), "done")
    return records, fine
