"""Draws the ladder: each step's fraction of cuBLAS's speed. The same records give the same SVG."""

import io
import logging
from typing import Any

# The first import on a machine may take long and then says so on stderr, which is for errors here.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

import matplotlib  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

SIZES = (4096, 8192)
STYLE = {
    "svg.hashsalt": "gemm-ladder",  # otherwise the ids are random
    "svg.fonttype": "none",  # text stays text: small, searchable
    "font.family": "sans-serif",
    "font.size": 12,
}
# Told apart in greyscale too. The background is set: in dark mode a transparent one would hide the text.
COLORS, INK, PAPER = ("#7fb2e5", "#1f4e79"), "#202020", "#ffffff"


def svg(records: list[dict[str, Any]]) -> str | None:
    """The plot at 4096 and 8192, or at the two largest sizes there are. None if no cuBLAS ratio is there."""
    ratios = {
        (r["step"], r["m"]): r["ratio_to_cublas"]
        for r in records
        if r["m"] == r["n"] == r["k"] and r["batch"] == 1 and r["pass"] and r.get("ratio_to_cublas")
    }
    if not ratios:
        return None
    measured = sorted({size for _, size in ratios})
    sizes = [size for size in SIZES if size in measured] or measured[-2:]
    steps = sorted({step for step, size in ratios if size in sizes})
    with matplotlib.rc_context(STYLE):
        figure = draw(steps, sizes, ratios)
        figure.axes[0].set_title(title(records), fontsize=12, color=INK)
        text = io.StringIO()
        figure.savefig(text, format="svg", facecolor=PAPER, metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def title(records: list[dict[str, Any]]) -> str:
    days = sorted({str(r["date"])[:10] for r in records})
    return f"{records[0]['device']}, {' to '.join(dict.fromkeys([days[0], days[-1]]))}"


def draw(steps: list[str], sizes: list[int], ratios: dict[tuple[str, int], float]) -> Figure:
    figure = Figure(figsize=(6.4, 6.0), layout="constrained")  # narrow: a phone scales it to a readable size
    axes = figure.add_subplot()
    axes.set_facecolor(PAPER)
    axes.axhline(100, color=INK, linewidth=1, linestyle="--", zorder=1)
    width = 0.8 / len(sizes)
    for index, size in enumerate(sizes):
        there = [(x, ratios[step, size]) for x, step in enumerate(steps) if (step, size) in ratios]
        places = [x + (index - (len(sizes) - 1) / 2) * width for x, _ in there]
        heights = [100 * ratio for _, ratio in there]
        bars = axes.bar(places, heights, width, color=COLORS[index], label=f"N = {size}", zorder=2)
        labels = [f"{height:.0f}" if height >= 10 else f"{height:.1f}" for height in heights]
        halo = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5}
        axes.bar_label(bars, labels, rotation=90, padding=3, fontsize=11, color=INK, bbox=halo)
    axes.set_xticks(range(len(steps)), [step.replace("_", " ") for step in steps], rotation=60, ha="right")
    for label in axes.get_xticklabels():
        label.set_rotation_mode("anchor")
    axes.set_ylim(0, max(118, 100 * max(ratios.values()) + 18))
    axes.set_ylabel("% of cuBLAS's speed", color=INK)
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper left", frameon=False, labelcolor=INK, bbox_to_anchor=(0.12, 0.84))
    return figure
