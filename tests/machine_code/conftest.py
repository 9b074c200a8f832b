"""What the tests of experiments/machine_code share. They need nvcc 13.0 and its disassemblers, and no GPU.

BUILD in the environment: the build directory, whose programs are looked at as well.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "common"), str(ROOT / "experiments")]

from machine_code.cubin import find_cubins  # noqa: E402
from machine_code.plan import Plan  # noqa: E402
from machine_code.rewrite import (  # noqa: E402
    ARCH,
    RELEASES,
    Refused,
    check_origin,
    disassemble,
    read_loop,
    rewrite,
)
from tools.machine_code import sass  # noqa: E402
from tools.machine_code.binary import find_tool  # noqa: E402
from tools.machine_code.listing import SassError, parse_instruction  # noqa: E402


def code(text):
    """Instructions one after the other, 16 bytes each, from lines of text."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return [parse_instruction(line, 16 * n) for n, line in enumerate(lines)]


@dataclass
class Source:
    """A compiled kernel, as it is before anything is changed."""

    path: Path
    cubin: object
    kernel: str
    instructions: list

    @property
    def words(self):
        return self.cubin.words(self.kernel)


@cache
def fp32_kernels():
    """Of the built steps on CUDA cores, each kernel whose compiler the tool knows: program, cubin, symbol and
    instructions. The harness's kernels, which all programs have, come once."""
    seen, found = set(), []
    for program in sorted(Path(os.environ.get("BUILD", ".")).glob("steps/[01]*/run")):
        for cubin in find_cubins(program.read_bytes()):
            if seen.issuperset(cubin.kernels):
                continue
            try:
                check_origin(cubin)
            except Refused:
                continue
            # What the tools keep of a program's own kernels is shared by all tests.
            kept = {kernel.symbol: kernel.instructions for kernel in sass.kernels(program, ARCH)}
            of_cubin = {symbol: kept[symbol] for symbol in cubin.kernels if symbol in kept}
            for kernel, instructions in (of_cubin or disassemble(cubin)).items():
                if kernel not in seen:
                    seen.add(kernel)
                    found.append((program, cubin, kernel, instructions))
    return found


@pytest.fixture(scope="session")
def nvcc():
    """The compiler, if it is one that the tool knows; the disassemblers must be there, too."""
    try:
        tool = find_tool("nvcc")
        find_tool("nvdisasm")
    except SassError as missing:
        pytest.skip(str(missing))
    said = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"release (\d+\.\d+)", said)[1]
    if release not in RELEASES:
        pytest.skip(f"nvcc is {release}; the tool knows {', '.join(RELEASES)}")
    return tool


@pytest.fixture(scope="session")
def compile_kernel(nvcc, tmp_path_factory):
    """Compiles tests/machine_code/kernel.cu, to a cubin if not told otherwise; the file's path."""
    folder = tmp_path_factory.mktemp("compiled")

    def compile_it(name, *options, arch=ARCH):
        path = folder / name
        target = f"-gencode=arch=compute_{arch[3:]},code={arch}"
        kind = ["-cubin"] if name.endswith(".cubin") else ["-c"]
        source = Path(__file__).with_name("kernel.cu")
        command = [nvcc, "-std=c++20", "-O3", f"-I{ROOT}", target, *kind, *options, "-o", path, source]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return path

    return compile_it


def load(path):
    cubin = find_cubins(path.read_bytes())[-1]
    (kernel,) = cubin.kernels
    return Source(path, cubin, kernel, disassemble(cubin)[kernel])


@pytest.fixture(scope="session")
def source(compile_kernel):
    """The kernel with a wait for an mbarrier in its main loop."""
    return load(compile_kernel("kernel.cubin"))


@pytest.fixture(scope="session")
def main_loop(source):
    """What the tool reads of it."""
    return read_loop(source.cubin, source.kernel, source.instructions)


@pytest.fixture(scope="session")
def changed(source):
    """The same with its main loop written anew: the result, and the cubin."""
    cubin = find_cubins(source.path.read_bytes())[0]
    return rewrite(cubin, source.kernel, source.instructions, Plan()), cubin


@pytest.fixture(scope="session")
def rewritten(source, changed):
    """The result, and how nvdisasm reads it, and its words."""
    result, cubin = changed
    return result, disassemble(cubin)[source.kernel], cubin.words(source.kernel)
