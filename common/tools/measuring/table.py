"""The ladder as a table: aligned for a terminal, or in Markdown."""

from collections.abc import Iterable
from typing import Any

from tools.base import aligned, markdown

SHOWN = (1024, 2048, 4096, 8192)  # the columns, where they were measured

Record = dict[str, Any]


def table_cells(records: list[Record], sizes: Iterable[int] | None) -> list[list[str]]:
    """The head, then a row a step: its speed at one size, and the fraction of cuBLAS at each (on a GPU)."""
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
    for step in sorted({r["step"] for r in records}):
        speed = [cell(square.get((step, fast)), "tflops", 1, "{:.2f}")] if on_gpu else []
        rows.append([step, *speed, *(cell(square.get((step, size)), *what) for size in shown)])
    return rows


def caption(records: list[Record]) -> str:
    first = records[0]
    days = sorted({str(r["date"])[:10] for r in records})
    recorded = "recorded " + " to ".join(dict.fromkeys([days[0], days[-1]]))
    if first["device_kind"] != "gpu":
        return f"{first['device']}, {recorded}. The times are those of the simulation: no measure of a GPU."
    clocks = sorted(f"{r['sm_clock_mhz']:.0f}" for r in records if r.get("sm_clock_mhz"))
    clock = f", SM clock {' to '.join(dict.fromkeys([clocks[0], clocks[-1]]))} MHz" if clocks else ""
    samples = sorted(r["samples"] for r in records if r.get("samples"))
    pairs = " to ".join(str(n) for n in dict.fromkeys([samples[0], samples[-1]])) if samples else "several"
    return (
        f"{first['device']}, driver {first.get('driver')}, CUDA {first.get('cuda')}{clock}, {recorded}. "
        f"Each figure is the median of {pairs} pairs, a step's run and cuBLAS's in turn."
    )


def markdown_table(records: list[Record]) -> str:
    head, *rows = table_cells(records, None)
    return markdown(head, [[f"`{row[0]}`", *row[1:]] for row in rows]) + f"\n\n{caption(records)}"


def terminal_table(records: list[Record], sizes: Iterable[int] | None = None) -> str:
    head, *rows = table_cells(records, sizes)
    head = [heading.replace(" at ", "@").replace("of cuBLAS", "cuBLAS") for heading in head]
    return aligned([head, *rows]) + f"\n\n{caption(records)}"
