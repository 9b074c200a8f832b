"""The generated blocks that show what nvcc makes of the steps for other GPUs, as recorded."""

from collections import Counter
from itertools import groupby, pairwise
from typing import Any

from tools.base import UsageError, markdown
from tools.machine_code.architectures import products
from tools.machine_code.loops import TENSOR_CORES, compute_capability
from tools.machine_code.occupancies import LIMITS
from tools.machine_code.sass import DEFAULT_ARCH
from tools.pages.blocks import Request, block, whole

Row = dict[str, Any]
Rows = dict[tuple[str, str], Row]  # by step and architecture


def shared_loads(mix: dict[str, int]) -> str:
    """How many, by width: "64 LDS.128"."""
    found: Counter[str] = Counter()
    for opcode, count in mix.items():
        mnemonic, *_, width = opcode.split(".") if "." in opcode else (opcode, "")
        if mnemonic in ("LDS", "LDSM"):
            found[f"{mnemonic}.{width}" if width.isdigit() else mnemonic] += count
    return ", ".join(f"{count} `{name}`" for name, count in found.items()) or "none"


def table_of_step(every: Rows, archs: dict[str, str], step: str) -> str:
    rows = {arch: row for (of_step, arch), row in every.items() if of_step == step}
    if not rows:
        raise UsageError(f"{step} is not compiled for any GPU: it has no kernel of its own")
    [name] = {products(row["loop"])[0] for row in rows.values()}
    tensor = name in TENSOR_CORES
    head = ["for", "registers a thread", "instructions in the loop"]
    head += [f"`{name}`", "others", "loads of shared memory"]
    if not tensor:
        head += ["operands marked `.reuse`", "`FFMA`s that clash", "conflicts, by the model"]
    lines = []
    for arch, row in rows.items():
        loop = row["loop"]
        _, count = products(loop)
        cells = [row["registers"], loop["instructions"], count, loop["instructions"] - count]
        line = [f"`{arch}`, {archs[arch]}", *map(whole, cells), shared_loads(loop["mix"])]
        if not tensor:
            known = [loop["reuse_marks"], loop.get("clashes"), loop.get("bank_conflicts")]
            line += ["–" if figure is None else whole(figure) for figure in known]
        lines.append(line)
    return f"{markdown(head, lines, left=1)}\n\n`{step}`, the kernel for aligned rows. "


def table_of_same(rows: Rows, archs: dict[str, str]) -> str:
    lines = []
    for first, second in pairwise(archs):
        steps = [step for step, arch in rows if arch == first and (step, second) in rows]
        both = [(rows[step, first], rows[step, second]) for step in steps]
        code = sum(a["code_sha256"] == b["code_sha256"] for a, b in both)
        mix = sum(a["loop"]["mix"] == b["loop"]["mix"] for a, b in both)
        registers = sum(a["registers"] == b["registers"] for a, b in both)
        lines.append([f"`{first}` and `{second}`", *map(str, [len(both), code, mix, registers])])
    head = ["", "steps compiled for both", "all code the same", "same instructions in the loop, by number"]
    return markdown([*head, "as many registers"], lines, left=1) + "\n\n"


def place(request: Request, step: str, arch: str, row: Row | None) -> str:
    """Whether a step can be expected to run on a GPU, by what is known without one."""
    if arch == DEFAULT_ARCH and row:
        return "measured"
    if row is None:
        return "lacks instructions"
    counters = request.context.profile_run(step)["counters"]
    shared = sum(counters[f"{kind}_shared_bytes_per_block"] or 0 for kind in ("static", "dynamic"))
    if shared > LIMITS[compute_capability(arch)].shared_bytes_per_block:
        return "too little shared memory"
    return "compiles, spills" if row["spills"] else "compiles"


def table_of_places(request: Request, rows: Rows, archs: dict[str, str]) -> str:
    steps = list(dict.fromkeys(step for step, _ in rows))
    cells = {step: [place(request, step, arch, rows.get((step, arch))) for arch in archs] for step in steps}
    lines = []
    for of_group, group in groupby(steps, key=lambda step: cells[step]):
        names = [step[:2] for step in group]
        lines.append([names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", *of_group])
    return markdown(["steps", *(f"`{a}`" for a in archs)], lines, left=1 + len(archs)) + "\n\n"


@block()
def make_architectures(request: Request) -> str:
    record = request.context.architecture_record()
    archs = record["archs"]  # by name, a GPU that is one
    rows = {(row["step"], row["arch"]): row for row in record["compiled"]}
    match request.words("architectures STEP|same|where"):
        case ["same"]:
            table = table_of_same(rows, archs)
        case ["where"]:
            table = table_of_places(request, rows, archs)
        case [step]:
            table = table_of_step(rows, archs, request.context.directory(step))
    return f"{table}nvcc {record['nvcc']}."
