"""The models: by hand, against the CPU device's, and whether the tool finds the one that made a record."""

import json
import subprocess
import sys

import numpy as np
import pytest
from conftest import PROGRAM, TOOL
from tensor_core_arithmetic.command import elements
from tensor_core_arithmetic.model import Model, all_models, from_json, results

NUMBERS = (0, 17, 100, 333, 601, 1000, 1413, 1767, 2303)  # of models, as all_models() counts them


def bits(*values):
    return np.array(values, dtype=np.float32).view(np.uint32)


def total(model, products, c=0.0, k=8):
    """The sum of these products and zeros, as a float."""
    products = [*products, *[(0.0, 0.0)] * (k - len(products))]
    a, b = (bits(*column)[None, :] for column in zip(*products, strict=True))
    return float(results(model, a, b, bits(c)).view(np.float32)[0])


@pytest.mark.parametrize("width", range(23, 31))
def test_width(width):
    kept = 2.0**-width
    for c, last in ((0.0, [(-1, 1)]), (-1.0, [])):
        assert total(Model(8, width), [(1, 1), (kept, 1), *last], c) == kept
        assert total(Model(8, width), [(1, 1), (kept / 2, 1), (kept / 2, 1), *last], c) == 0
    assert total(Model(8, width), [(1, 1), (-1, 1)], kept) == kept
    assert total(Model(8, width), [(1, 1), (-1, 1)], kept / 2) == 0
    assert total(Model(8, width, normalised_products=True), [(1.5, 1.5), (-1.5, 1.5), (kept, 1)]) == 0
    assert total(Model(8, width), [(1.5, 1.5), (-1.5, 1.5), (kept, 1)]) == kept


@pytest.mark.parametrize(
    ("terms", "above", "below"), [("to_zero", 1, -1), ("down", 1, -2), ("to_nearest", 2, -2)]
)
def test_rounding_of_terms(terms, above, below):
    last = 2.0**-25
    model = Model(8, 25, terms=terms)
    assert total(model, [(1, 1), (-1, 1), (1.75 * last, 1)]) == above * last
    assert total(model, [(1, 1), (-1, 1), (-1.75 * last, 1)]) == below * last


def test_rounding_of_results():
    small = [(3 * 2.0**-25, 1)]
    assert total(Model(8, 25), small, 1.0) == 1
    assert total(Model(8, 25, result="to_nearest"), small, 1.0) == 1 + 2.0**-23
    assert total(Model(8, 25, c_with_products=False), [(-(2.0**-60), 1)], 1.0) == 1 - 2.0**-24
    assert total(Model(8, 25, result="to_nearest", c_with_products=False), [(-(2.0**-60), 1)], 1.0) == 1


def test_steps():
    pair_first = [(2.0**40, 1), (-(2.0**40), 1), (0, 0), (0, 0), (1, 1)]
    assert [total(Model(n, 25), pair_first) for n in (8, 4, 2)] == [0, 1, 1]
    assert total(Model(8, 25), pair_first[:2], 1.0) == 0
    assert total(Model(8, 25, c_with_products=False), pair_first[:2], 1.0) == 1


def test_zeros_and_specials():
    assert total(Model(8, 25), [(0, 2.0**127)], 2.0**-27) == 2.0**-27
    assert total(Model(8, 25, zeros_have_exponents=True), [(0, 2.0**127)], 2.0**-27) == 0
    assert total(Model(8, 25), [(2.0**64, 2.0**64)]) == np.inf
    assert total(Model(8, 25), [(2.0**64, 2.0**64), (-(2.0**64), 2.0**64)], 1.0) == 0
    assert np.isnan(total(Model(8, 25), [(np.inf, 0)]))
    assert np.isnan(total(Model(8, 25), [(np.inf, 1)], -np.inf))
    assert total(Model(8, 25), [(-np.inf, 2)], 1.0) == -np.inf
    assert total(Model(8, 25), [(2.0**-70, 2.0**-79)]) == 2.0**-149


def test_least_exponent():
    """Four times 2^-151 and three terms that cancel: 2^-149, if those are kept, or lost, all three."""

    def tiny_terms(least, exponent):
        terms = [2.0**-151] * 4 + [-(2.0**exponent)] + [2.0 ** (exponent - 1)] * 2
        products = [(2.0**-70, term * 2.0**70) for term in terms]
        return total(Model(8, 25, least_exponent=least), products)

    for exponent in range(-175, -151):
        assert tiny_terms(-133, exponent) == (0 if exponent == -158 else 2.0**-149)
        assert tiny_terms(-1000, exponent) == 2.0**-149


@pytest.fixture(scope="module")
def examples():
    if not PROGRAM.exists():
        pytest.skip("the program is not built: there is no nvcc")

    def of_model(number):
        command = [str(PROGRAM), "--examples", str(number)]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    return of_model


@pytest.mark.parametrize("number", NUMBERS)
def test_the_cpu_devices_models_are_the_same(examples, number):
    for part in examples(number):
        k = 8 if part["type"] == "tf32" else 16
        model = from_json(part["model"])
        assert model in set(all_models(k))
        found = elements(part["type"], k, part["samples"])
        wrong = found.wrong(model)
        assert len(wrong) > 800
        assert not wrong.any(), part["samples"][int(wrong.argmax())]


def made_up_record(kinds, path, spoil=False):
    """As the program writes it, of what a model gave."""
    types = {}
    for part in kinds:
        k = 8 if part["type"] == "tf32" else 16
        # The chosen inputs come first.
        split = next(i for i, row in enumerate(part["samples"]) if row[0] == "spread_0")
        cases = [dict(zip(("case", "a", "b", "c", "d"), row, strict=True)) for row in part["samples"][:split]]
        samples = part["samples"][split:]
        if spoil:
            samples[0][4] = f"{int(samples[0][4], 16) ^ 1:08x}"
        nearest = [{"wrong": 0, "model": part["model"]}]
        types[part["type"]] = {
            "k": k,
            "cases": cases,
            "order": [],
            "random": {"samples": samples, "elements": len(samples), "nearest_models": nearest},
        }
    record = {"device": "none", "driver": "1", "cuda": "13.0", "date": "today", "pass": True}
    path.write_text(json.dumps({**record, "types": types, "rates": []}))
    return path


def analyse(path):
    command = [sys.executable, str(TOOL), "analyse", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", [8, 333])
def test_finds_the_model(examples, number, tmp_path):
    parts = examples(number)
    done = analyse(made_up_record(parts, tmp_path / "record.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    for part in parts:
        assert f"bit for bit: {from_json(part['model'])}\n" in done.stdout


def test_finds_none(examples, tmp_path):
    done = analyse(made_up_record(examples(8), tmp_path / "record.json", spoil=True))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 wrong: " in done.stdout
    assert "spread_0 1" in done.stdout


def test_refuses(tmp_path):
    (tmp_path / "record.json").write_text('{"pass": false}')
    for path, why in ((tmp_path / "record.json", "maps"), (tmp_path / "none.json", "cannot be read")):
        done = analyse(path)
        assert done.returncode == 2
        assert why in done.stderr
