"""A table of the results: python3 table.py results/run2.jsonl [--sort]"""

import json
import sys

rows = [json.loads(line) for line in open(sys.argv[1])]
designs = {}
for r in rows:
    if "n" in r and "variant" in r:
        designs.setdefault(r["variant"], {})[r["n"]] = r
    elif "series" not in r:
        print("-", json.dumps(r))
sizes = sorted({n for d in designs.values() for n in d})
print(
    "| design | "
    + " | ".join(f"{n}: TFLOP/s (kernel), ratio, MHz; sustained TFLOP/s, ratio, MHz" for n in sizes)
    + " | error rms |"
)
print("|---|" + "---|" * (len(sizes) + 1))
items = list(designs.items())
if "--sort" in sys.argv:
    items.sort(key=lambda kv: -kv[1].get(sizes[-1], {}).get("tflops", 0))
for name, d in items:
    cells = []
    for n in sizes:
        r = d.get(n)
        cells.append(
            ""
            if not r
            else f"{r['tflops']:.1f} ({r['kernel_only_tflops']:.1f}), {r['ratio']:.3f}, {r['mhz']:.0f}; "
            f"{r['sustained_tflops']:.1f}, {r['ratio_sustained']:.3f}, {r['sustained_mhz']}{'' if r['ok'] else ' WRONG'}"
        )
    print(f"| {name} | " + " | ".join(cells) + f" | {next(iter(d.values()))['error_rms']:.2e} |")
for r in rows:
    if "series" in r:
        print(
            f"{r['series']} {r['n']}, {r['idle_ms']} ms idle, {r.get('delay_us', 0)} us spin: {r['tflops']} {r['mhz']} {r.get('us_of_block_0', '')}"
        )
