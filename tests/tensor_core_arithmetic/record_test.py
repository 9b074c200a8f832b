"""The record of what the tensor cores of an H200 computed: what it holds, and that the tool agrees.
tests/unit/tensor_core_test.cpp holds the CPU device to it."""

import json

import pytest
from conftest import TOOL
from tensor_core_arithmetic.command import nearest_models, recorded
from tensor_core_arithmetic.model import from_json
from tools.base import EVIDENCE

FILE = EVIDENCE / "tensor_core_arithmetic.json"


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


def test_a_model_gives_all_of_it(record):
    for kind, part in record["types"].items():
        found = recorded(kind, part)
        wrong, model = nearest_models(found, part["k"])[0]
        assert wrong == 0, f"{kind}: the nearest is {model}"
        # Of everything that ran, far more than is recorded, too.
        of_all = part["random"]["nearest_models"][0]
        assert of_all["wrong"] == 0
        assert not found.wrong(from_json(of_all["model"])).any()


def test_rounding(record):
    """As nvcc makes it of cvt.rna.tf32.f32, and as the CPU device has it."""
    assert len(record["to_tf32"]) >= 256
    for before, after in record["to_tf32"]:
        bits = int(before, 16)
        finite = bits & 0x7F800000 != 0x7F800000
        assert int(after, 16) == (bits + 0x1000 * finite) & 0xFFFFE000, before
