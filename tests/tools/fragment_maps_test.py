"""fragment_maps prints the maps of common/cuda/fragments.hpp: all of them, each element of a matrix once."""

import json
import os
import subprocess
from collections import Counter
from itertools import product
from pathlib import Path

PROGRAM = Path(os.environ.get("BUILD", ".")) / "common" / "tools" / "fragment_maps"


def test_maps():
    done = subprocess.run([str(PROGRAM)], capture_output=True, text=True, check=True)
    maps = json.loads(done.stdout)
    places = maps.pop("places")
    assert {name: list(matrices) for name, matrices in maps.items()} == {
        "mma_tf32": ["a", "b", "c"],
        "mma_bf16": ["a", "b", "c"],
        "ldmatrix": ["m"],
        "ldmatrix_trans": ["m"],
    }
    for matrices in maps.values():
        for m in matrices.values():
            assert len(m["elements"]) == 32
            held = Counter(tuple(place) for lane in m["elements"] for place in lane)
            assert held == Counter(product(range(m["rows"]), range(m["cols"])))
            assert all(len(lane) % m["packed"] == 0 for lane in m["elements"])
    # Lane 13 is number 1 of group 3.
    assert maps["mma_tf32"]["a"]["elements"][13] == [[3, 1], [11, 1], [3, 5], [11, 5]]
    assert maps["mma_bf16"]["b"]["elements"][13] == [[2, 3], [3, 3], [10, 3], [11, 3]]
    assert maps["ldmatrix_trans"]["m"]["elements"][13] == [[2, 3], [3, 3]]
    assert {name: [m["packed"] for m in maps[name].values()] for name in ("mma_tf32", "mma_bf16")} == {
        "mma_tf32": [1, 1, 1],
        "mma_bf16": [2, 2, 1],
    }
    assert list(places) == ["swizzle_128B", "swizzle_b"]
    for rows in places.values():
        assert len(rows) == 8 and all(sorted(row) == list(range(32)) for row in rows)
    assert places["swizzle_128B"][3][5] == 9  # group 1 XOR 3, element 1
    assert places["swizzle_b"][3][9] == 17
