"""--xray --requests: every request of a block, and which elements it reads."""

import json
import subprocess

import numpy as np
import pytest
from conftest import COUNTS, EXAMPLE, LIMIT_S, PROGRAMS, ROW, rows

pytestmark = pytest.mark.usefixtures("build_that_can_observe")


def labelled(m, n, k):
    """A and B in which every element differs from every other, all of them TF32 numbers; and of each bit
    pattern the element: ("A", row, column)."""
    numbers = np.array([(1 + i / 1024) * 2.0**e for e in range(-20, 20) for i in range(1024)], np.float32)
    numbers = np.random.default_rng(1).permutation(numbers)
    a, b = numbers[: m * k].reshape(m, k), numbers[m * k : m * k + k * n].reshape(k, n)
    element = {}
    for name, matrix in ("A", a), ("B", b):
        for (row, column), bits in np.ndenumerate(np.ascontiguousarray(matrix).view(np.uint32)):
            element[int(bits)] = (name, row, column)
    assert len(element) == m * k + k * n
    return a, b, element


@pytest.mark.parametrize(
    "step, shape",
    [
        ("05_2d_tiling", (128, 128, 24)),
        ("06_vectorization", (128, 128, 32)),
        ("09_async_copy", (128, 128, 32)),
        ("25_ldmatrix", (128, 128, 64)),
        ("29_persistent", (128, 256, 64)),
    ],
)
def test_every_request(step, shape, tmp_path):
    """All that a block asks for, in its order, and which elements of A and B it reads, wherever they lie."""
    m, n, k = shape
    a, b, element = labelled(m, n, k)
    np.save(tmp_path / "a.npy", a), np.save(tmp_path / "b.npy", b)
    command = [PROGRAMS[step], "--m", m, "--n", n, "--k", k, "--a", "a.npy", "--b", "b.npy"]
    command += ["--xray", "--block", "0,0", "--requests", "--json", "r.json"]
    done = subprocess.run(
        list(map(str, command)), cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    [result] = json.loads((tmp_path / "r.json").read_text())
    columns = {"A": k, "B": n}
    read = {"A": set(), "B": set()}  # elements that were loaded from shared memory
    order = set()
    for row in rows(result["xray"]):
        kept, width = row["requests_kept"], row["bytes"]
        assert len(kept) == row["requests"]
        if row["example"]:
            assert any(all(q[key] == row["example"][key] for key in EXAMPLE - {"block"}) for q in kept)
        assert [q["sequence"] for q in kept] == sorted(q["sequence"] for q in kept)
        order.update((q["sequence"], row["line"], row["operation"]) for q in kept)
        reads = row["operation"] in ("load", "ldmatrix") or (row["operation"], row["space"]) == (
            "copy",
            "global",
        )
        for q in kept:
            if not reads or len(q["addresses"]) == 1:  # a bulk copy
                assert q["words"] == []
                continue
            assert len(q["words"]) == 32 * width // 4
            for at, word in enumerate(q["words"]):
                lane, part = divmod(at, width // 4)
                name, i, j = element[word]
                if row["space"] == "global":
                    address = (i * columns[name] + j) * 4
                    assert (name, address) == (row["array"], q["addresses"][lane] + 4 * part)
                else:
                    assert row["array"].split("::")[-1][0] == name
                    read[name].add((i, j))
    assert len({sequence for sequence, *_ in order}) == len({*order})
    assert [len(read[name]) for name in "AB"] == [m * k, k * n]


def test_requests_of_lanes_that_take_no_part(xray):
    _, report = xray("--m", 1, "--n", 3, "--k", 5, "--block", "0,0", "--requests")
    [a] = [r for r in rows(report) if (r["space"], r["array"], r["operation"]) == ("global", "A", "load")]
    for q in a["requests_kept"]:
        lanes = [lane for lane, address in enumerate(q["addresses"]) if address is not None]
        assert 0 < len(lanes) < 32
        assert all(word == 0 for lane, word in enumerate(q["words"]) if lane not in lanes)
        assert any(q["words"])


def test_requests_are_kept_only_if_asked_for(xray):
    _, report = xray("--size", 40, "--block", "0,0")
    assert all(row.keys() == ROW | COUNTS[row["space"]] for row in rows(report))
