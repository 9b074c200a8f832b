"""The recorded ladder is what the project promises, and what its README and plot show."""

import itertools
import json

import pytest
from conftest import ROOT

FOLDER = ROOT / "docs" / "evidence" / "h200"
FILE = FOLDER / "ladder.json"
# The fraction of cuBLAS that each step must reach; from 06 on at 8192 too.
TARGETS = {
    "01_naive": 0.009,
    "02_coalescing": 0.12,
    "03_shared_memory": 0.18,
    "04_1d_tiling": 0.33,
    "05_2d_tiling": 0.52,
    "06_vectorization": 0.65,
    "07_bank_conflicts": 0.75,
    "08_warp_tiling": 0.88,
    "09_async_copy": 0.92,
    "10_prefetch": 1.00,
}
FIRST_AT_8192 = "06"


@pytest.fixture(scope="module")
def records():
    if not FILE.exists():
        pytest.skip("not recorded yet")
    records = json.loads(FILE.read_text())
    if missing := TARGETS.keys() - {r["step"] for r in records}:
        pytest.skip(f"not recorded yet: {', '.join(sorted(missing))}")
    return records


def ratios(records, size):
    found = {
        r["step"]: r["ratio_to_cublas"]
        for r in records
        if r["m"] == r["n"] == r["k"] == size and r["batch"] == 1
    }
    return {step: found[step] for step in TARGETS}


def test_every_result_is_right(records):
    for r in records:
        case = r["step"], r["m"], r["batch"]
        assert r["device_kind"] == "gpu", case
        assert r["verified"] is True, case
        assert r["pass"] is True, case
        assert r["complaints"] == [], case
        assert r["error_over_bound"] <= 1, case


@pytest.mark.parametrize("size", [4096, 8192])
def test_targets(records, size):
    short = {
        step: ratio
        for step, ratio in ratios(records, size).items()
        if ratio < TARGETS[step] and (size == 4096 or step >= FIRST_AT_8192)
    }
    assert short == {}


@pytest.mark.parametrize("size", [4096, 8192])
def test_each_step_is_faster_than_the_one_before(records, size):
    ladder = list(ratios(records, size).values())
    assert all(before < after for before, after in itertools.pairwise(ladder)), ladder


def test_one_machine(records):
    assert len({(r["device"], r["driver"], r["cuda"]) for r in records}) == 1


def test_readme_shows_the_record(records, tool):
    result = tool("ladder.py", "readme", "--check", FILE, ROOT / "README.md")
    assert (result.returncode, result.stderr) == (0, "")


def test_plot_shows_the_record(records, tool, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    if f"matplotlib=={matplotlib.__version__}\n" not in (ROOT / "requirements.txt").read_text():
        pytest.skip(f"matplotlib {matplotlib.__version__} may draw it otherwise")
    if not (FOLDER / "ladder.svg").exists():
        pytest.skip("not drawn yet")
    assert tool("ladder.py", "plot", FILE, tmp_path / "ladder.svg").returncode == 0
    assert (tmp_path / "ladder.svg").read_text() == (FOLDER / "ladder.svg").read_text(), (
        f"run ladder.py plot {FILE} {FOLDER / 'ladder.svg'}"
    )
