"""Kernels that are made differently from the solutions (variants.txt): goals leave room, and ask for the
idea; who is wrong is told why."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools.grading.build import Toolchain
from tools.grading.finding import show
from tools.grading.grader import Grader

HEAD = re.compile(
    r"(?P<name>[^:]+): (?P<of>\w+)(?: -> (?P<code>[^:]+?)(?P<nvcc> with nvcc)?: (?P<words>.+))?"
)


@dataclass
class Variant:
    """A block of variants.txt; code: "" if it passes; nvcc: only where there is nvcc."""

    of: str
    code: str
    words: str
    nvcc: bool
    changes: list[list[str]]


def read_variants() -> dict[str, Variant]:
    found = {}
    text = (Path(__file__).parent / "variants.txt").read_text(encoding="utf-8")
    for block in re.split(r"\n{2,}", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip("\n")):
        head, *lines = block.split("\n")
        match = HEAD.fullmatch(head)
        assert match["name"] not in found
        changes = [line.replace("\\n", "\n").split(" => ") for line in lines]
        words = match["code"] or "", match["words"] or "", bool(match["nvcc"])
        found[match["name"]] = Variant(match["of"], *words, changes)
    return found


VARIANTS = read_variants()


@pytest.fixture(scope="module")
def grades(build, exercises):
    """The findings and sources of all that can be graded here."""

    def grade(variant):
        source = exercises[variant.of].solution
        for old, new in variant.changes:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        return Grader(exercises[variant.of], build, "cpu", seed=1).grade(source, "my/it.cu").finding, source

    has_nvcc = Toolchain(build, "05_2d_tiling").has_nvcc
    chosen = {name: variant for name, variant in VARIANTS.items() if has_nvcc or not variant.nvcc}
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(chosen, pool.map(grade, chosen.values()), strict=True))


@pytest.mark.parametrize("name", VARIANTS)
def test_variant(name, grades):
    if name not in grades:
        pytest.skip("needs nvcc")
    (finding, source), variant = grades[name], VARIANTS[name]
    if not variant.code:
        assert finding is None, finding
        return
    assert finding is not None, "it passes"
    assert finding.code == variant.code, finding
    assert variant.words in " ".join(show(finding, "my/it.cu", source).split())


def test_enough_is_tried():
    """30 that pass; from 06 on each rung without its idea (with nvcc: 10 and 11 change nothing that the X-ray
    sees), and those on tensor cores twice at least."""
    assert sum(not variant.code for variant in VARIANTS.values()) >= 30
    missed = [variant.of for variant in VARIANTS.values() if variant.code]
    assert {name[:2] for name in missed} >= {f"{n:02}" for n in range(6, 13)}
    assert all(missed.count(name) >= 2 for name in ("21_tensor_cores", "23_swizzle", "25_ldmatrix"))
