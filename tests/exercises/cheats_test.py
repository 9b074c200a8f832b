"""Each way around an exercise (cheats.toml) is caught, with the message that it asks for, at a bounded cost;
and what a file may look like at worst."""

import re
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import edited
from tools.grading.finding import show
from tools.grading.grader import Grader

CHEATS = tomllib.loads((Path(__file__).parent / "cheats.toml").read_text(encoding="utf-8"))
NAME = "02_coalescing"
PRODUCT = """\
+for (int b = 0; b < g.batch; ++b) {
+  for (int row = 0; row < g.M; ++row) {
+    for (int col = 0; col < g.N; ++col) {
+      float sum = 0.0f;
+      for (int k = 0; k < g.K; ++k) {
+        sum += $A[b * g.strideA + row * g.lda + k] * $B[b * g.strideB + k * g.ldb + col];
+      }
+      float& c = $C[b * g.strideC + row * g.ldc + col];
+      c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
+    }
+  }
+}"""
LONGEST_S = 60
TRIES = [(key, name) for key, cheat in CHEATS.items() for name in cheat.get("exercises", [NAME])]


def edit_of(cheat) -> str:
    for line, *matrices in re.findall(r"^(\+ *@product (\S+) (\S+) (\S+))$", cheat["edit"], re.MULTILINE):
        product = PRODUCT
        for name, matrix in zip("ABC", matrices, strict=True):
            product = product.replace(f"${name}", matrix)
        cheat["edit"] = cheat["edit"].replace(line, product)
    return cheat["edit"]


@pytest.fixture(scope="module")
def grades(build, exercises):
    """Of all cheats, two at a time: the source and the grade."""

    def grade(attempt):
        key, name = attempt
        cheat = CHEATS[key]
        source = edited(exercises[cheat.get("of", NAME)].solution, edit_of(cheat))
        return source, Grader(exercises[name], build, "cpu", seed=1).grade(source, "my/cheat.cu")

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(TRIES, pool.map(grade, TRIES), strict=True))


@pytest.mark.parametrize(("cheat", "exercise"), TRIES)
def test_cheat_is_caught(cheat, exercise, grades):
    source, grade = grades[cheat, exercise]
    code, says, place = [*CHEATS[cheat]["found"], "", ""][:3]
    finding = grade.finding
    assert finding is not None, "it passes"
    assert finding.code == code, finding
    message = " ".join(show(finding, "my/cheat.cu", source).split())
    assert says in message
    assert grade.seconds < LONGEST_S
    if place:
        places = [n for n, line in enumerate(source.splitlines(), 1) if place in line]
        assert places == [finding.line], finding


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
