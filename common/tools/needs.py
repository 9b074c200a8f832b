"""What a kernel needs of a GPU, as the line `Needs` of its header comment says it.

  // Needs     sm_80+: cp.async                 that architecture or a newer one
  // Needs     sm_90a: wgmma                    exactly that target: no other has its instructions

Several targets are alternatives: `sm_90a, sm_100a`; sm_100f is exactly that family's target. What a header of
common/cuda replaces on other GPUs is not needed. A kernel without the line runs on every GPU. The line is
read here and nowhere else. Meson asks, when the build is configured, for the options of nvcc:

  python -m tools.needs ARCHS PTX_ARCHS FILE...     e.g. 80,90a 80 steps/13_bulk_copy/kernel.cu

It prints a line for each file, given by its path from the project's root (an edited kernel, a .toml, needs
what its base needs): the file, what it needs, and the options for those of the build's architectures that
have it, with semicolons between; no options, if the build is for other GPUs only. The harness
(harness/needs.hpp), the tools (KernelBuild.needs) and the tests get the same text from there. Standard
library only.
"""

import re
import sys
from dataclasses import dataclass

from tools.base import ROOT, UsageError, read_text, run_program
from tools.edits import base_path, read_edited

LINE = re.compile(r"^// Needs +([^:\n]+):.*$", re.MULTILINE)
TARGET = re.compile(r"sm_(\d+)([af]|\+)")


def number(arch: str) -> int:
    """90 of "sm_90a" or "90a"."""
    return int(arch.removeprefix("sm_").rstrip("af+"))


@dataclass(frozen=True)
class Needs:
    """Alternatives, e.g. "sm_80+" or "sm_90a, sm_100a"; "" is any GPU. Raises ValueError."""

    text: str = ""

    def __post_init__(self) -> None:
        for target in self.targets:
            if not TARGET.fullmatch(target):
                raise ValueError(
                    f"'{target}' is no target; write sm_80+ (that or newer) or sm_90a (exactly it)"
                )

    @property
    def targets(self) -> list[str]:
        return [target.strip() for target in self.text.split(",")] if self.text else []

    def allow(self, arch: str) -> bool:
        """Whether code for an architecture, "sm_90a" or "90a", can have the instructions."""
        return not self.targets or any(
            number(arch) >= number(target) if target.endswith("+") else arch.removeprefix("sm_") == target[3:]
            for target in self.targets
        )

    def options(self, archs: list[str], ptx_archs: list[str]) -> list[str]:
        """nvcc's options for the architectures of a build. PTX is for newer GPUs: there is none of a kernel
        that needs exact targets, and never for less than it needs. Machine code comes last."""
        oldest = [number(target) for target in self.targets if target.endswith("+")] or [0]
        forward = not self.targets or oldest != [0]
        virtual = sorted({max(number(arch), min(oldest)) for arch in ptx_archs}) if forward else []
        options = [f"-gencode=arch=compute_{v},code=compute_{v}" for v in virtual]
        return options + [
            f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs if self.allow(arch)
        ]


def needs_of(source: str) -> Needs:
    """What a kernel's header comment says. Raises ValueError."""
    header = re.match(r"(?://[^\n]*\n)*", source)
    found = LINE.findall(header[0] if header else "")
    if len(found) > 1 or (header and not found and "// Needs" in header[0]):
        raise ValueError("write one line `// Needs     TARGET[, TARGET...]: what for`")
    return Needs(found[0].strip()) if found else Needs()


def main() -> int:
    archs, ptx_archs, *files = sys.argv[1:]
    for file in files:
        kernel = base_path(read_edited(ROOT / file).base) if file.endswith(".toml") else file
        try:
            needs = needs_of(read_text(ROOT / kernel))
        except ValueError as problem:
            raise UsageError(f"{kernel}: {problem}") from None
        options = needs.options(*(text.split(",") if text else [] for text in (archs, ptx_archs)))
        print(file, needs.text, " ".join(options), sep=";")
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
