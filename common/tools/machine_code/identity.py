"""Whether two builds have the same machine code, for every kernel of every step and each architecture.

  ladder same-code OLD_BUILD NEW_BUILD

One line for a program; where a kernel differs, the first instruction that does. Source lines do not count.
Example, after a change that must not reach the GPU's code:

  ladder same-code ../before/build build

Exit status: 0 all the same; 1 some differ, or only one build has them; 2 a build has no machine code.
"""

import hashlib
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

from tools.base import Parser, UsageError
from tools.machine_code import sass
from tools.machine_code.listing import Instruction


def sass_sha256(code: Iterable[Instruction]) -> str:
    """Two kernels with the same hash are the same, instruction by instruction."""
    return hashlib.sha256("\n".join(i.text for i in code).encode()).hexdigest()


# By the kernel's name and the architecture: what it takes, and its instructions.
Code = dict[tuple[str, str], tuple[str, list[Instruction]]]


def code_of(program: Path) -> Code:
    found: Code = {}
    for k in (kernel for arch in sass.archs(program) for kernel in sass.kernels(program, arch)):
        takes = f"{k.registers} registers, {k.shared_bytes} bytes of shared memory, {k.local_bytes} of local"
        found[k.name, k.arch] = takes, k.instructions
    return found


def difference(old: Code, new: Code) -> str:
    """What the first kernel that is not the same has become; empty if all are the same."""
    for name, arch in sorted(old.keys() | new.keys()):
        (took, first), (takes, second) = (code.get((name, arch), ("", [])) for code in (old, new))
        if not first or not second:
            return f"{name} for {arch} is only in the {'new' if second else 'old'} build"
        if took != takes:
            return f"{name} for {arch} took {took}; now {takes}"
        before, after = ([i.text for i in code] for code in (first, second))
        for n, (was, now) in enumerate(zip_longest(before, after, fillvalue="nothing")):
            if was != now:
                place = (first if n < len(before) else second)[n].offset
                return f"{name} for {arch} differs at {place:x}: {was!r} was there, now {now!r}"
    return ""


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("old", metavar="OLD_BUILD", type=Path)
    parser.add_argument("new", metavar="NEW_BUILD", type=Path)
    args = parser.parse_args()
    codes: list[dict[str, Code]] = []
    for build in args.old, args.new:
        programs = sorted(build.glob("steps/*/run"))
        codes.append({path.parent.name: code_of(path) for path in programs})
        if not any(codes[-1].values()):
            raise UsageError(f"{build} has no step with machine code; build it with CUDA")
    old, new = codes
    steps = sorted(old.keys() | new.keys())
    differ = 0
    for step in steps:
        code = old.get(step, {})
        found = difference(code, new.get(step, {}))
        differ += bool(found)
        archs = sorted({arch for _, arch in code})
        print(f"{step}: {found or ', '.join(['the same', *archs] if archs else ['no kernel of its own'])}")
    print(f"{differ} of {len(steps)} programs differ" if differ else "all the same")
    return 1 if differ else 0
