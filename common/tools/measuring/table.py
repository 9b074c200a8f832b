"""The ladder as a table: aligned for a terminal, or in Markdown."""

from collections.abc import Callable, Iterable
from typing import Any

SHOWN = (1024, 2048, 4096, 8192)  # the columns, where they were measured

Record = dict[str, Any]


def table_cells(records: list[Record], sizes: Iterable[int] | None) -> list[list[str]]:
    """The head, then a row a step: its speed at one size, and the fraction of cuBLAS at each (on a GPU)."""
    square = {(r["step"], r["m"]): r for r in records if r["m"] == r["n"] == r["k"] and r["batch"] == 1}
    measured = sorted({size for _, size in square})
    shown = [size for size in sizes or SHOWN if size in measured] or measured
    on_gpu = records[0]["device_kind"] == "gpu"
    fast = 4096 if 4096 in shown else shown[-1] if shown else 0

    def cell(entry: Record | None, text: Callable[[Record], str]) -> str:
        return "" if entry is None else text(entry) if entry["pass"] else "wrong"

    def speed(entry: Record) -> str:
        return f"{entry['tflops']:.2f}" if entry.get("tflops") else ""

    def fraction(entry: Record) -> str:
        return f"{100 * entry['ratio_to_cublas']:.1f} %" if entry.get("ratio_to_cublas") else ""

    def simulation(entry: Record) -> str:
        return f"{entry['time_us'] / 1000:.1f} ms" if entry["time_us"] else ""

    if on_gpu:
        head = ["step", f"TFLOP/s at {fast}", *(f"of cuBLAS at {size}" for size in shown)]
    else:
        head = ["step", *(f"simulated {size} in" for size in shown)]
    rows = [head]
    for step in sorted({r["step"] for r in records}):
        entries = [square.get((step, size)) for size in shown]
        first = [cell(square.get((step, fast)), speed)] if on_gpu else []
        rows.append([step, *first, *(cell(entry, fraction if on_gpu else simulation) for entry in entries)])
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
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join([f"`{row[0]}`", *row[1:]]) + " |" for row in rows]
    return "\n".join([*lines, "", caption(records)])


def terminal_table(records: list[Record], sizes: Iterable[int] | None = None) -> str:
    rows = table_cells(records, sizes)
    rows[0] = [heading.replace(" at ", "@").replace("of cuBLAS", "cuBLAS") for heading in rows[0]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [f"{row[0]:<{widths[0]}}", *(f"{c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join([*lines, "", caption(records)])
