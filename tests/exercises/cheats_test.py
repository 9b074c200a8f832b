"""Each way around an exercise (cheats.toml) is caught, with the message that it asks for, at a bounded cost;
and what a file may look like at worst."""

from pathlib import Path

import pytest
from conftest import Kernel, Kernels
from tools.base import read_fields, read_toml
from tools.edits import Change
from tools.grading.grader import Grader

NAME = "02_coalescing"
PRODUCT = """\
namespace {

void product(const Gemm& g, const float* A, const float* B, float* C) {
  for (int b = 0; b < g.batch; ++b) {
    for (int row = 0; row < g.M; ++row) {
      for (int col = 0; col < g.N; ++col) {
        float sum = 0.0f;
        for (int k = 0; k < g.K; ++k) {
          sum += A[b * g.strideA + row * g.lda + k] * B[b * g.strideB + k * g.ldb + col];
        }
        float& c = C[b * g.strideC + row * g.ldc + col];
        c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
      }
    }
  }
}
"""
LONGEST_S = 60


def read_cheats() -> dict[str, Kernel]:
    path = Path(__file__).parent / "cheats.toml"
    cheats = {
        name: read_fields(Kernel, {"of": NAME, **table}, f"{path}: {name}")
        for name, table in read_toml(path).items()
    }
    for cheat in cheats.values():
        cheat.replace = [Change(c.old, c.new.replace("@product", PRODUCT)) for c in cheat.replace]
    return cheats


CHEATS = read_cheats()


@pytest.fixture(scope="module")
def cheats(build, exercises, request):
    return Kernels(CHEATS, exercises, build, request.session)


@pytest.mark.parametrize(
    ("cheat", "exercise"), [(key, name) for key, c in CHEATS.items() for name in c.exercises or [c.of]]
)
def test_cheat_is_caught(cheat, exercise, cheats):
    assert CHEATS[cheat].found
    assert cheats.check(cheat, exercise).seconds < LONGEST_S


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("int x = " + "(" * 70_000 + "1" + ")" * 70_000 + ";\n", "compile"),
        ("\n" * 300_000, "rule"),
        ("int a;\n" * 300_000, "rule"),
        ("\0\0\0", "compile"),
        ("#include <stdio.h>\n", "rule"),
        ("#include __FILE__\n", "rule"),
        ("#if 1\n", "compile"),
        ('const char* text = "\n', "compile"),
    ],
)
def test_a_file_that_is_no_kernel(build, exercises, source, code):
    grade = Grader(exercises[NAME], build, "cpu", seed=1).grade(source, "my/cheat.cu")
    assert grade.finding is not None
    assert grade.finding.code == code, grade.finding
    assert grade.seconds < LONGEST_S
