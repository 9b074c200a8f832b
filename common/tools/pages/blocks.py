"""The kinds of generated blocks: from a block's arguments to its Markdown.

A maker takes a Request and returns Markdown. What is wrong with the arguments is a BlockError, or an
ExpressionError of values.py; what has not been recorded or built yet is a NotAvailable. Each holds one line.
"""

import difflib
import html
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import ROOT
from tools.claims import claims as claims_file
from tools.claims import values
from tools.claims.values import Context, NotAvailable

LONG_DIFF = 60  # lines; longer ones are folded away
CONTEXT_LINES = 3


class BlockError(Exception):
    """What is wrong with a block's arguments, in one line."""


@dataclass
class Request:
    """One block that is to be made. `context.step` is the page's step, "" for a page without one."""

    context: Context
    arguments: str
    page: Path
    figures_folder: Path
    figures: dict[str, str] = field(default_factory=dict)  # file name -> SVG, filled by the makers

    def steps(self, default: Sequence[str]) -> list[str]:
        """The steps that the arguments name, else the default."""
        return [self.context.directory(name) for name in self.arguments.split()] or list(default)

    def here(self) -> str:
        if not self.context.step:
            raise BlockError("this page belongs to no step: name one")
        return self.context.step

    def here_and_before(self) -> list[str]:
        return [*before(self.here()), self.here()]

    def option(self, name: str, pattern: str = r"\S+") -> str | None:
        """Takes `name=...` out of the arguments."""
        match = re.search(rf"(?:^|(?<=\s)){name}=({pattern})(?=\s|$)", self.arguments)
        if not match:
            return None
        self.arguments = (self.arguments[: match.start()] + self.arguments[match.end() :]).strip()
        return match[1]

    def step(self) -> str:
        """The step of `step=NN`, else the page's."""
        name = self.option("step")
        return self.context.directory(name) if name else self.here()

    def no_more(self) -> None:
        if self.arguments:
            raise BlockError(f"'{self.arguments}' is more than this block takes")

    def figure(self, name: str, svg: str, description: str) -> str:
        """Keeps a figure and returns the link to it."""
        self.figures[name] = svg
        where = os.path.relpath(self.figures_folder / name, self.page.parent)
        return f"![{description}]({where})"


def before(step: str) -> list[str]:
    """The step before, as a list: empty for the first."""
    names = values.all_steps()
    return names[names.index(step) - 1 :][:1] if names.index(step) > 0 else []


# ---- Markdown --------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A table; the columns whose numbers are in `right` are aligned to the right."""
    right = set(right)
    rule = "|".join("---:" if n in right else "---" for n in range(len(head)))
    lines = ["| " + " | ".join(head) + " |", f"|{rule}|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


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


# ---- Source ----------------------------------------------------------------------------------------------


def source(step: str) -> list[str]:
    return (ROOT / "steps" / step / "kernel.cu").read_text().splitlines()


def header_length(lines: Sequence[str]) -> int:
    """How many lines the comment at the top takes, with the empty ones after it."""
    length = 0
    while length < len(lines) and (lines[length].startswith("//") or not lines[length].strip()):
        length += 1
    return length


def is_filler(line: str) -> bool:
    """A line that is alike everywhere: no point to hold two versions together by."""
    return line.strip() in ("", "}", "};", "{")


def make_diff(request: Request) -> str:
    step = request.step()
    request.no_more()
    if not before(step):
        raise BlockError(f"no step comes before {step}")
    old, new = source(before(step)[0]), source(step)
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
                lines += ["-" + line for line in old[i0:i1]]
                lines += ["+" + line for line in new[j0:j1]]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    names = [f"--- steps/{before(step)[0]}/kernel.cu", f"+++ steps/{step}/kernel.cu"]
    diff = fence("diff", "\n".join(names + lines))
    if len(lines) <= LONG_DIFF:
        return diff
    summary = f"The whole change: {added} lines come, {removed} go (comments at the top of the file left out)"
    return f'<details class="diff" markdown="1">\n<summary>{summary}</summary>\n\n{diff}\n\n</details>'


def range_arguments(arguments: str) -> tuple[str, str]:
    """FROM and TO of `FROM .. TO`; each may stand in quotes."""
    first, dots, last = arguments.partition(" .. ")
    if not dots or not first.strip() or not last.strip():
        raise BlockError("say from where to where: FROM .. TO")
    parts = []
    for part in (first.strip(), last.strip()):
        quoted = len(part) > 1 and part[0] == part[-1] and part[0] in "\"'`"
        parts.append(part[1:-1] if quoted else part)
    return parts[0], parts[1]


def make_code(request: Request) -> str:
    step = request.step()
    first_text, last_text = range_arguments(request.arguments)
    lines = source(step)
    starts = [n for n, line in enumerate(lines) if first_text in line]
    # The comment at the top speaks about the code; it is not meant.
    starts = [n for n in starts if n >= header_length(lines)] or starts
    if not starts:
        raise BlockError(f"no line of {step}/kernel.cu holds '{first_text}'")
    if len(starts) > 1:
        numbers = ", ".join(str(n + 1) for n in starts)
        raise BlockError(
            f"lines {numbers} of {step}/kernel.cu hold '{first_text}': say more of the one meant"
        )
    ends = [n for n in range(starts[0], len(lines)) if last_text in lines[n]]
    if not ends:
        raise BlockError(f"no line of {step}/kernel.cu from {starts[0] + 1} on holds '{last_text}'")
    shown = lines[starts[0] : ends[0] + 1]
    indent = min((len(line) - len(line.lstrip()) for line in shown if line.strip()), default=0)
    text = "\n".join(line[indent:].rstrip() for line in shown)
    last = f" to {ends[0] + 1}" if ends[0] > starts[0] else ""
    place = f"`steps/{step}/kernel.cu`, line{'s' if last else ''} {starts[0] + 1}{last}"
    return f"{place}:\n\n{fence('cuda', text)}"


# ---- X-ray -----------------------------------------------------------------------------------------------

OPERATIONS = {"load": "load", "store": "store", "copy": "`cp.async`"}


def make_xray(request: Request) -> str:
    steps = request.steps([request.context.step] if request.context.step else [])
    if not steps:
        request.here()
    records = {step: request.context.xray_record(step) for step in steps}
    accesses = [
        (step, access)
        for step, record in records.items()
        for kernel in record["xray"]["kernels"]
        for access in kernel["accesses"]
        if access["requests"]
    ]
    parts = []
    for space, title, head, cells in (
        ("global", "Global memory", GLOBAL_HEAD, global_cells),
        ("shared", "Shared memory", SHARED_HEAD, shared_cells),
    ):
        rows = [
            [*([f"`{step}`"] if len(steps) > 1 else []), *common_cells(access), *cells(access)]
            for step, access in accesses
            if access["space"] == space
        ]
        if rows:
            full = [*(["step"] if len(steps) > 1 else []), "line", "source", "access", *head]
            text = table(full, rows, right=range(len(full) - len(head), len(full)))
            parts.append(f"**{title}**\n\n{text}")
    m, n, k = values.STANDARD_PROBLEM
    seen = f"Seen by the CPU device at M = {m}, N = {n}, K = {k}. A request is one instruction of one warp."
    parts.append(f"{seen} {COPIES}" if any(is_slow_copy(access) for _, access in accesses) else seen)
    return "\n\n".join(parts)


def is_slow_copy(access: dict[str, Any]) -> bool:
    """A copy to shared memory that takes more wavefronts than its banks need."""
    if access["operation"] != "copy" or access["space"] != "shared":
        return False
    return access["wavefronts"] > access["ideal_wavefronts"] + access["conflicts"]


GLOBAL_HEAD = ("requests", "sectors a request", "bytes used of a sector's 32", "L1 wavefronts a request")
SHARED_HEAD = ("requests", "wavefronts a request", "ideal", "bank conflicts")
COPIES = (
    "A copy takes as many wavefronts as its dearer side: here the words that it reads lie in the same banks "
    "of the L1 cache; that is no conflict of the shared memory that it writes."
)


def common_cells(access: dict[str, Any]) -> list[str]:
    what = f"{OPERATIONS[access['operation']]} `{access['array']}`, {access['bytes']} bytes a lane"
    return [str(access["line"]), code(access["source"]), what]


def global_cells(access: dict[str, Any]) -> list[str]:
    sectors = access["sectors"]
    used = number(access["bytes_used"] / sectors) if sectors else "–"
    requests = access["requests"]
    return [whole(requests), number(sectors / requests), used, number(access["wavefronts"] / requests)]


def shared_cells(access: dict[str, Any]) -> list[str]:
    requests = access["requests"]
    return [
        whole(requests),
        number(access["wavefronts"] / requests),
        "–" if is_slow_copy(access) else number(access["ideal_wavefronts"] / requests),
        whole(access["conflicts"]),
    ]


# ---- Experiments and claims ------------------------------------------------------------------------------

EXPERIMENT_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "time_us": ("time", lambda v: time(v)),
    "tflops": ("TFLOP/s", lambda v: f"{v:.2f}"),
    "ratio": ("of cuBLAS", lambda v: percent(100 * v)),
    "speedup": ("speed against the first", lambda v: f"{v:.3f}"),
}


# Other names of ladder experiment's than those with the underscores taken out.
COLUMN_NAMES = {
    "registers": "registers a thread",
    "shared_bytes": "shared bytes a block",
    "loop_instructions": "instructions in the loop",
    "loop_ffma": "FFMAs in it",
    "loop_bank_conflicts": "register-bank conflicts in it",
    "predicted_fraction": "of the peak, by the model",
}


def time(microseconds: float) -> str:
    value, unit = (microseconds / 1000, "ms") if microseconds >= 1000 else (microseconds, "µs")
    return f"{value:.1f} {unit}" if value >= 100 else f"{value:.2f} {unit}"


def percent(value: float) -> str:
    return f"{value:.1f} %" if value >= 10 else f"{value:.2f} %"


def make_experiment(request: Request) -> str:
    size = request.option("n", r"\d+")
    name, *rest = request.arguments.split() or [""]
    if rest or not name:
        raise BlockError("write `experiment NAME`, of a file in docs/experiments")
    n = int(size or values.N)
    record = request.context.experiment_record(name, n)
    variants = record["variants"]
    others = dict.fromkeys(key for variant in variants for key in variant if key not in EXPERIMENT_COLUMNS)
    columns = {
        **EXPERIMENT_COLUMNS,
        **{key: (COLUMN_NAMES.get(key, key.replace("_", " ")), cell) for key in others if key != "variant"},
    }
    known = [key for key in columns if any(variant.get(key) is not None for variant in variants)]
    # What does not differ takes a line, not a column; zeros say nothing then.
    alike = [
        key
        for key in known
        if key not in EXPERIMENT_COLUMNS and all(v.get(key) == variants[0].get(key) for v in variants)
    ]
    shown = [key for key in known if key not in alike]
    rows = [
        [v["variant"], *("–" if v.get(key) is None else columns[key][1](v[key]) for key in shown)]
        for v in variants
    ]
    head = ["variant", *(columns[key][0] for key in shown)]
    text = table(head, rows, right=range(1, len(head)))
    same = ", ".join(f"{columns[key][0]} {cell(variants[0][key])}" for key in alike if variants[0][key])
    same = f"Alike in all: {same}. " if same and len(variants) > 1 else ""
    return f"{text}\n\n{same}`{record['step']}` at M = N = K = {n}. {facts_line(record['facts'])}"


def cell(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)


def facts_line(facts: dict[str, Any]) -> str:
    """Where and when something was measured; "" if the record does not say."""
    parts = [str(facts["device"])] if facts.get("device") else []
    parts += [f"{label} {facts[key]}" for key, label in FACTS.items() if facts.get(key)]
    if facts.get("date"):
        parts.append(f"recorded {str(facts['date'])[:10]}")
    return ", ".join(parts) + "." if parts else ""


FACTS = {"driver": "driver", "cuda": "CUDA", "ncu": "Nsight Compute", "nvcc": "nvcc"}

KINDS = {
    "xray": "X-ray",
    "sass": "machine code",
    "profile": "profile",
    "ladder": "measured speed",
    "experiment": "experiment",
    "variant": "experiment",
    "const": "source",
    "gpu": "the GPU's figures",
}


def make_claims(request: Request) -> str:
    step = request.step()
    request.no_more()
    path = ROOT / "steps" / step / "claims.toml"
    if not path.exists():
        raise NotAvailable(f"steps/{step}/claims.toml is not written yet")
    try:
        found = claims_file.load(path)
    except claims_file.Malformed as error:
        raise BlockError(str(error)) from None
    lines = [
        f"- {claim.says} <small>({', '.join(KINDS[kind] for kind in claim.kinds)}: `{claim.id}`)</small>"
        for claim in found
    ]
    return "Checked by the tests, against the build and the recorded evidence:\n\n" + "\n".join(lines)
