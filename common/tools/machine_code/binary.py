"""Gets machine code out of a program: runs NVIDIA's cuobjdump and nvdisasm, and c++filt for the names."""

import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.base import ROOT
from tools.machine_code.listing import Listing, SassError, parse_listing


def places() -> list[Path]:
    """Where the tools can be, the versions that requirements.txt pins first."""
    packages = [Path(sysconfig.get_path("purelib")), *ROOT.glob(".venv/lib/python*/site-packages")]
    found = [folder for path in packages for folder in sorted(path.glob("nvidia/cu*/bin"))]
    found += [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    found += [Path(os.environ[name]) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    nvcc = shutil.which("nvcc")
    found += [Path(nvcc).resolve().parent] if nvcc else []
    return [*found, Path("/usr/local/cuda/bin")]


def find_tool(name: str) -> str:
    for folder in places():
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    raise SassError(
        f"{name} is missing: ./setup.sh installs it into .venv; a CUDA toolkit on PATH has it, too"
    )


def run_tool(name: str, *arguments: str | Path, cwd: Path | None = None) -> str:
    command = [find_tool(name), *map(str, arguments)]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        output = (result.stderr + result.stdout).splitlines() or ["it says nothing"]
        raise SassError(f"{name} fails on {arguments[-1]}: {output[0]}")
    return result.stdout


@dataclass(frozen=True)
class Resources:
    """What the compiler noted for one function."""

    registers: int
    shared_bytes: int  # in the source; without what the system reserves
    local_bytes: int
    stack_bytes: int


def list_of_code(program: Path, resources_text: str) -> str:
    return run_tool("cuobjdump", "--list-elf", program) if resources_text else ""


def resources(program: Path) -> dict[str, dict[str, Resources]]:
    """By architecture and symbol: what cuobjdump --dump-resource-usage prints for a program or an object."""
    if not program.is_file():
        raise SassError(f"there is no {program}; build it first (meson compile)")
    try:
        text = run_tool("cuobjdump", "--dump-resource-usage", program)
    except SassError as error:
        if not re.search("does not contain device code|Invalid fatbin header", str(error)):
            raise
        text = ""
    found: dict[str, dict[str, Resources]] = {}
    arch = symbol = ""
    if "\narch = " not in text and (cubin := re.search(r"\.(sm_\w+)\.cubin", list_of_code(program, text))):
        arch = cubin[1]  # a cubin by itself
    for line in text.splitlines():
        if match := re.match(r"arch = (\S+)", line):
            arch = match[1]
        elif match := re.match(r" Function (\S+):$", line):
            symbol = match[1]
        elif symbol and line.lstrip().startswith("REG:"):
            values = {name: int(value) for name, value in re.findall(r"(\w+):(\d+)", line)}
            shared = values["SHARED"]
            # From 9.0 on the compiler adds the 1024 bytes that the system reserves in every block.
            if shared and int(re.sub(r"\D", "", arch)) >= 90:
                shared -= 1024
            found.setdefault(arch, {})[symbol] = Resources(
                values["REG"], shared, values["LOCAL"], values["STACK"]
            )
            symbol = ""
    return found


@cache
def demangle(symbol: str) -> str:
    """The name as it stands in the source: no namespaces, no parameters, no result type."""
    filt = shutil.which("c++filt")
    if filt is None:
        raise SassError("c++filt is missing; it is in the package binutils, which ./setup.sh installs")
    full = subprocess.run([filt, symbol], capture_output=True, text=True, check=True).stdout.strip()
    return short_name(full)


def short_name(full: str) -> str:
    """ "sgemm<true>" for "void (anonymous namespace)::sgemm<true>(Gemm)"."""
    full = full.replace("(anonymous namespace)", "_")
    depth, start = 0, 0
    for n, character in enumerate(full):
        depth += (character == "<") - (character == ">")
        if depth == 0 and character == "(":
            return full[start:n]
        if depth == 0 and character in " :":
            start = n + 1
    return full[start:]


@dataclass(frozen=True)
class Attributes:
    """What a cubin says about the launch of a kernel."""

    threads_per_block: int | None
    barriers: int


def attributes(cubin: Path) -> dict[str, Attributes]:
    """By symbol; from the .nv.info sections as `cuobjdump --dump-elf` prints them."""
    found: dict[str, Attributes] = {}
    symbol = name = None
    for line in run_tool("cuobjdump", "--dump-elf", cubin).splitlines():
        if line.startswith("."):
            symbol = line[len(".nv.info.") :].strip() if line.startswith(".nv.info.") else None
            if symbol:
                found[symbol] = Attributes(None, 0)
        elif match := re.match(r"\s*Attribute:\s+(\S+)", line):
            name = match[1]
        elif symbol and (match := re.match(r"\s*Value:\s+((?:0x[0-9a-f]+\s*)+)$", line)):
            values = [int(value, 16) for value in match[1].split()]
            old = found[symbol]
            if name in ("EIATTR_MAX_THREADS", "EIATTR_REQNTID"):
                threads = values[0] * values[1] * values[2]
                found[symbol] = Attributes(threads, old.barriers)
            elif name == "EIATTR_NUM_BARRIERS":
                found[symbol] = Attributes(old.threads_per_block, values[0])
    return found


def disassemble(program: Path, arch: str, wanted: set[str]) -> dict[str, tuple[Listing, Attributes]]:
    """The kernels with these symbols."""
    found: dict[str, tuple[Listing, Attributes]] = {}
    with tempfile.TemporaryDirectory() as folder:
        cubins = [program.resolve()]
        if program.suffix != ".cubin":
            run_tool("cuobjdump", "--extract-elf", arch, program.resolve(), cwd=Path(folder))
            cubins = sorted(Path(folder).glob(f"*.{arch}.cubin"))
        for cubin in cubins:
            data = cubin.read_bytes()
            if not any(symbol.encode() in data for symbol in wanted):
                continue
            listings = parse_listing(
                run_tool("nvdisasm", "--print-line-info-inline", "--print-code", str(cubin))
            )
            notes = attributes(cubin)
            for symbol in wanted & listings.keys():
                if listings[symbol].is_kernel:
                    found[symbol] = (listings[symbol], notes.get(symbol, Attributes(None, 0)))
    return found
