"""Goals leave room: kernels that are made differently from the solutions, and are right, pass as well."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tools.grading.grader import Grader


def read_variants() -> dict[str, tuple[str, list[list[str]]]]:
    """Of each kernel in variants.txt the exercise, and pairs of old and new text."""
    found = {}
    text = (Path(__file__).parent / "variants.txt").read_text(encoding="utf-8")
    for block in re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip("\n").split("\n\n"):
        head, *changes = block.strip("\n").split("\n")
        name, _, exercise = head.partition(": ")
        found[name] = exercise, [line.replace("\\n", "\n").split(" => ") for line in changes]
    return found


VARIANTS = read_variants()


@pytest.fixture(scope="module")
def grades(build, exercises):
    def grade(variant):
        name, changes = variant
        source = exercises[name].solution.read_text()
        for old, new in changes:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        return Grader(exercises[name], build, "cpu", seed=1).grade(source, "my/variant.cu")

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(VARIANTS, pool.map(grade, VARIANTS.values()), strict=True))


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_passes(variant, grades):
    assert grades[variant].finding is None, grades[variant].finding
