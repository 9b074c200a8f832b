"""The ladder as a table: aligned for a terminal, or in Markdown."""

from collections.abc import Callable, Iterable
from typing import Any

from tools.base import aligned, markdown, span

SHOWN = (1024, 2048, 4096, 8192)  # the columns, where they were measured

Record = dict[str, Any]


def by_precision(records: list[Record]) -> dict[str, list[Record]]:
    """The records of the steps that compute in FP32, in TF32 and so on; each kind has its own baseline."""
    kinds: dict[str, list[Record]] = {}
    for r in sorted(records, key=lambda r: str(r["step"])):
        kinds.setdefault(r.get("precision") or r.get("input") or "FP32", []).append(r)
    return kinds


def table_cells(records: list[Record], sizes: Iterable[int] | None) -> list[list[str]]:
    """The head, then a row a step: its speed at one size, and the fraction of cuBLAS at each (on a GPU).
    Where runs were rested: at the one size the fraction that was sustained, too, and the error."""
    square = {(r["step"], r["m"]): r for r in records if r["m"] == r["n"] == r["k"] and r["batch"] == 1}
    measured = sorted({size for _, size in square})
    shown = [size for size in sizes or SHOWN if size in measured] or measured
    on_gpu = records[0]["device_kind"] == "gpu"
    fast = 4096 if 4096 in shown else shown[-1] if shown else 0

    def cell(entry: Record | None, name: str, factor: float, form: str) -> str:
        if entry is None or not entry["pass"]:
            return "wrong" if entry else ""
        return form.format(factor * entry[name]) if entry.get(name) else ""

    what = ("ratio_to_cublas", 100, "{:.1f} %") if on_gpu else ("time_us", 1e-3, "{:.1f} ms")
    named = "of cuBLAS at {}" if on_gpu else "simulated {} in"
    rows = [["step", *([f"TFLOP/s at {fast}"] if on_gpu else []), *(named.format(size) for size in shown)]]
    rested = any("ratio_sustained" in r for r in records)
    if rested:
        rows[0] += [f"sustained at {fast}", f"relative error at {fast}"]
    for step in sorted({r["step"] for r in records}):
        entry = square.get((step, fast))
        speed = [cell(entry, "tflops", 1, "{:.2f}")] if on_gpu else []
        rows.append([step, *speed, *(cell(square.get((step, size)), *what) for size in shown)])
        if rested:
            rows[-1] += [
                cell(entry, "ratio_sustained", 100, "{:.1f} %"),
                cell(entry, "relative_error", 1, "{:.1e}"),
            ]
    return rows


def clocks(records: list[Record], key: str) -> str:
    found = [round(r[key]) for r in records if r.get(key)]
    return f"{span(found)} MHz" if found else ""


def caption(records: list[Record]) -> str:
    first = records[0]
    recorded = "recorded " + span(str(r["date"])[:10] for r in records)
    if first["device_kind"] != "gpu":
        return f"{first['device']}, {recorded}. The times are those of the simulation: no measure of a GPU."
    rested = any("ratio_sustained" in r for r in records)
    clock = f", SM clock {found}" if (found := clocks(records, "sm_clock_mhz")) else ""
    if rested and (found := clocks(records, "sustained_sm_clock_mhz")):
        clock += f" (sustained {found})"
    samples = [r["samples"] for r in records if r.get("samples")]
    pairs = span(samples) if samples else "several"
    return (
        f"{first['device']}, driver {first.get('driver')}, CUDA {first.get('cuda')}{clock}, {recorded}. "
        f"Each figure is the median of {pairs} pairs, a step's run and cuBLAS's in turn"
        + (", the GPU rested before each; sustained: each without a break." if rested else ".")
    )


def tables(records: list[Record], table: Callable[[list[Record]], str], heading: str) -> str:
    """A table for each precision, with its caption; a heading where there are several."""
    kinds = by_precision(records)
    parts = [f"{table(of_kind)}\n\n{caption(of_kind)}" for of_kind in kinds.values()]
    if len(kinds) > 1:
        parts = [f"{heading.format(kind)}\n\n{part}" for kind, part in zip(kinds, parts, strict=True)]
    return "\n\n".join(parts)


def markdown_table(records: list[Record]) -> str:
    def table(of_kind: list[Record]) -> str:
        head, *rows = table_cells(of_kind, None)
        return markdown(head, [[f"`{row[0]}`", *row[1:]] for row in rows])

    return tables(records, table, "In {}:")


def terminal_table(records: list[Record], sizes: Iterable[int] | None = None) -> str:
    def table(of_kind: list[Record]) -> str:
        head, *rows = table_cells(of_kind, sizes)
        head = [heading.replace(" at ", "@").replace("of cuBLAS", "cuBLAS") for heading in head]
        return aligned([head, *rows])

    return tables(records, table, "{}")
