"""Kernels that are made differently from the solutions (variants.toml): goals leave room, and ask for the
idea; who is wrong is told why."""

from pathlib import Path

import pytest
from conftest import Kernel, Kernels
from tools.base import read_fields, read_toml

FILE = Path(__file__).parent / "variants.toml"
VARIANTS = {
    f"{of}: {name}": read_fields(Kernel, {"of": of, **table}, f"{FILE}: {of}: {name}")
    for of, tables in read_toml(FILE).items()
    for name, table in tables.items()
}


@pytest.fixture(scope="module")
def variants(build, exercises, request):
    return Kernels(VARIANTS, exercises, build, request.session)


@pytest.mark.parametrize("name", VARIANTS)
def test_variant(name, variants):
    variants.check(name, VARIANTS[name].of)


def test_enough_is_tried():
    """30 that pass; from 06 on each rung without its idea (with nvcc: 10 and 11 change nothing that the X-ray
    sees), and those on tensor cores twice at least."""
    assert sum(not variant.found for variant in VARIANTS.values()) >= 30
    missed = [variant.of for variant in VARIANTS.values() if variant.found]
    assert {name[:2] for name in missed} >= {f"{n:02}" for n in range(6, 13)}
    assert all(
        missed.count(name) >= 2
        for name in ("21_tensor_cores", "23_swizzle", "25_ldmatrix", "34_warp_specialisation")
    )
