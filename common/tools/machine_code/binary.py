"""Gets machine code out of a program: runs NVIDIA's cuobjdump and nvdisasm, and c++filt for the names."""

import hashlib
import os
import pickle
import re
import shutil
import subprocess
import sysconfig
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from tools.base import ROOT
from tools.machine_code.listing import Instruction, SassError, parse_listing


def places() -> list[Path]:
    """Where the tools can be, the versions that requirements.txt pins first."""
    packages = [Path(sysconfig.get_path("purelib")), *ROOT.glob(".venv/lib/python*/site-packages")]
    found = [folder for path in packages for folder in sorted(path.glob("nvidia/cu*/bin"))]
    found += [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    found += [Path(nvcc).resolve().parent] if (nvcc := shutil.which("nvcc")) else []
    return [*found, Path(os.environ.get("CUDA_HOME") or "/usr/local/cuda") / "bin"]


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


def resources(program: Path) -> dict[str, dict[str, dict[str, int]]]:
    """By architecture and symbol, what the compiler noted for each function of a program, object or cubin."""
    if not program.is_file():
        raise SassError(f"there is no {program}; build it first (meson compile)")
    try:
        text = run_tool("cuobjdump", "--dump-resource-usage", program)
    except SassError as error:
        if not re.search("does not contain device code|Invalid fatbin header", str(error)):
            raise
        return {}
    if "\narch = " not in text:  # of a cubin, whose list has the name
        names = re.findall(r"\.(sm_\w+)\.cubin", run_tool("cuobjdump", "--list-elf", program))
        text = "".join(f"\narch = {name}\n" for name in names) + text
    found: dict[str, dict[str, dict[str, int]]] = {}
    for part in text.split("\narch = ")[1:]:
        arch = part.split()[0]
        # From 9.0 on the compiler adds the 1024 bytes that the system reserves in every block.
        reserved = 1024 if int(re.sub(r"\D", "", arch)) >= 90 else 0
        for symbol, line in re.findall(r" Function (\S+):\n\s*(REG:.*)", part):
            values = {name: int(value) for name, value in re.findall(r"(\w+):(\d+)", line)}
            found.setdefault(arch, {})[symbol] = {
                "registers": values["REG"],
                "shared_bytes": max(0, values["SHARED"] - reserved),
                "local_bytes": values["LOCAL"],
                "stack_bytes": values["STACK"],
            }
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


def launches(cubin: Path) -> dict[str, int | None]:
    """By symbol, how many threads a block of a kernel has, by the .nv.info sections of a cubin; None where
    they do not say it."""
    found: dict[str, int | None] = {}
    for part in run_tool("cuobjdump", "--dump-elf", cubin).split("\n.nv.info.")[1:]:
        symbol, _, rest = part.partition("\n")
        notes = re.findall(r"Attribute:\s+(\S+)\n.*\n\s*Value:\s+((?:0x[0-9a-f]+\s+)+)", rest.split("\n.")[0])
        values = {name: [int(value, 16) for value in text.split()] for name, text in notes}
        most = values.get("EIATTR_REQNTID") or values.get("EIATTR_MAX_THREADS")
        found[symbol.strip()] = most[0] * most[1] * most[2] if most else None
    return found


# By symbol, the instructions of a kernel and the threads of a block, if they are known.
Disassembly = dict[str, tuple[list[Instruction], int | None]]


@cache
def reader() -> str:
    """What reads machine code: the disassembler and this package, in a word."""
    own = b"".join(file.read_bytes() for file in sorted(Path(__file__).parent.glob("*.py")))
    tool = Path(find_tool("nvdisasm")).stat()
    return hashlib.sha256(own + f"{tool.st_mtime_ns} {tool.st_size}".encode()).hexdigest()[:16]


def disassemble(program: Path, arch: str, wanted: set[str]) -> Disassembly:
    """Of the kernels with these symbols. What a program of a build holds is kept in <build>/sass-cache for
    as long as neither it nor what reads it changes: many tools ask, each in a process of its own."""
    folder, status = program.resolve().parent, program.stat()
    build = folder.parent.parent
    if program.suffix == ".cubin" or not (build / "build.ninja").exists():
        return _disassemble(program, arch, wanted)
    prefix = f"{folder.name}-{program.name}-{arch}-"
    kept = build / "sass-cache" / f"{prefix}{status.st_mtime_ns:x}-{status.st_size:x}-{reader()}"
    with suppress(OSError, ValueError, EOFError, pickle.UnpicklingError):
        return pickle.loads(kept.read_bytes())
    found = _disassemble(program, arch, wanted)
    with suppress(OSError):  # a build directory that cannot be written to costs time only
        kept.parent.mkdir(exist_ok=True)
        new = kept.with_name(f"{kept.name}.{os.getpid()}.tmp")
        new.write_bytes(pickle.dumps(found))
        new.replace(kept)
        for old in kept.parent.glob(f"{prefix}*"):
            if old != kept and old.suffix != ".tmp":
                old.unlink(missing_ok=True)
    return found


def _disassemble(program: Path, arch: str, wanted: set[str]) -> Disassembly:
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        cubins = [program.resolve()]
        if program.suffix != ".cubin":
            run_tool("cuobjdump", "--extract-elf", arch, program.resolve(), cwd=Path(folder))
            cubins = sorted(Path(folder).glob(f"*.{arch}.cubin"))
        for cubin in cubins:
            data = cubin.read_bytes()
            if not any(symbol.encode() in data for symbol in wanted):
                continue
            threads = launches(cubin)
            listings = parse_listing(run_tool("nvdisasm", "--print-line-info-inline", "--print-code", cubin))
            for symbol in wanted & listings.keys():
                if listings[symbol].is_kernel:
                    found[symbol] = listings[symbol].instructions, threads.get(symbol)
    return found
