"""Reads the machine code (SASS) of a step: its main loop, what fills it, what the kernel needs."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import sass_binary
from sass_listing import Instruction, SassError, count
from sass_loop import Loop, find_loops, main_loop
from sass_occupancy import Occupancy, occupancy

__all__ = ["Instruction", "Kernel", "Loop", "Occupancy", "SassError", "archs", "kernels"]


@dataclass
class Kernel:
    """A __global__ function as compiled for one architecture."""

    name: str  # "sgemm_prefetch<true>"
    symbol: str  # as the linker knows it
    arch: str
    instructions: list[Instruction]
    registers: int  # of a thread
    shared_bytes: int  # of a block, static
    local_bytes: int  # of a thread
    stack_bytes: int  # of a thread
    barriers: int  # of a block
    threads_per_block: int | None  # what __launch_bounds__ says; None where it says nothing

    def count(self, pattern: str) -> int:
        """Instructions that match, e.g. "LDL", "LDS.128", "LDG.E.128"; see sass_listing.matches."""
        return count(self.instructions, pattern)

    @cached_property
    def loops(self) -> list[Loop]:
        """All loops, inner ones first."""
        return find_loops(self.instructions, self.arch)

    @property
    def loop(self) -> Loop | None:
        """The innermost loop with the most FFMAs."""
        return main_loop(self.loops)

    def occupancy(self, threads: int | None = None, extra_shared: int = 0) -> Occupancy:
        """With `threads` to a block (default: of __launch_bounds__) and so much dynamic shared memory."""
        threads = threads or self.threads_per_block
        if threads is None:
            raise SassError(f"{self.name} does not say how many threads a block has; pass it")
        return occupancy(self.arch, self.registers, self.shared_bytes + extra_shared, threads)


def archs(program: Path | str) -> list[str]:
    """What the program holds machine code for: ["sm_80", "sm_90a"]."""
    return sorted(sass_binary.resources(Path(program)), key=lambda arch: (len(arch.rstrip("af")), arch))


def kernels(program: Path | str, arch: str) -> list[Kernel]:
    """The step's own kernels, in the order of their names; empty if it has none.

    `program` may be an object file or a cubin, too. The harness's kernels are left out. Raises SassError.
    """
    path = Path(program)
    stamp = path.stat().st_mtime_ns if path.exists() else 0
    return list(_kernels(path, arch, stamp))


@lru_cache(maxsize=64)
def _kernels(program: Path, arch: str, _stamp: int) -> tuple[Kernel, ...]:
    by_arch = sass_binary.resources(program)
    if not by_arch:
        raise SassError(f"{program} has no machine code for a GPU; build with CUDA (./setup.sh says how)")
    if arch not in by_arch:
        number = arch.removeprefix("sm_")
        raise SassError(
            f"{program} has no machine code for {arch}, only for {', '.join(archs(program))};"
            f" to add it: meson configure -Dgpu_arch=...,{number}"
        )
    wanted = {symbol for symbol in by_arch[arch] if not symbol.startswith("_ZN7harness")}
    found = []
    for symbol, (listing, notes) in sass_binary.disassemble(program, arch, wanted).items():
        resources = by_arch[arch][symbol]
        found.append(
            Kernel(
                name=sass_binary.demangle(symbol),
                symbol=symbol,
                arch=arch,
                instructions=listing.instructions,
                registers=resources.registers,
                shared_bytes=resources.shared_bytes,
                local_bytes=resources.local_bytes,
                stack_bytes=resources.stack_bytes,
                barriers=notes.barriers,
                threads_per_block=notes.threads_per_block,
            )
        )
    return tuple(sorted(found, key=lambda kernel: kernel.name))
