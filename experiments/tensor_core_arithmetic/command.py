"""Says what the tensor cores of a GPU compute, from what the program recorded there.

  python3 experiments/tensor_core_arithmetic analyse docs/evidence/h200/tensor_core_arithmetic.json

Tries all models (model.py) on all recorded elements, and names those that give every one of them bit for bit;
where none does, the nearest, and what it gets wrong. Then what the chosen inputs say by themselves, and the
rates. Needs numpy, and no GPU.

Exit status: 0 for each type a model gives everything; 1 none does; 2 bad usage.
"""

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tools.base import EVIDENCE, Parser, UsageError, aligned

from tensor_core_arithmetic.model import Bits, Model, all_models, results

TF32_MASK = np.uint32(0xFFFFE000)
FIRST = 400  # elements by which the models are ranked before all are looked at
NEAREST = 16  # models that are


@dataclass
class Elements:
    """What was recorded: a [n][K], b [n][K], c [n], d [n], and of each a family or "case NAME"."""

    names: list[str]
    a: Bits
    b: Bits
    c: Bits
    d: Bits

    def some(self, which: np.ndarray) -> "Elements":
        return Elements([self.names[i] for i in which], *(x[which] for x in (self.a, self.b, self.c, self.d)))

    def wrong(self, *models: Model) -> np.ndarray:
        """By model and element; the models differ in their fraction bits alone."""
        return results(models, self.a, self.b, self.c) != self.d


def operands(texts: list[str], k: int, kind: str) -> Bits:
    digits = 8 if kind.endswith("tf32") else 4
    numbers = [[int(text[i : i + digits], 16) for i in range(0, len(text), digits)] for text in texts]
    if any(len(row) != k for row in numbers):
        raise UsageError(f"{kind}: an element has not {k} products")
    bits = np.array(numbers, dtype=np.uint32).reshape(-1, k)
    if kind.endswith("fp16"):
        return bits.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    return bits & TF32_MASK if kind.endswith("tf32") else bits << np.uint32(16)


def elements(kind: str, k: int, rows: list[list[str]]) -> Elements:
    """Of rows [name, a, b, c, d], as the program writes them."""
    names, a, b, c, d = (list(column) for column in zip(*rows, strict=True))
    single = [np.array([int(text, 16) for text in texts], dtype=np.uint32) for texts in (c, d)]
    return Elements(names, operands(a, k, kind), operands(b, k, kind), *single)


def recorded(kind: str, part: dict[str, Any]) -> Elements:
    cases = [[f"case {r['case']}", r["a"], r["b"], r["c"], r["d"]] for r in part["cases"]]
    return elements(kind, part["k"], cases + part["random"]["samples"])


def nearest_models(found: Elements, k: int, fp16: bool = False) -> list[tuple[int, Model]]:
    """With how many elements each gets wrong; the nearest first."""
    order = np.random.default_rng(1).permutation(len(found.names))
    first = found.some(order[:FIRST])
    alike: dict[Model, list[tuple[int, Model]]] = {}  # but for their fraction bits
    for i, m in enumerate(all_models(k, fp16)):
        alike.setdefault(replace(m, fraction_bits=0), []).append((i, m))
    ranked = sorted(
        (int(wrong), i, m)
        for some in alike.values()
        for wrong, (i, m) in zip(first.wrong(*(m for _, m in some)).sum(1), some, strict=True)
    )
    tried = [(int(found.wrong(m).sum()), i, m) for _, i, m in ranked[:NEAREST]]
    return [(wrong, m) for wrong, _, m in sorted(tried)]


def report(kind: str, part: dict[str, Any]) -> bool:
    found = recorded(kind, part)
    models = nearest_models(found, part["k"], kind.endswith("fp16"))
    exact = [m for wrong, m in models if wrong == 0]
    print(f"\n{kind}: {len(found.names)} elements, {part['random']['models_tried']} models")
    for model in exact:
        print(f"  bit for bit: {model}")
    if not exact:
        print("  No model gives all of them. The nearest:")
        for wrong, model in models[:3]:
            names = Counter(
                name for name, is_wrong in zip(found.names, found.wrong(model)[0], strict=True) if is_wrong
            )
            most = ", ".join(f"{name} {count}" for name, count in names.most_common(8))
            print(f"  {wrong} wrong: {model}\n    {most}")
    print_readings(part)
    everything = part["random"]["nearest_models"][0]
    print(
        f"  On the GPU's machine, of all {part['random']['elements']} random elements, the nearest model got"
    )
    print(f"  {everything['wrong']} wrong: {json.dumps(everything['model'])}")
    return bool(exact)


def print_readings(part: dict[str, Any]) -> None:
    """What the chosen inputs say without any model."""
    got = {
        row["case"]: np.array([int(row["d"], 16)], dtype=np.uint32).view(np.float32)[0]
        for row in part["cases"]
    }

    def kept(question: str, is_kept: Any) -> str:
        fits = [j for j in range(18, 37) if f"{question}_{j}" in got]
        fits = [j for j in fits if is_kept(got[f"{question}_{j}"], 2.0**-j)]
        return f"2^-{max(fits)}" if fits else "nothing"

    rows = [
        ("beside products of 1, a product is kept down to", kept("product_kept", lambda d, x: d == x)),
        ("beside products of 1, C is kept down to", kept("c_kept", lambda d, x: d == x)),
        ("beside a C of 1, a product is kept down to", kept("kept_beside_c", lambda d, x: d == x)),
        ("beside 1.5 * 1.5, a product is kept down to", kept("kept_beside_2.25", lambda d, x: d == x)),
        ("of almost 2 * 2^-j, more than 2^-j comes back to", kept("rest", lambda d, x: d > x)),
        ("1 + 2^-j differs from 1 down to", kept("result", lambda d, _: d != 1)),
        ("1 + 3 * 2^-j differs from 1 down to", kept("result_three", lambda d, _: d != 1)),
    ]
    lost = [f"2^-{j}" for j in range(151, 181) if got.get(f"tiny_terms_{j}") == 0]
    rows.append(("of terms that are all tiny, the last place kept is", ", ".join(lost) or "below 2^-180"))
    width = max(len(text) for text, _ in rows)
    for text, value in rows:
        print(f"  {text:<{width}}  {value}")
    print("  a 1 beside 2^40 at product 0 and -2^40 at product j; 1: survives, by its place (the last: as C)")
    for j, row in enumerate(part["order"], 1):
        print(f"    j = {j:2}  {row}")


def print_rates(rows: list[dict[str, Any]]) -> None:
    columns = ("cycles_per_mma_and_scheduler", "sm_clock_by_counters_mhz", "sm_clock_mhz", "power_watts")
    head = ("type", "data", "chains", "warps", "cycles", "TFLOP/s", "sustained", "cycles", "MHz", "NVML", "W")
    table = [head]
    for r in rows:
        row = [r["type"], r["data"], str(r["chains"]), str(r["warps_per_scheduler"])]
        row += [f"{r[columns[0]]:.2f}", f"{r['tflops']:.1f}"]
        if long := r.get("sustained"):
            row += [f"{long['tflops']:.1f}", f"{long[columns[0]]:.2f}"]
            row += [f"{long[column]:.0f}" for column in columns[1:]]
        table.append((*row, *[""] * (len(head) - len(row))))
    print(
        "\nRates: cycles per mma and scheduler, by chains of a warp and warps of a scheduler; MHz as the SMs"
    )
    print("count and as NVML says")
    print(aligned(table, left=2))


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("what", choices=("analyse",))
    parser.add_argument("file", type=Path, nargs="?", default=EVIDENCE / "tensor_core_arithmetic.json")
    args = parser.parse_args()
    try:
        record = json.loads(args.file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot be read: {error}") from None
    if not record.get("pass"):
        raise UsageError(
            f"{args.file}: the maps of the fragments were wrong, so nothing in it can be trusted"
        )
    print(f"{record['device']}, driver {record['driver']}, CUDA {record['cuda']}, {record['date']}")
    right = [report(kind, part) for kind, part in record["types"].items()]
    if "rates" in record:
        print_rates(record["rates"])
    return 0 if all(right) else 1
