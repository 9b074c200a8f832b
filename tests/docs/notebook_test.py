"""docs/notebook.ipynb, every cell run in order as a reader does, on the CPU device; and what its cells do
where nothing is built, where nvcc is missing and where a command fails."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from tools.pages.notebook import cells, to_notebook

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: run ./setup.sh")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: run ./setup.sh")

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def code_with(words):
    [source] = [
        c.source for c in nbformat.read(NOTEBOOK, 4).cells if words in c.source and "code" in c.cell_type
    ]
    return source


def run_cells(folder, *sources):
    """Runs cells as one program, without a kernel."""
    program = folder / "cells.py"
    program.write_text("\n".join(sources))
    return subprocess.run(
        [sys.executable, program], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The texts that the cells print, and how many pictures they show."""
    if Path(os.environ.get("BUILD", "")).resolve() != ROOT / "build":
        pytest.skip("the notebook works in build/, and this is another build directory")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        patch.delenv("PYTHONPATH")
        notebook = nbformat.read(NOTEBOOK, 4)
        client = nbclient.NotebookClient(
            notebook, timeout=280, resources={"metadata": {"path": str(ROOT / "docs")}}
        )
        client.execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    pictures = [out for out in outputs if "image/svg+xml" in out.get("data", {})]
    return "".join(out.get("text", "") for out in outputs), len(pictures)


def test_every_cell_runs(executed):
    text, pictures = executed
    assert pictures == 3
    assert text.count("PASS") == 5  # run, three X-rays, step 32
    assert "FFMA" in text and "32_wgmma on the CPU device" in text and "two_bounds" in text
    loads = re.findall(r"load  As +4 +\d+ +32 +(\d) +(\d)", text)  # wavefronts, ideal
    assert loads == [("1", "1"), ("2", "1"), ("1", "1")]  # as the text says: a conflict, and none once padded
    assert re.findall(r"load  A +4 .* (\d)$", text, re.MULTILINE) == ["4", "1", "1"]


def test_the_format_is_jupyters():
    nbformat.validate(nbformat.read(NOTEBOOK, 4))
    assert not [c for c in nbformat.read(NOTEBOOK, 4).cells if c.get("outputs")]


def test_a_page_becomes_cells():
    page = "# T\n\nIt is <!--= x -->4<!--/-->.\n\n```python\na = 1\n\nb = 2\n```\n\n```sh\nls\n```\n"
    assert cells(page) == [
        ("markdown", "# T\n\nIt is 4."),
        ("code", "a = 1\n\nb = 2"),
        ("markdown", "```sh\nls\n```"),
    ]
    nbformat.validate(nbformat.reads(to_notebook(page), 4))


def test_a_clone_with_nothing_built(tmp_path):
    """The two commands, in this order, and the first only once."""
    setup = "echo set up; mkdir -p build .venv/bin; touch build/ladder; cp meson .venv/bin\n"
    for name, text in (("setup.sh", setup), ("meson", 'echo "meson $*"\n')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    said = [run_cells(tmp_path, code_with("def sh")).stdout for _ in range(2)]
    builds = "meson compile -C build steps/05_2d_tiling/run\n"
    assert said == [f"set up\n{builds}", builds]


def test_without_its_repository(tmp_path):
    result = run_cells(tmp_path, code_with("def sh"))
    assert result.returncode == 1 and "put its address into REPOSITORY" in result.stderr


def test_machine_code_without_nvcc(tmp_path):
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "build").mkdir()
    programs = {"05_2d_tiling": {"units": {"cpu": "", "observed": ""}}}
    (tmp_path / "build/kernel_programs.json").write_text(json.dumps(programs))
    result = run_cells(tmp_path, "import json\nfrom pathlib import Path", code_with("sass build/mine"))
    assert "There is no nvcc here" in result.stdout, result.stderr
    assert len(re.findall(r"^ +5\d  (?:LDS|FFMA)", result.stdout, re.MULTILINE)) > 15


def test_a_command_that_fails_stops_the_notebook(tmp_path):
    (tmp_path / "setup.sh").touch()
    defined = code_with("def sh").partition("if not Path(")[0]
    result = run_cells(tmp_path, defined, 'sh("echo before; exit 3")\nprint("after")')
    assert result.stdout == "before\n" and "exit status 3: echo before" in result.stderr
