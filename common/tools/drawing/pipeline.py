"""Draws how producers and consumers share the stages of a pipeline, in which order a persistent kernel takes
the tiles of C, and when the roles of a block did what, as `ladder timeline` recorded it.
"""

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from math import cos, pi, sin
from pathlib import Path
from typing import Any

from tools.base import UsageError
from tools.drawing.picture import MARGIN, Sheet
from tools.drawing.svg import PHONE, circle, element, line, rectangle, text
from tools.drawing.tiling import filled

# ---- The ring of stages ----------------------------------------------------------------------------------

RADIUS, CELL = 58.0, 33.0  # of the ring; of a stage
SHOWN = 5  # the k-tile that is multiplied in the picture


@dataclass(frozen=True)
class Ring:
    """A pipeline: its stages, and the warpgroups that multiply what is in them."""

    step: str
    stages: int
    consumers: int
    late: bool  # a stage is handed back when the next k-tile's products have begun, not at once
    parts: bool  # a stage has hi and lo of both operands

    def states(self, k_tile: int) -> list[tuple[int, str]]:
        """Of each stage, which k-tile it holds and how, when the consumers have begun with k_tile."""
        found = {}
        first = k_tile - 1 if self.late else k_tile
        for tile in range(first, first + self.stages):
            state = "being read" if tile == k_tile else "last read" if tile < k_tile else "full or coming"
            found[tile % self.stages] = tile, state
        return [found[stage] for stage in range(self.stages)]


def ring_of(step: str, source: str, stages: int, consumers: int) -> Ring:
    """By a kernel: a wait that leaves a group of wgmma under way hands stages back late."""
    return Ring(step, stages, consumers, "wgmma_wait<1>" in source, "A[STAGES][PARTS]" in source)


def describe_ring(of: Ring, k_tile: int = SHOWN) -> str:
    states = "; ".join(f"stage {n}: k-tile {t}, {state}" for n, (t, state) in enumerate(of.states(k_tile)))
    parts = " From each stage, three products: hi · lo, lo · hi and hi · hi." if of.parts else ""
    return (
        f"{of.step}: a ring of {of.stages} stages between a producer and {of.consumers} consumers. The "
        "producer waits until one is empty, then a copy fills it, and full says so; the consumers wait for "
        f"full, and the last of them says empty. While k-tile {k_tile} is multiplied: {states}.{parts}"
    )


def arrow(x1: float, y1: float, x2: float, y2: float) -> list[str]:
    """With its head at the second point."""
    long = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    u, v = (x2 - x1) / long * 7, (y2 - y1) / long * 7
    corners = (x2, y2), (x2 - u - v * 0.6, y2 - v + u * 0.6), (x2 - u + v * 0.6, y2 - v - u * 0.6)
    head = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return [
        line(x1, y1, x2 - u, y2 - v, class_="strong", stroke_width="1.6"),
        element("polygon", points=head, class_="ink"),
    ]


def ring(of: Ring, k_tile: int = SHOWN) -> str:
    sheet = Sheet(f"{of.stages} stages, a producer, {of.consumers} consumers")
    middle = PHONE / 2
    y = sheet.y + 8 + RADIUS + CELL
    looks = {"being read": ("here", 0.6), "last read": ("here", 0.25), "full or coming": ("there", 0.45)}
    for stage, (tile, state) in enumerate(of.states(k_tile)):
        angle = 2 * pi * stage / of.stages - pi / 2
        cx, cy = middle + RADIUS * cos(angle), y + RADIUS * sin(angle)
        sheet.body.append(circle(cx, cy, CELL, class_="empty"))
        color, opacity = looks[state]
        sheet.body.append(circle(cx, cy, CELL, **filled(color, opacity)))
        sheet.over(cx, cy - 2, f"stage {stage}", class_="soft")
        sheet.over(cx, cy + 14, f"k-tile {tile}", font_weight="bold" if state == "being read" else None)
    for x, wide, names in (
        (50, 88, ["producer", "1 thread"]),
        (384, 100, ["consumers", f"{of.consumers} warpgroups"]),
    ):
        sheet.body.append(rectangle(x - wide / 2, y - 24, wide, 48, class_="empty", rx=4))
        for n, name in enumerate(names):
            sheet.over(x, y - 4 + 18 * n, name, font_weight="bold" if n == 0 else None)
    ways = (96, middle - RADIUS - CELL - 2), (middle + RADIUS + CELL + 2, 332)
    for (begin, end), words in zip(ways, (("copy", "empty"), ("full", "arrive")), strict=True):
        sheet.body += arrow(begin, y - 10, end, y - 10) + arrow(end, y + 10, begin, y + 10)
        for name, at in zip(words, (y - 31, y + 41), strict=True):
            sheet.over((begin + end) / 2, at, name)
    sheet.y = y + RADIUS + CELL + 8
    sheet.explain(f"multiplied now: k-tile {k_tile}", **filled("here", 0.6))
    if of.late:
        sheet.explain(
            "multiplied before: its products may still be under way, so it is not yet empty",
            **filled("here", 0.25),
        )
    sheet.explain("copied, or on its way", **filled("there", 0.45))
    if of.parts:
        draw_products(sheet)
    return sheet.document(describe_ring(of, k_tile), MARGIN + 4)


def draw_products(sheet: Sheet) -> None:
    """The parts of A and of B in a stage, and a line for each pair that is multiplied."""
    wide, high, left, right = 74, 24, 120, 246
    top = sheet.y + 18
    ways = {"hi": top, "lo": top + high + 10}
    sheet.body.append(text(MARGIN, top + 17, "in a stage:"))
    for a, b in (("hi", "hi"), ("hi", "lo"), ("lo", "hi")):
        ends = left + wide, ways[a] + high / 2, right, ways[b] + high / 2
        sheet.body.append(line(*ends, class_="strong", stroke_width="1.6"))
    for part, y in ways.items():
        for x, name in ((left, "A"), (right, "B")):
            sheet.body.append(rectangle(x, y, wide, high, class_="empty", rx=4))
            sheet.over(x + wide / 2, y + 17, f"{part} of {name}")
    sheet.body.append(text(right + wide + 10, top + 17, "3 products"))
    sheet.y = ways["lo"] + high


# ---- The order of tiles ----------------------------------------------------------------------------------

# The kernel's own functions, compiled for the host.
PROGRAM = """
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#define __device__
#define __forceinline__ inline
using std::min, std::max;
struct Gemm { int M, N, K, batch; };
using GemmBf16 = Gemm;
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
int multiprocessors() { return %(sms)d; }
%(constants)s
%(functions)s
int main() {
  const Gemm g{%(size)d, %(size)d, 1, 1};
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN), blocks = blocks_for(tiles);
  struct { int x; } gridDim{blocks};
  for (int number = 0; number < tiles; ++number) {
    const Tile tile = find_tile(g, number);
    %(backwards)s
    std::printf("%%d %%d %%d %%d\\n", tile.row0 / BM, tile.col0 / BN, number / blocks, int(backwards));
  }
}
"""


def piece(source: str, begin: str) -> str:
    """A definition of the source, from its first line to the line that ends it."""
    found = re.search(rf"^{re.escape(begin)}.*?^}};?$", source, re.MULTILINE | re.DOTALL)
    if found is None:
        raise UsageError(f"the kernel defines no '{begin}'")
    return found[0]


def tile_order(source: str, size: int, sms: int) -> list[tuple[int, int, int, bool]]:
    """Of each tile, in the kernel's order: row, column, wave, whether its k goes backwards."""
    functions = [
        piece(source, name)
        for name in ("struct Tile {", "__device__ __forceinline__ Tile find_tile(", "int blocks_for(")
    ]
    walk = re.search(r"const bool backwards = .*?;", source)
    parts = {"size": size, "sms": sms, "functions": "\n".join(functions)}
    parts |= {"constants": "\n".join(re.findall(r"^constexpr int .*?;", source, re.MULTILINE))}
    parts |= {"backwards": walk[0] if walk else "const bool backwards = false;"}
    with tempfile.TemporaryDirectory() as folder:
        code, program = Path(folder) / "order.cpp", Path(folder) / "order"
        code.write_text(PROGRAM % parts)
        made = [os.environ.get("CXX", "c++"), "-std=c++20", str(code), "-o", str(program)]
        result = subprocess.run(made, capture_output=True, text=True)
        if result.returncode:
            raise UsageError(f"the order of tiles: {result.stderr.splitlines()[0]}")
        said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    rows = (tuple(map(int, row.split())) for row in said.splitlines())
    return [(row, col, wave, bool(back)) for row, col, wave, back in rows]


def describe_order(step: str, size: int, order: list[tuple[int, int, int, bool]]) -> str:
    waves = order[-1][2] + 1
    first = [(row, col) for row, col, wave, _ in order if wave == 0]
    high, wide = (len({at[axis] for at in first}) for axis in (0, 1))
    back = sorted({wave for _, _, wave, backwards in order if backwards})
    says = (
        f"{step}: the order of the {len(order)} tiles of a C of {size} × {size}, in {waves} waves of "
        f"{len(first)} blocks. "
        f"The first wave is {high} tiles high and {wide} wide, taken column by column."
    )
    return says + (f" In waves {', '.join(map(str, back))} k goes backwards." if back else "")


def order_picture(step: str, size: int, order: list[tuple[int, int, int, bool]]) -> str:
    sheet = Sheet("Which tiles of C are computed at the same time")
    high, wide = (max(tile[axis] for tile in order) + 1 for axis in (0, 1))
    left, top = MARGIN + 40.0, sheet.y + 22
    width = (PHONE - MARGIN - left) / wide
    height = min(width, 230 / high)
    sheet.over(left + width * wide / 2, top - 6, f"{wide} columns of tiles", class_="soft")
    sheet.before(left, top + height * high / 2 + 5, f"{high}")
    waves = order[-1][2] + 1
    for row, col, wave, _ in order:
        look = filled("here" if wave % 2 == 0 else "there", 0.25 + 0.5 * (waves - wave) / waves)
        sheet.body.append(rectangle(left + col * width, top + row * height, width, height, class_="paper"))
        sheet.body.append(
            rectangle(left + col * width + 0.5, top + row * height + 0.5, width - 1, height - 1, **look)
        )
    for wave in range(waves):
        places = [(left + (c + 0.5) * width, top + (r + 0.5) * height) for r, c, w, _ in order if w == wave]
        path = " ".join(f"{'L' if n else 'M'}{x:.1f} {y:.1f}" for n, (x, y) in enumerate(places))
        sheet.body.append(element("path", d=path, class_="strong", stroke_width="0.8", stroke_opacity="0.7"))
        x, y = (sum(place[axis] for place in places) / len(places) for axis in (0, 1))
        back = any(b for _, _, w, b in order if w == wave)
        sheet.body.append(rectangle(x - 40, y - 12, 80, 22, class_="paper", rx=3, fill_opacity="0.85"))
        walks = any(b for *_, b in order)
        sheet.over(
            x, y + 4, f"wave {wave}" + ((" k ←" if back else " k →") if walks else ""), font_weight="bold"
        )
    sheet.y = top + high * height + 4
    first = sum(tile[2] == 0 for tile in order)
    sheet.explain(
        f"A wave: the {first} tiles that as many blocks compute at the same time. The line is the order."
    )
    if any(b for *_, b in order):
        sheet.explain("k →: from its first k-tile to its last. k ←: from its last to its first.")
    return sheet.document(describe_order(step, size, order), MARGIN + 4)


# ---- What was recorded -----------------------------------------------------------------------------------

HIGH, APART = 20.0, 7.0


def describe_schedule(record: dict[str, Any], device: str, begin: int, end: int) -> str:
    block, unit = record["block"], "cycles" if record["device"] == "gpu" else "events"
    full = [n for n in range(len(block["consumer 0"]) // 2) if begin <= block["consumer 0"][2 * n] < end]
    return (
        f"{record['step']} on the {device}: what a producer and two consumers of one block did "
        f"in {unit} {begin} to {end}, with {record['stages']} stages. "
        f"Consumer 0 begins k-tiles {full[0]} to {full[-1]} of the block in it."
    )


def schedule(record: dict[str, Any], k_tiles: int, gpu_name: str) -> tuple[str, str]:
    """So many k-tiles before and after the end of the block's first tile, as a picture and in words."""
    block, per_tile, gpu = record["block"], record["k_tiles"], record["device"] == "gpu"
    places = per_tile - k_tiles, min(per_tile + k_tiles, len(block["consumer 0"]) // 2 - 1)
    begin, end = (block["consumer 0"][2 * at] for at in places)
    device = gpu_name if gpu else "CPU device"
    sheet = Sheet(f"A producer and two consumers on {'an' if gpu else 'the'} {device}")
    left = MARGIN + 94.0
    scale = (PHONE - MARGIN - left) / (end - begin)

    def bar(y: float, a: float, b: float, color: str, opacity: float, label: str = "") -> None:
        a, b = max(a, begin), min(b, end)
        if a >= b:
            return
        x, wide = left + (a - begin) * scale, max((b - a) * scale - 0.8, 0.8)
        sheet.body.append(rectangle(x, y, wide, HIGH, **filled(color, opacity)))
        if label and wide > 9 * len(label):
            sheet.over(x + wide / 2, y + HIGH / 2 + 5, label)

    sheet.y += 8
    for name in ("producer", "consumer 0", "consumer 1"):
        y = sheet.y
        sheet.before(left, y + HIGH / 2 + 5, name)
        sheet.body.append(rectangle(left, y, PHONE - MARGIN - left, HIGH, class_="empty"))
        seen = block[name]
        for n in range(len(seen) // 2):
            tile, label = n // per_tile, str(n % per_tile)
            if name == "producer":
                bar(y, seen[2 * n], seen[2 * n + 1], "there", 0.25 if tile % 2 else 0.55, label)
            else:
                stored = block[f"stores {name[-1]}"]
                done = stored[2 * tile] if (n + 1) % per_tile == 0 else seen[2 * n + 3]
                starts = seen[2 * n + (n % per_tile > 0)]
                bar(y, starts, done, "here", 0.3 if tile % 2 else 0.6, label)
        if name != "producer":
            stored = block[f"stores {name[-1]}"]
            for n in range(len(stored) // 2):
                bar(y, stored[2 * n], stored[2 * n + 1], "mark", 0.75, "C")
        sheet.y += HIGH + APART
    for at, label in ((begin, "0"), (end, f"{end - begin} {'cycles' if gpu else 'events'}")):
        x = left + (at - begin) * scale
        sheet.body.append(
            text(x, sheet.y + 12, label, class_="soft", text_anchor="end" if at == end else "start")
        )
    sheet.y += 16
    sheet.explain(
        "the producer waits for a stage and asks for the k-tile of that number",
        **filled("there", 0.55),
    )
    sheet.explain(
        "a consumer multiplies the k-tile: from the end of the one before to the end of this one",
        **filled("here", 0.6),
    )
    sheet.explain("it stores the tile of C; paler: the next tile", **filled("mark", 0.75))
    says = describe_schedule(record, device, begin, end)
    return sheet.document(says, MARGIN + 4), says
