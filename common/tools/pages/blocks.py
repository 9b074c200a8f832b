"""The kinds of generated blocks: from a block's arguments to its Markdown. Here those of the source, of the
X-ray and of claims; evidence.py has those of what was recorded on the GPU, experiments.py of experiments.

What is wrong with the arguments or the values is a UsageError; what has not been recorded or built yet is a
NotAvailable. Each holds one line.
"""

import difflib
import html
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tools.base import UsageError, markdown
from tools.claims import claims
from tools.claims.context import STANDARD_PROBLEM, Context
from tools.claims.objects import NotAvailable, rows_of
from tools.drawing import picture

Record = dict[str, Any]
LONG_DIFF = 60  # lines; longer ones are folded away
CONTEXT_LINES = 3


@dataclass
class Request:
    """What a page asks for. `context.step` is the page's step, "" for a page without one; `figures`: what is
    to be in its folder, by file name, filled by the makers."""

    context: Context
    page: Path
    figures_folder: Path
    figures: dict[str, str] = field(default_factory=dict)
    arguments: str = ""  # of one block, without its options
    options: dict[str, str] = field(default_factory=dict)

    @property
    def step(self) -> str:
        """The step of `step=NN`, else the page's."""
        return self.steps(self.options.get("step", ""))[-1]

    def steps(self, names: str | None = None, before: bool = False) -> list[str]:
        """The steps that the arguments name, else the page's, if so wanted with the one before."""
        named = (self.arguments if names is None else names).split()
        if named:
            return [self.context.directory(name) for name in named]
        if not self.context.step:
            raise UsageError("this page belongs to no step: name one")
        steps = self.context.steps()
        at = steps.index(self.context.step)
        return steps[max(0, at - before) : at + 1]

    def words(self, usage: str) -> list[str]:
        """The arguments, of which `usage` has the names behind the kind; the last may be [STEP ...]."""
        wanted = usage.partition(" [")[0].split()[1:]
        found = self.arguments.split()
        if len(found) < len(wanted) or (len(found) > len(wanted) and "[" not in usage):
            raise UsageError(f"write `{usage}`")
        return found

    def accesses(self, step: str) -> list[Record]:
        """The rows of a step's X-ray."""
        return rows_of(self.context.xray_record(step, *STANDARD_PROBLEM))

    def source(self, step: str) -> list[str]:
        return self.context.kernel(step).read_text().splitlines()

    def figure(self, words: Iterable[str], svg: str, says: str) -> str:
        """Keeps a picture under the name that the words make, and returns the link to it."""
        name = "_".join(re.findall(r"\w+", " ".join(words))) + ".svg"  # "Tiles::B" is no name for a file
        self.figures[name] = svg
        where = os.path.relpath(self.figures_folder / name, self.page.parent)
        return f"![{says.replace('[', '(').replace(']', ')')}]({where})"


MAKERS: dict[str, Callable[[Request, str], str]] = {}
OF_BUILD: set[str] = set()  # kinds that show what only a build has


def block(*options: str, alone: bool = False, of_build: bool = False) -> Callable[..., Any]:
    """Makes a function the maker of the kind that it is named for, as make_diff. options: what it takes as
    NAME=TEXT; alone: it takes nothing else."""

    def register(make: Callable[[Request], str]) -> Callable[[Request], str]:
        def made(page: Request, arguments: str) -> str:
            found = {}
            for name in options:
                if match := re.search(rf"(?:^|(?<=\s)){name}=(\"[^\"]*\"|'[^']*'|\S+)(?=\s|$)", arguments):
                    arguments = (arguments[: match.start()] + arguments[match.end() :]).strip()
                    found[name] = match[1].strip("\"'")
            if alone and arguments:
                raise UsageError(f"'{arguments}' is more than this block takes")
            return make(replace(page, arguments=arguments, options=found))

        MAKERS[kind := make.__name__.removeprefix("make_")] = made
        OF_BUILD.update({kind} if of_build else ())
        return make

    return register


# ---- Markdown --------------------------------------------------------------------------------------------


def code(text: str) -> str:
    """Code within a table's cell, where a bar would end the cell."""
    if "|" not in text and "`" not in text:
        return f"`{text}`"
    text = html.escape(text, quote=False)
    return "<code>" + re.sub(r"[|*_`\[\]\\~]", lambda m: f"&#{ord(m[0])};", text) + "</code>"


def fence(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```"


def whole(value: float) -> str:
    """An integer with its digits in groups."""
    return f"{value:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def number(value: float) -> str:
    """A whole number as such, any other with the digits that matter."""
    if abs(value - round(value)) < 1e-9:
        return whole(value)
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def time(microseconds: float) -> str:
    value, unit = (microseconds / 1000, "ms") if microseconds >= 1000 else (microseconds, "µs")
    return f"{value:.1f} {unit}" if value >= 100 else f"{value:.2f} {unit}"


def percent(value: float) -> str:
    return f"{value:.1f} %" if value >= 10 else f"{value:.2f} %"


FACTS = {"device": "", "driver": "driver ", "cuda": "CUDA ", "ncu": "Nsight Compute ", "nvcc": "nvcc "}


def facts_line(facts: Mapping[str, Any]) -> str:
    """Where and when something was measured; "" if the record does not say."""
    parts = [f"{label}{facts[key]}" for key, label in FACTS.items() if facts.get(key)]
    parts += [f"recorded {str(facts['date'])[:10]}"] if facts.get("date") else []
    return ", ".join(parts) + "." if parts else ""


# ---- Source ----------------------------------------------------------------------------------------------


def header_length(lines: Sequence[str]) -> int:
    """How many lines the comment at the top takes, with the empty ones after it."""
    is_header = (line.startswith("//") or not line.strip() for line in lines)
    return next((n for n, header in enumerate(is_header) if not header), len(lines))


def is_filler(line: str) -> bool:
    """A line that is alike everywhere: no point to hold two versions together by."""
    return line.strip() in ("", "}", "};", "{")


@block("step", "before", alone=True)
def make_diff(request: Request) -> str:
    step, other = request.step, request.options.get("before")
    before = request.context.directory(other) if other else request.context.at(step).previous()
    old, new = request.source(before), request.source(step)
    old_first, new_first = header_length(old), header_length(new)
    old, new = old[old_first:], new[new_first:]
    matcher = difflib.SequenceMatcher(is_filler, old, new, autojunk=False)
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(CONTEXT_LINES):
        (_, a0, _, b0, _), (_, _, a1, _, b1) = group[0], group[-1]
        lines.append(f"@@ -{old_first + a0 + 1},{a1 - a0} +{new_first + b0 + 1},{b1 - b0} @@")
        for kind, i0, i1, j0, j1 in group:
            if kind == "equal":
                lines += [" " + line if line else "" for line in old[i0:i1]]
            else:
                lines += ["-" + line for line in old[i0:i1]] + ["+" + line for line in new[j0:j1]]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    names = [f"--- steps/{before}/kernel.cu", f"+++ steps/{step}/kernel.cu"]
    diff = fence("diff", "\n".join(names + lines))
    if len(lines) <= LONG_DIFF:
        return diff
    summary = f"The whole change: {added} lines come, {removed} go (comments at the top of the file left out)"
    return f'<details class="diff" markdown="1">\n<summary>{summary}</summary>\n\n{diff}\n\n</details>'


def range_arguments(arguments: str) -> tuple[str, str]:
    """FROM and TO of `FROM .. TO`; each may stand in quotes."""
    match = re.fullmatch(r"\s*([\"'`]?)(.+?)\1 \.\. \s*([\"'`]?)(.+)\3\s*", arguments)
    if not match:
        raise UsageError("say from where to where: FROM .. TO")
    return match[2], match[4]


@block("step")
def make_code(request: Request) -> str:
    step = request.step
    first, last = range_arguments(request.arguments)
    lines = request.source(step)
    name = f"{step}/kernel.cu"
    starts = [n for n, line in enumerate(lines) if first in line]
    # The comment at the top speaks about the code; it is not meant.
    starts = [n for n in starts if n >= header_length(lines)] or starts
    if not starts:
        raise UsageError(f"no line of {name} holds '{first}'")
    if len(starts) > 1:
        numbers = ", ".join(str(n + 1) for n in starts)
        raise UsageError(f"lines {numbers} of {name} hold '{first}': say more of the one meant")
    begin = starts[0]
    end = next((n for n in range(begin, len(lines)) if last in lines[n]), None)
    if end is None:
        raise UsageError(f"no line of {name} from {begin + 1} on holds '{last}'")
    text = textwrap.dedent("\n".join(line.rstrip() for line in lines[begin : end + 1]))
    where = f"lines {begin + 1} to {end + 1}" if end > begin else f"line {begin + 1}"
    return f"`steps/{name}`, {where}:\n\n{fence('cuda', text)}"


# ---- X-ray -----------------------------------------------------------------------------------------------

OPERATIONS = {"load": "load", "store": "store", "copy": "`cp.async`", "ldmatrix": "`ldmatrix`"}
COPIES = (
    "A copy takes as many wavefronts as its dearer side: here the words that it reads lie in the same banks "
    "of the L1 cache; that is not a conflict in the shared memory that it writes."
)


def is_slow_copy(access: dict[str, Any]) -> bool:
    """A copy to shared memory that takes more wavefronts than its banks need."""
    if access["operation"] != "copy" or access["space"] != "shared":
        return False
    return access["wavefronts"] > access["ideal_wavefronts"] + access["conflicts"]


# What a table shows of each memory: of an access and of its requests.
Cell = Callable[[dict[str, Any], int], str]
COLUMNS: dict[str, dict[str, Cell]] = {
    "global": {
        "requests": lambda a, requests: whole(requests),
        "sectors a request": lambda a, requests: number(a["sectors"] / requests),
        "bytes used of a sector's 32": lambda a, _: (
            number(a["bytes_used"] / a["sectors"]) if a["sectors"] else "–"
        ),
        "L1 wavefronts a request": lambda a, requests: number(a["wavefronts"] / requests),
    },
    "shared": {
        "requests": lambda a, requests: whole(requests),
        "wavefronts a request": lambda a, requests: number(a["wavefronts"] / requests),
        "ideal": lambda a, requests: "–" if is_slow_copy(a) else number(a["ideal_wavefronts"] / requests),
        "bank conflicts": lambda a, _: whole(a["conflicts"]),
    },
}


@block(of_build=True)
def make_xray(request: Request) -> str:
    steps = request.steps()
    accesses = [(s, a) for s in steps for a in request.accesses(s) if a["requests"]]
    parts = []
    for space, columns in COLUMNS.items():
        rows = []
        for step, a in accesses:
            if a["space"] == space:
                what = f"{OPERATIONS[a['operation']]} `{a['array']}`, {a['bytes']} bytes a lane"
                cells = [cell(a, a["requests"]) for cell in columns.values()]
                rows.append([f"`{step}`", str(a["line"]), code(a["source"]), what, *cells])
        if rows:
            head = ["step", "line", "source", "access", *columns]
            hidden = 0 if len(steps) > 1 else 1  # of one step, it need not be said which
            text = markdown(head[hidden:], [row[hidden:] for row in rows], left=4 - hidden)
            parts.append(f"**{space.capitalize()} memory**\n\n{text}")
    m, n, k = STANDARD_PROBLEM
    seen = f"Seen by the CPU device at M = {m}, N = {n}, K = {k}. A request is one instruction of one warp."
    parts.append(f"{seen} {COPIES}" if any(is_slow_copy(access) for _, access in accesses) else seen)
    return "\n\n".join(parts)


SPACES = {"banks": "shared", "sectors": "global"}


def source_of(row: dict[str, Any]) -> str:
    """The line of the source that an X-ray's example is from, and which execution it is."""
    example = row["example"]
    where = f"block {tuple(example['block'][:2])}, warp {example['warp']}, execution {example['execution']}"
    return f"`{row['file']}`, line {row['line']}: {code(row['source'])} ({where})"


@block("step", "line", of_build=True)
def make_picture(request: Request) -> str:
    step, line = request.step, request.options.get("line")
    usage = "picture OPERATION ARRAY [banks|sectors]"
    operation, array, *rest = request.words(usage)
    if rest not in ([], ["banks"], ["sectors"]):
        raise UsageError(f"write `{usage}`")
    space = SPACES[rest[0]] if rest else None
    row = picture.find(request.accesses(step), operation, array, space, line)
    access, words = picture.from_xray(row), [step, operation, array, *rest, line or ""]
    link = request.figure(words, picture.picture(access), picture.describe(access))
    return f"{link}\n\n{source_of(row)}"


# ---- Claims ---------------------------------------------------------------------------------------------

KINDS = {
    "xray": "X-ray",
    "sass": "machine code",
    "profile": "profile",
    "ladder": "measured speed",
    "experiment": "experiment",
    "variant": "experiment",
    "register_banks": "experiment",
    "other": "others' figures",
    "architecture": "machine code for other GPUs",
    "error": "arithmetic of the CPU device",
    "const": "source",
    "gpu": "the GPU's figures",
}


@block("step", alone=True)
def make_claims(request: Request) -> str:
    path = request.context.kernel(request.step).with_name("claims.toml")
    if not path.exists():
        raise NotAvailable(f"steps/{request.step}/claims.toml is not written yet")
    lines = [
        f"- {claim.says} <small>({', '.join(KINDS[kind] for kind in claim.kinds)}: `{claim.id}`)</small>"
        for claim in claims.load(path)
    ]
    return "Checked by the tests, against the build and the recorded evidence:\n\n" + "\n".join(lines)
