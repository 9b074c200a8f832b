"""Whatever is handed in takes a bounded time, is read in one pass, and costs nobody else a grade."""

import os
import time
import zipfile
from contextlib import suppress

import pytest
from tools.base import ROOT
from tools.grading import budget, class_report, rules, run
from tools.grading.class_report import grade_class, table
from tools.grading.content import without_comments, without_strings
from tools.grading.finding import Failed, Finding, show
from tools.grading.grader import Grader
from tools.grading.object_file import Symbol, line_of
from tools.grading.source import read
from tools.grading.state import MOST_BYTES

SPIN = """  float spun = 0.0f;
  for (int i = 0; row + col == 0 && i < 50'000'000; ++i) spun = spun * 0.5f + static_cast<float>(i);
"""
FORGED = "eve\nAda: 2 of 2 points\x1b[2J"
LONG = "n" * 254
BYTES = os.fsdecode(b"\xff\xfebytes")


def names(form):
    """A quarter of a MB of different names."""
    return "".join(form.format(n) for n in range(MOST_BYTES // (len(form) + 3)))


@pytest.mark.parametrize(
    "text",
    ["/* ", ";launch(", "'\\'", 'R"a(', "std :: ", "[[", "launch({", names("n{} ").join(["launch(", ")"]),
     names("_a{};"), names("k{0}=launch(k{0}"), names("f{}(){{")],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_text_is_read_in_one_pass(text):
    """Of the processor's time: by expressions that look for an end from each beginning it was minutes."""
    text = (text * (MOST_BYTES // len(text)))[:MOST_BYTES]
    began = time.process_time()
    without_comments(text)
    line_of(Symbol("none", "none", "OBJECT", 4, ".bss"), text)
    with suppress(Failed):
        rules.check(without_strings(text), "")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/* " * 80_000, "unterminated comment"),
        ("#define A x x x x x x x x\n#define B A A A A A A A A\n" + "B " * 20_000, "macros"),
        (f"int {'n' * 1000};", "more than 200 characters"),
        (f'const char* s = R"(\n# {"9" * 5000} "kernel.cu"\n)";', "of the kind R"),
    ],
    ids=["comment", "macros", "name", "marker"],
)
def test_a_text_without_measure(text, words, exercises):
    with pytest.raises(Failed) as failed:
        read(text, exercises["02_coalescing"].starter)
    assert words in failed.value.finding.says


def test_what_steers_a_terminal_is_spelt_out():
    said = show(Finding("rule", "It is \x1b[2J.", 2, ["b\x07"]), "it.cu", "\x0c\n\ta\t= \x1b[31m \u202e;\n")
    assert "\n        2 | a = \\x1b[31m \\u202e;\n" in said
    assert "It is \\x1b[2J." in said
    assert "b\\x07" in said


@pytest.fixture
def slow(exercises):
    """A kernel that is right and takes a part of a second for every problem, which no limit of one ends."""
    source = exercises["02_coalescing"].solution.replace("  float sum = 0.0f;", f"{SPIN}  float sum = 0.0f;")
    return source.replace("(beta", "(spun == 7.0f ? 0.0f : beta").replace("sum += ", "sum += spun * 0.0f + ")


def test_all_problems_together_have_a_limit(exercises, build, monkeypatch, slow):
    monkeypatch.setattr(budget, "FILE_S", 3)
    monkeypatch.setattr(budget, "MOST_WAITING", 1)
    grade = Grader(exercises["02_coalescing"], build, "cpu", seed=1).grade(slow, "it.cu")
    assert grade.finding.code == "time", grade.finding
    assert "all problems together may take 3 s" in grade.finding.says
    assert grade.seconds < 60


def damaged(path, text, damage):
    with zipfile.ZipFile(path, "w", damage if isinstance(damage, int) else zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("02_coalescing.cu", text)
        start = 30 + len("02_coalescing.cu")
    data = bytearray(path.read_bytes())
    if damage == "stream":
        data[start : start + 40] = b"\xff" * 40
    elif damage == "short":
        at = data.rindex(b"PK\x01\x02")
        data[at + 20 : at + 24] = (20).to_bytes(4, "little")  # of the compressed bytes
    path.write_bytes(data)


@pytest.fixture
def a_class(tmp_path, exercises, build, monkeypatch):
    """Grades a class of one good student and one of each kind of hostile hand-in."""
    right = exercises["02_coalescing"].solution
    files = {
        "Ada": right,
        "class": right.replace("k < g.K", "k < g.K - 1 /* \x1b[2J */"),
        FORGED: "/* " * 80_000,
        LONG: ";launch(" * 30_000,
        BYTES: right + names("// n{}\n")[:60_000],
        "deep": "{" * 200_000,
    }
    hand_ins = tmp_path / "hand-ins"
    for name, text in files.items():
        (hand_ins / name).mkdir(parents=True)
        (hand_ins / name / "02_coalescing.cu").write_text(text)
    for damage in ("stream", "short", zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        damaged(hand_ins / f"zip {damage}.zip", right, damage)
    chosen = [exercises["02_coalescing"], exercises["two_bounds"]]

    def grade(say=lambda text: None):
        return chosen, grade_class(
            hand_ins, tmp_path / "out", chosen, build, jobs=2, device="cpu", seed=7, say=say
        )

    grade.out = tmp_path / "out"
    return grade


def test_a_class_that_is_stopped_goes_on(a_class, monkeypatch):
    """Among hostile hand-ins, of which none costs another its grade."""

    def stop(text):
        if text.startswith("Ada"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        a_class(stop)
    assert (a_class.out / "Ada.txt").exists()
    assert not (a_class.out / "class.csv").exists()
    said = []
    chosen, rows = a_class(said.append)
    assert "Ada: 1 of 2 points, as graded before" in said
    found = {row.hand_in.name: row for row in rows}
    assert [name for name, row in found.items() if row.points(chosen)] == ["Ada", r"\udcff\udcfebytes"]
    assert found["class"].grades["02_coalescing"].finding.code == "wrong result"
    assert found["class"].spent > 0
    zips = [found[name].hand_in.ignored for name in found if name.startswith("zip")]
    assert [path for ignored in zips for path, _ in ignored] == ["02_coalescing.cu"] * 4
    lines = table(rows, chosen).splitlines()
    assert len(lines) == 1 + len(rows)
    assert not any("\x1b" in text or "\n" in text for text in [*lines, *said])
    stems = {path.stem for path in a_class.out.glob("*.txt")}
    assert len(stems) == len(rows)
    assert "class" not in stems
    # Nothing is graded again.
    before = {path.name: path.read_bytes() for path in a_class.out.iterdir()}
    monkeypatch.setattr(class_report, "grade_file", None)
    a_class()
    assert {path.name: path.read_bytes() for path in a_class.out.iterdir()} == before


def test_the_rest_of_a_hand_in_is_not_run(exercises, build):
    exercise = exercises["02_coalescing"]
    spent = budget.Budget(spent=budget.HAND_IN_S)
    finding = Grader(exercise, build, "cpu", 1, spent).grade(exercise.solution, "it.cu").finding
    assert finding.code == "time"
    assert "all files of a hand-in" in finding.says


@pytest.mark.parametrize(
    ("page", "limit"),
    [
        ("teaching.md", f"({run.SECONDS} s of processor time, and {run.SECONDS_XRAY} s for its X-ray)"),
        ("teaching.md", f"{budget.FILE_S} s in all"),
        ("teaching.md", f"{budget.HAND_IN_S // 60} minutes"),
        ("exercises.md", {60: "more than a minute"}.get(budget.FILE_S, "?")),
    ],
)
def test_the_pages_say_the_limits(page, limit):
    if budget.PATIENCE == 1:
        assert limit in (ROOT / "docs" / page).read_text(encoding="utf-8")
