"""Reads the machine code (SASS) of a step: its main loop, what fills it, what the kernel needs.

  ladder sass build/steps/06_vectorization/run --excerpt 30

As a module: kernels(program, arch) gives the step's kernels, each with its instructions, resources, loops
(.loop is the main one), counts and theoretical occupancy. Needs cuobjdump and nvdisasm, which setup.sh
installs, and no GPU.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from tools.base import Parser, plural
from tools.machine_code import binary
from tools.machine_code.listing import Instruction, NotMeasured, SassError, count
from tools.machine_code.loops import PRODUCTS, Loop, ffma_cycles, find_loops, main_loop
from tools.machine_code.occupancies import Occupancy, occupancy
from tools.machine_code.words import explain

DEFAULT_ARCH = "sm_90a"


@dataclass
class Kernel:
    """A __global__ function as compiled for one architecture."""

    name: str  # "sgemm_prefetch<true>"
    symbol: str  # as the linker knows it
    arch: str
    instructions: list[Instruction]
    threads_per_block: int | None  # what __launch_bounds__ says; None where it says nothing
    registers: int  # of a thread
    shared_bytes: int  # of a block, static
    local_bytes: int  # of a thread
    stack_bytes: int  # of a thread

    def count(self, pattern: str) -> int:
        """Instructions that match, e.g. "LDL", "LDS.128", "LDG.E.128"; see listing.matches."""
        return count(self.instructions, pattern)

    @cached_property
    def loops(self) -> list[Loop]:
        """All loops, inner ones first."""
        return find_loops(self.instructions, self.arch)

    @cached_property
    def loop(self) -> Loop | None:
        """The innermost loop with the most products; see main_loop()."""
        return main_loop(self.loops)

    @cached_property
    def rank(self) -> tuple[bool, bool, list[int], int]:
        """Of a step's kernels the first is main_kernel()."""
        aligned = re.search(r"\b(true|1)>$", self.name) is not None
        loop = self.loop.instructions if self.loop else []
        multiplied = [count(loop, name) for name in PRODUCTS] if loop else []
        shapes = (re.match(r"HGMMA\.64x(\d+)x", i.opcode) for i in loop)  # of which there are several
        columns = sum(int(shape[1]) for shape in shapes if shape)
        return "gemm" in self.name, aligned, multiplied, columns

    def occupancy(self, threads: int | None = None, extra_shared: int = 0) -> Occupancy:
        """With `threads` to a block (default: of __launch_bounds__) and so much dynamic shared memory."""
        threads = threads or self.threads_per_block
        if threads is None:
            raise SassError(f"{self.name} does not say how many threads a block has; pass it")
        return occupancy(self.arch, self.registers, self.shared_bytes + extra_shared, threads)


def archs(program: Path | str) -> list[str]:
    """What the program holds machine code of its step for: ["sm_80", "sm_90a"]. Without a kernel of its own,
    as of a step that needs newer GPUs than the build is for, none."""
    return _in_order(arch for arch, of_arch in binary.resources(Path(program)).items() if own(of_arch))


def default_arch(built: list[str]) -> str:
    """Of the architectures that there is code for the one to look at; empty if there is none."""
    return DEFAULT_ARCH if DEFAULT_ARCH in built else next(iter(built), "")


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda arch: (len(arch.rstrip("af")), arch))


def own(symbols: Iterable[str]) -> set[str]:
    """Without the harness's."""
    return {symbol for symbol in symbols if not symbol.startswith("_ZN7harness")}


def kernels(program: Path | str, arch: str) -> list[Kernel]:
    """The step's own kernels, in the order of their names; empty if it has none.

    `program` may be an object file or a cubin, too. The harness's kernels are left out. Raises SassError.
    """
    path = Path(program)
    stamp = path.stat().st_mtime_ns if path.exists() else 0
    return list(_kernels(path, arch, stamp))


def main_kernel(found: list[Kernel]) -> Kernel:
    """Of a step's kernels the one that multiplies, not one that packs or adds up; of its instances the one
    for aligned shapes; of several tiles the one that computes most in a pass of its loop."""
    return max(found, key=lambda kernel: kernel.rank)


@lru_cache(maxsize=64)
def _kernels(program: Path, arch: str, _stamp: int) -> tuple[Kernel, ...]:
    by_arch = binary.resources(program)
    if not by_arch:
        raise SassError(
            f"{program} has no machine code for a GPU; build it with CUDA (see ./setup.sh --help)"
        )
    if arch not in by_arch:
        number = arch.removeprefix("sm_")
        raise SassError(
            f"{program} has no machine code for {arch}, only for {', '.join(_in_order(by_arch))};"
            f" to add it: meson configure -Dgpu_arch=...,{number}"
        )
    wanted = own(by_arch[arch])
    found = [
        Kernel(binary.demangle(symbol), symbol, arch, instructions, threads, **by_arch[arch][symbol])
        for symbol, (instructions, threads) in binary.disassemble(program, arch, wanted).items()
    ]
    return tuple(sorted(found, key=lambda kernel: kernel.name))


# ---- The command -----------------------------------------------------------------------------------------


def excerpt(instructions: list[Instruction], most: int | None = None) -> str:
    """A listing: offset, source line, instruction, what it does."""
    shown = instructions[:most]
    width = max((len(i.text) for i in shown), default=0)
    form = f"  {{:5x}} {{:>5}}  {{:<{width}}}  {{}}".format
    lines = [form(i.offset, i.line or "", i.text, explain(i)).rstrip() for i in shown]
    if len(shown) < len(instructions):
        lines.append(f"  ... {len(instructions) - len(shown)} more")
    return "\n".join(lines)


def source_lines(loop: Loop) -> str:
    """Where the loop's work stands in the source: "steps/05_2d_tiling/kernel.cu:54-57".

    By its multiplications, memory accesses and barriers: addresses may come from anywhere before the loop.
    """
    work = [i for i in loop.instructions if i.bytes or i.mnemonic in (*PRODUCTS, "BAR")]
    places = [i.frames[-1] for i in work if i.frames]
    if not places:
        return "without line information"
    file = Counter(place.file for place in places).most_common(1)[0][0]
    lines = [place.line for place in places if place.file == file]
    return f"{file}:{min(lines)}-{max(lines)}"


def loop_report(loop: Loop) -> list[str]:
    aside = f"; {len(loop.aside)} more are executed rarely" if loop.aside else ""
    rest = [f"{n} {opcode}" for opcode, n in loop.mix.items() if opcode.split(".")[0] != loop.products]
    fillers = sum(i.never for i in loop.instructions)
    rest += [f"{fillers} never executed"] if fillers else []
    share = 100 * loop.share(loop.products)
    return [
        f"  main loop        {source_lines(loop)}, {len(loop.instructions)} instructions{aside}",
        f"  {loop.products:<16} {loop.count(loop.products)}, {share:.1f} % of the issue slots",
        f"  besides          {', '.join(rest)}",
        *(tensor_report(loop) if loop.on_tensor_cores else ffma_report(loop)),
    ]


def ffma_report(loop: Loop) -> list[str]:
    conflicts = 100 * loop.bank_conflicts / loop.ffma
    hidden = "; most hide: an FFMA takes two cycles" if ffma_cycles(loop.arch) == 2 else ""
    return [
        f"  operands         {100 * loop.reuse_share:.1f} % of those of the FFMAs come from the reuse cache",
        f"  bank conflicts   {loop.bank_conflicts} cycles, {conflicts:.1f} for 100 FFMAs (static){hidden}",
        f"  at best          {100 * loop.issue_bound:.1f} % of the FFMA peak by the issue slots;"
        f" about {100 * loop.predicted_tflops_fraction:.1f} % with the bank conflicts",
    ]


def tensor_report(loop: Loop) -> list[str]:
    products = loop.count(loop.products)
    slots = f"{len(loop.instructions) / products:.2f} issue slots"
    try:
        bound = f"{100 * loop.issue_bound:.1f} % of the tensor cores' pace by the issue slots"
        each = f"{loop.products} takes a scheduler {loop.pipe_cycles / products:.2f} cycles (measured)"
        at_best = f"{bound}: an {each}"
    except NotMeasured as reason:
        at_best = f"unknown: {reason}"
    return [f"  {'per ' + loop.products:<16} {slots}", f"  at best          {at_best}"]


def report(kernel: Kernel, extra_shared: int) -> str:
    lines = [
        f"{kernel.name}, {kernel.arch}: {len(kernel.instructions)} instructions",
        f"  a thread has     {kernel.registers} registers, {kernel.local_bytes} bytes of local memory,"
        f" {kernel.stack_bytes} of stack",
        f"  a block has      {kernel.shared_bytes} bytes of static shared memory,"
        f" {kernel.threads_per_block or 'an unknown number of'} threads",
    ]
    if kernel.threads_per_block:
        o = kernel.occupancy(extra_shared=extra_shared)
        shared = any(map(kernel.count, ("LDS", "LDSM", "STS", "LDGSTS")))
        unknown = shared and not kernel.shared_bytes and not extra_shared
        lines.append(
            f"  an SM holds      {o.warps} of {o.max_warps} warps ({plural(o.blocks, 'block')}), as the"
            f" {' and the '.join(o.limited_by)} allow"
            + (" (dynamic shared memory not counted: --shared)" if unknown else "")
        )
    lines += loop_report(kernel.loop) if kernel.loop else [f"  no loop with {', '.join(PRODUCTS)}"]
    return "\n".join(lines)


def natural(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def choose(args: argparse.Namespace) -> list[Kernel]:
    """The kernels that the command line asks for; at least one."""
    built = archs(args.program) or _in_order(binary.resources(Path(args.program)))
    found = kernels(args.program, args.arch or default_arch(built))
    if not found:
        raise SassError(f"{args.program} has no kernel of its own")
    try:
        chosen = [kernel for kernel in found if re.search(args.kernel, kernel.name)]
    except re.error as error:
        raise SassError(f"--kernel {args.kernel!r} is no regular expression: {error}") from None
    if not chosen:
        names = ", ".join(kernel.name for kernel in found)
        raise SassError(f"no kernel of {args.program} matches {args.kernel!r}; it has {names}")
    return chosen


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("program", help="a step's program, an object file or a cubin")
    parser.add_argument("--arch", help="default: sm_90a, else the first there is")
    parser.add_argument("--kernel", default="", metavar="REGEX", help="only kernels whose names match")
    dynamic = "dynamic shared memory of a block, for the occupancy"
    parser.add_argument("--shared", type=natural, default=0, metavar="BYTES", help=dynamic)
    most = "the main loop's first N (40) instructions"
    parser.add_argument("--excerpt", type=natural, nargs="?", const=40, metavar="N", help=most)
    args = parser.parse_args()
    for kernel, text in [(kernel, report(kernel, args.shared)) for kernel in choose(args)]:
        print(text)
        if args.excerpt is not None and kernel.loop:
            print(excerpt(kernel.loop.instructions, args.excerpt))
    return 0
