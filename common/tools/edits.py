"""A kernel that is another one, edited: the one format for what differs from a kernel by a few lines.

In TOML, an edit is these keys of a table:

  replace = [ { old = "piece of the source", new = "what stands there instead" }, ... ]
  constants = { BK = 8 }       other values for `constexpr int` constants
  header = "..."               takes the place of the comment at the kernel's beginning, without its //

`new` may be left out: the piece goes. Pieces are taken as they are written, white space included, each from
the result of those before it. What is not in the kernel's file may be in a header beside it: the headers take
the place of their #include lines then. A piece that is not there exactly once is an error: an edit cannot
silently do nothing.

Planted bugs (tests/planted_bugs), starters of exercises (starter.toml), variants of experiments
(docs/experiments), kernels that the grader's tests hand in, and the survivors of mutations all are edits.

A file that holds an edited kernel also names its base, a step or the path of another kernel:

  base = "03_shared_memory"    or "tests/kernels/tiled.cu"

From such files the build makes whole kernels (a row with `edited` in common/programs/meson.build):

  python -m tools.edits FOLDER DEPFILE FILE.toml...

writes FOLDER/NAME.cuh for each that has changed, and for Ninja what they were made of. Standard library only.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import ROOT, UsageError, read_fields, read_text, read_toml, run_program

OF_A_STEP = re.compile(r'^#include "(steps/[^"]+)"\n', re.MULTILINE)


@dataclass(frozen=True)
class Change:
    """A piece of the kernel's file, and what takes its place."""

    old: str
    new: str = ""


@dataclass
class Edit:
    """See above. `replace` may hold tables as TOML has them."""

    replace: list = field(default_factory=list)
    constants: dict = field(default_factory=dict)
    header: str = ""

    def __post_init__(self) -> None:
        for n, change in enumerate(self.replace):
            if isinstance(change, Change):
                continue
            if not isinstance(change, dict) or not change.get("old") or change.keys() - {"old", "new"}:
                raise ValueError(f"replace {n + 1} is not {{ old = ..., new = ... }}")
            if not all(isinstance(text, str) for text in change.values()):
                raise ValueError(f"replace {n + 1}: old and new are texts")
            self.replace[n] = Change(**change)

    def text(self, source: str) -> str:
        """The edited text of a kernel. Raises UsageError where a change does not fit."""
        for change in self.replace:
            if change.old not in source:
                source = with_headers(source)
            if (count := source.count(change.old)) != 1:
                first = change.old.strip().splitlines()[0].strip()
                raise UsageError(f"the kernel has {count} places like '{first}', not one")
            source = source.replace(change.old, change.new)
        source = with_constants(source, self.constants)
        return with_header(source, self.header) if self.header else source


def base_path(base: str) -> str:
    """Where a base lies, from the project's root. Raises UsageError."""
    path = base if base.endswith(".cu") else f"steps/{base}/kernel.cu"
    if not (ROOT / path).is_file():
        raise UsageError(f"there is no kernel '{base}'")
    return path


@dataclass(kw_only=True)
class EditedKernel(Edit):
    """What a file says of an edited kernel; a class of files that say more has more fields than this one."""

    base: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.replace and not self.constants:
            raise ValueError("the edit changes nothing")
        base_path(self.base)

    def source(self) -> str:
        """The edited text. Raises UsageError."""
        return self.text(read_text(ROOT / base_path(self.base)))


def read_edited(path: Path) -> EditedKernel:
    """Reads such a file, and leaves aside what else it says. Raises UsageError."""
    ours = {"replace", "constants", "header", "base"}
    table = {key: value for key, value in read_toml(path).items() if key in ours}
    return read_fields(EditedKernel, table, path)


def with_constants(source: str, values: dict[str, Any]) -> str:
    """The kernel's source with other values for some of its `constexpr int` constants."""
    for name, value in values.items():
        line = re.compile(rf"^(constexpr int (?:.*, )?{name} = )([^,;]+)", re.MULTILINE)
        if not line.search(source):
            source = with_headers(source)
        source, count = line.subn(rf"\g<1>{value}", source)
        if count != 1:
            raise UsageError(f"the kernel has {count} definitions of `constexpr int {name}`, not one")
    return source


def with_headers(source: str) -> str:
    """The kernel's source with the headers of steps, which lie beside their kernels, in place of #include."""
    seen = set()

    def text_of(include: re.Match) -> str:
        path = include[1]
        if path in seen:
            return ""
        seen.add(path)
        return OF_A_STEP.sub(text_of, read_text(ROOT / path).replace("#pragma once\n", "", 1))

    return OF_A_STEP.sub(text_of, source)


def with_header(source: str, header: str) -> str:
    """The source with another comment at its beginning."""
    lines = [f"// {line}".rstrip() for line in header.strip("\n").splitlines()]
    body = re.sub(r"\A(?://[^\n]*\n)+", "", source)
    return "\n".join(lines) + "\n" + body


def main() -> int:
    folder, depfile, *files = map(Path, sys.argv[1:])
    made_of = []
    for file in files:
        kernel = read_edited(file)
        base = base_path(kernel.base)
        try:
            text = kernel.source()
        except UsageError as problem:
            raise UsageError(f"{file}: {problem}") from None
        text = f"// {base}, changed by {file.name}: edit these, not this file.\n//\n{text}"
        made = folder / f"{file.stem}.cuh"
        if not made.exists() or made.read_text("utf-8") != text:  # what is older need not be compiled again
            made.write_text(text, "utf-8")
        read = [ROOT / base, *sorted((ROOT / base).parent.glob("*.hpp"))]
        made_of.append(f"{made}: " + " ".join(str(path).replace(" ", "\\ ") for path in read) + "\n")
    depfile.write_text("".join(made_of), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run_program(main))
