"""A kernel that is another one, edited: what an edit may say, and that it never silently does nothing."""

import subprocess
import sys

import pytest
from tools.base import ROOT, UsageError
from tools.edits import Change, Edit, with_constants

SOURCE = """// constexpr int BM = 1;
constexpr int BM = 128, BN = 64;
constexpr int TM = 8;
constexpr int threads = BM / TM;
  constexpr int INNER = 3;
"""


def test_with_constants():
    changed = with_constants(SOURCE, {"BN": "32", "TM": "4", "BM": "256"})
    assert changed == SOURCE.replace("BM = 128, BN = 64", "BM = 256, BN = 32").replace("TM = 8", "TM = 4")
    assert with_constants(SOURCE, {}) == SOURCE
    assert "threads = 7;" in with_constants(SOURCE, {"threads": "7"})


@pytest.mark.parametrize(
    "source, name, count",
    [(SOURCE, "BK", 0), (SOURCE, "M", 0), (SOURCE, "INNER", 0), (SOURCE * 2, "TM", 2), ("", "TM", 0)],
)
def test_constant_that_is_not_there_once(source, name, count):
    with pytest.raises(UsageError, match=f"{count} definitions of `constexpr int {name}`"):
        with_constants(source, {name: "1"})


def test_pieces_are_replaced_in_turn_as_they_are_written():
    edit = Edit([{"old": "  a;\n"}, {"old": "b;\nc;", "new": " d;"}, {"old": " d;", "new": "e;"}])
    assert edit.text("  a;\nb;\nc;\n") == "e;\n"


@pytest.mark.parametrize("old, count", [("int b;", 2), ("int c;", 0)])
def test_a_piece_that_is_not_there_once(old, count):
    with pytest.raises(UsageError, match=f"the kernel has {count} places like '{old}', not one"):
        Edit([Change(old)]).text("int a;\nint b;\nint b;\n")


@pytest.mark.parametrize("change", [{}, {"new": "a"}, {"old": "a", "news": "b"}, {"old": 1}, "a"])
def test_a_change_that_is_none(change):
    with pytest.raises(ValueError, match="replace 2"):
        Edit([{"old": "a"}, change])


def test_the_header_takes_the_place_of_the_first_comment_only():
    source = "// Step 1: old\n//\n// Idea\n\n#include <x>  // stays\n// stays\n"
    edited = Edit(header="\nExercise\n\nwith a blank line\n").text(source)
    assert edited == "// Exercise\n//\n// with a blank line\n\n#include <x>  // stays\n// stays\n"


def test_what_is_not_in_the_kernel_is_sought_in_the_headers_beside_it():
    """A header stands there once, even where several include it; other headers stay where they are."""
    kernel = ROOT / "steps/38_every_shape_bf16/kernel.cu"
    source = kernel.read_text()
    of_stores = "const auto [row, col] = wgmma_place(thread, i ^ swap);"  # which tiles.hpp includes
    edited = Edit([{"old": of_stores, "new": "@"}], {"BAND": 8}).text(source)
    assert edited.count("@") == 1
    assert "constexpr int BAND = 8;" in edited
    assert '#include "steps/' not in edited and "#pragma once" not in edited
    assert edited.count("Operands reachable(const Operand& a") == 1  # of passes.hpp, which two include
    assert '#include "common/cuda/wgmma.hpp"' in edited
    assert '#include "steps/' in Edit([{"old": "void gemm("}]).text(source)  # which is the kernel's own


EDITED = """
base = "05_2d_tiling"
wrong = "belongs to the planted bugs"
constants = { BK = 4 }
"""


def make(tmp_path, text=EDITED):
    """What the build does with a file of an edited kernel."""
    (tmp_path / "a.toml").write_text(text)
    command = [sys.executable, "-P", "-m", "tools.edits", ".", "deps", "a.toml"]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_the_build_makes_whole_kernels_and_knows_what_of(tmp_path):
    base, made = ROOT / "steps/05_2d_tiling/kernel.cu", tmp_path / "a.cuh"
    assert make(tmp_path).returncode == 0
    assert made.read_text().endswith(with_constants(base.read_text(), {"BK": 4}))
    assert (tmp_path / "deps").read_text() == f"a.cuh: {base}\n"  # headers beside it: none


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("BK", "BX"), "a.toml: the kernel has 0 definitions of `constexpr int BX`, not one"),
        (("05_2d_tiling", "05"), "a.toml: there is no kernel '05'"),
        (("base", "basis"), "a.toml: has no base"),
        (("constants", "constant"), "a.toml: the edit changes nothing"),
    ],
)
def test_a_file_that_makes_no_kernel(tmp_path, change, error):
    result = make(tmp_path, EDITED.replace(*change))
    assert (result.returncode, result.stderr) == (2, f"error: {error}\n")
    assert not (tmp_path / "a.cuh").exists()
