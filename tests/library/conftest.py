"""What the tests of the library share. BUILD in the environment: the build folder."""

import ctypes
import importlib
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD"]).resolve()
sys.path.insert(0, str(ROOT / "library"))
gemm_fp32_tc = importlib.import_module("gemm_fp32_tc")

CPU = str(BUILD / "library/libgemm_fp32_tc_cpu.so")


def random(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def error(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """The largest, of |A||B|."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float((np.abs(c - a @ b) / (np.abs(a) @ np.abs(b))).max())


@pytest.fixture(scope="module")
def gemm():
    return gemm_fp32_tc.Gemm(CPU)


class Report(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("fast", "few_terms", "lossy", "special", "short_k", "unproved")
    )


def report(gemm) -> dict:
    parts = Report()
    gemm.call("report", gemm.handle, ctypes.byref(parts))
    return {name: getattr(parts, name) for name, _ in Report._fields_ if getattr(parts, name)}


def command_of(source: str, compiler: str) -> list[str]:
    """The command line that a comment gives, in two lines."""
    text = (ROOT / source).read_text()
    found = re.search(rf"^//   ({re.escape(compiler)} .*)\n//     (.*)$", text, re.MULTILINE)
    assert found, compiler
    return shlex.split(f"{found[1]} {found[2]}")
