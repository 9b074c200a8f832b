"""The record of what the tensor cores of an H200 computed: what it holds, and that the tool agrees.
tests/unit/tensor_core_test.cpp holds the CPU device to it."""

import json

import pytest
from conftest import TOOL
from tensor_core_arithmetic.command import nearest_models, recorded
from tensor_core_arithmetic.model import Model, all_models, from_json
from tools.base import EVIDENCE

FILE = EVIDENCE / "tensor_core_arithmetic.json"
WGMMA_FILE = EVIDENCE / "wgmma_arithmetic.json"


@pytest.fixture(scope="module")
def record():
    if not FILE.exists():
        pytest.skip(f"there is no record yet: {TOOL.name} has not run on the GPU")
    return json.loads(FILE.read_text())


def test_what_it_holds(record):
    assert record["pass"]
    assert FILE.stat().st_size < 2_000_000
    assert record["types"].keys() == {"tf32", "bf16"}
    for part in record["types"].values():
        assert part["maps_right"]
        assert part["random"]["mmas"] >= 20_000
        assert len(part["random"]["samples"]) >= 4000


@pytest.fixture(scope="module")
def fitting(record):
    """Of each type the models that give all recorded elements."""
    found = {}
    for kind, part in record["types"].items():
        nearest = nearest_models(recorded(kind, part), part["k"])
        found[kind] = [model for wrong, model in nearest if wrong == 0]
    return found


def test_one_model_gives_all_of_it(record, fitting):
    for kind, part in record["types"].items():
        assert fitting[kind] == [Model(part["k"], 25, least_exponent=-133)]
        # Of everything that ran, far more than is recorded, too.
        nearest = part["random"]["nearest_models"]
        assert [row["wrong"] == 0 for row in nearest] == [True] + [False] * (len(nearest) - 1)
        assert from_json(nearest[0]["model"]) == fitting[kind][0]
        assert part["random"]["models_tried"] == sum(1 for _ in all_models(part["k"]))
    assert [record["types"][kind]["random"]["models_tried"] for kind in ("tf32", "bf16")] == [2304, 3072]
    assert sum(part["random"]["elements"] for part in record["types"].values()) == 5_753_600


def test_all_at_once(record):
    """No 1 survives beside a large pair, wherever they stand."""
    for part in record["types"].values():
        assert len(part["order"]) == part["k"] - 1
        assert all(len(row) == part["k"] + 1 and set(row) == {"-", "0"} for row in part["order"])


def test_special_numbers(record):
    for kind, part in record["types"].items():
        d = {row["case"]: row["d"] for row in part["cases"]}
        nans = {"nan", "nan_negative_payload", "nan_c", "nan_c_signalling"}
        assert {d[name] for name in nans | {"infinity_times_zero"}} == {"7fffffff"}
        assert d["negative_zero_c"] == d["negative_zeros"] == "00000000"
        assert d["subnormal_c"] == "00000001"
        assert d["subnormal_a"] == "31800000"  # 2^-128 * 2^100
        if kind == "tf32":
            assert d["nan_in_cut_bits"] == "7f800000"
            assert d["unrounded"] == "3f800000"


def test_rates(record):
    key = "cycles_per_mma_and_scheduler"
    assert all(row["cycles_of_slowest_sm"] < 1.02 * row[key] for row in record["rates"])
    rates = {}
    for row in record["rates"]:
        rates[row["type"], row["data"], row["chains"], row["warps_per_scheduler"]] = row
    for kind in ("tf32", "bf16"):
        assert rates[kind, "random", 1, 1][key] == pytest.approx(24, abs=0.1)
        assert 6.2 < rates[kind, "random", 16, 1][key] < 6.35
        for which in (
            ("random", 4, 2),
            ("random", 8, 2),
            ("random", 8, 4),
            ("random", 16, 2),
            ("zeros", 8, 2),
        ):
            assert rates[(kind, *which)][key] == pytest.approx(6, abs=0.02)
    tf32, bf16 = (rates[kind, "random", 16, 2]["sustained"] for kind in ("tf32", "bf16"))
    zeros = rates["tf32", "zeros", 8, 2]["sustained"]
    assert tf32["tflops"] == pytest.approx(327, abs=0.5)
    assert bf16["tflops"] == pytest.approx(639, abs=0.5)
    assert zeros["power_watts"] == pytest.approx(250, abs=5)
    assert tf32["power_watts"] == pytest.approx(610, abs=5)
    assert zeros["tflops"] < 1.01 * tf32["tflops"]
    assert tf32["sm_clock_mhz"] == 1980
    assert tf32["sm_clock_by_counters_mhz"] == pytest.approx(1815, abs=1)
    # An mma is 2048 operations, and an SM has four schedulers.
    flop_per_cycle = 2048 * 4 * record["multiprocessors"] / tf32[key]
    assert tf32["tflops"] == pytest.approx(flop_per_cycle * tf32["sm_clock_by_counters_mhz"] * 1e-6, rel=0.01)


def test_rounding(record):
    """As nvcc makes it of cvt.rna.tf32.f32, and as the CPU device has it."""
    assert len(record["to_tf32"]) >= 256
    for before, after in record["to_tf32"]:
        bits = int(before, 16)
        finite = bits & 0x7F800000 != 0x7F800000
        assert int(after, 16) == (bits + 0x1000 * finite) & 0xFFFFE000, before


@pytest.fixture(scope="module")
def wgmma():
    if not WGMMA_FILE.exists():
        pytest.skip("there is no record of wgmma yet")
    return json.loads(WGMMA_FILE.read_text())


def test_one_model_gives_all_of_wgmma(wgmma):
    """The one of mma.sync; FP16's subnormal numbers have one exponent, that of its smallest normal number."""
    assert wgmma["pass"]
    assert WGMMA_FILE.stat().st_size < 2_500_000
    assert wgmma["types"].keys() == {"wgmma_tf32", "wgmma_bf16", "wgmma_fp16"}
    for kind, part in wgmma["types"].items():
        fp16 = kind == "wgmma_fp16"
        assert part["maps_right"]
        assert len(part["random"]["samples"]) >= 3900
        fitting = [
            model for wrong, model in nearest_models(recorded(kind, part), part["k"], fp16) if wrong == 0
        ]
        least = -14 if fp16 else -126
        assert Model(part["k"], 25, least_exponent=-133, least_factor_exponent=least) in fitting
        nearest = part["random"]["nearest_models"]
        assert nearest[0]["wrong"] == 0
        assert part["random"]["models_tried"] == sum(1 for _ in all_models(part["k"], fp16))
        assert [row["wrong"] == 0 for row in nearest].count(True) == (2 if fp16 else 1)
        # Other numbers of columns, and A from registers.
        assert part["random"]["different_in_other_forms"] == 0
        assert all(len(row) == part["k"] + 1 and set(row) == {"-", "0"} for row in part["order"])
    elements = {kind: part["random"]["elements"] for kind, part in wgmma["types"].items()}
    assert elements["wgmma_fp16"] == 614_400
    assert sum(elements.values()) - elements["wgmma_fp16"] == 1_187_840
