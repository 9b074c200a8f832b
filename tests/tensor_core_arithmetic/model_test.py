"""The models: by hand, against the CPU device's, and whether the tool finds the one that made a record."""

import json
import subprocess
import sys
from functools import cache

import pytest
from conftest import PROGRAM, TOOL
from tensor_core_arithmetic.command import elements
from tensor_core_arithmetic.model import all_models, from_json

NUMBERS = (0, 17, 100, 333, 601, 1000, 1413, 1767, 2303)  # of models, as all_models() counts them


@pytest.fixture(scope="module")
def examples():
    if not PROGRAM.exists():
        pytest.skip("the program is not built: there is no nvcc")

    @cache
    def printed(number):
        command = [str(PROGRAM), "--examples", str(number)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    return lambda number: json.loads(printed(number))


@pytest.mark.parametrize("number", NUMBERS)
def test_the_cpu_devices_models_are_the_same(examples, number):
    for part in examples(number):
        k = 8 if part["type"] == "tf32" else 16
        model = from_json(part["model"])
        assert model in set(all_models(k, part["type"] == "wgmma_fp16"))
        found = elements(part["type"], k, part["samples"])
        [wrong] = found.wrong(model)
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
            "random": {
                "samples": samples,
                "elements": len(samples),
                "nearest_models": nearest,
                "models_tried": 1,
            },
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
