"""A class with one command: what is found in hand-ins, what is ignored, and what the teacher gets."""

import csv
import json
import os
import zipfile

import pytest
from tools.grading.hand_ins import read_hand_in
from tools.grading.predict import solution_of


def zipped(path, files, link=""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        if link:
            entry = zipfile.ZipInfo(link)
            entry.external_attr = 0o120777 << 16
            archive.writestr(entry, "/etc/passwd")


@pytest.fixture(scope="module")
def graded(build, exercises, tmp_path_factory):
    """A class that was graded: the folder of the results, and what was said."""
    from conftest import Student

    folder = tmp_path_factory.mktemp("class")
    hand_ins = folder / "submissions"
    right = exercises["02_coalescing"].solution
    answers = solution_of(exercises["two_bounds"], build)
    (hand_ins / "Ada" / "work").mkdir(parents=True)
    (hand_ins / "Ada" / "work" / "02_coalescing.cu").write_text(right)
    (hand_ins / "Ada" / "two_bounds.toml").write_text(answers)
    student = Student(build, folder)
    tiles = exercises["03_shared_memory"].solution
    (hand_ins / "Ada" / "03_shared_memory.cu").write_text(tiles)
    zipped(
        hand_ins / 'Lovelace, "Eva".zip',
        {"eva/03_shared_memory.cu": tiles + "// mine\n", "../evil.cu": "x"},
        link="eva/01_naive.cu",
    )
    (hand_ins / "=cmd").mkdir()
    wrong = right.replace("k < g.K", "k < g.K - 1")
    (hand_ins / "=cmd" / "02_coalescing.cu").write_text(wrong)
    (hand_ins / "later").mkdir()
    (hand_ins / "later" / "02_coalescing.cu").write_text(f"\n\n// mine\n{wrong}")
    odd = hand_ins / "odd"
    (odd / "a" / "b" / "c").mkdir(parents=True)
    (odd / "a" / "b" / "01_naive.cu").write_text(right)
    (odd / "a" / "b" / "c" / "02_coalescing.cu").write_text(right)
    os.mkfifo(odd / "03_shared_memory.cu")
    (odd / "02_coalescing.cu").symlink_to("/etc/passwd")
    (odd / "04_1d_tiling.cu").write_text("\n" * 300_000)
    (odd / "05_2d_tiling.cu").mkdir()
    (odd / "notes.txt").write_text("hello")
    (odd / "06_vectorization.cu").write_bytes(b"\xff\xfe")
    zipped(hand_ins / "bomb.zip", {"02_coalescing.cu": b"\0" * (1 << 27)})
    (hand_ins / "broken.zip").write_text("no archive")
    (hand_ins / "link").symlink_to("/etc")
    out = folder / "graded"
    said = student("grade", hand_ins, "--out", out, "--device", "cpu", "--seed", 7, "--jobs", 1)
    return out, said


def record(graded, name):
    return json.loads((graded[0] / f"{name}.json").read_text())


def entry(graded, name, exercise):
    return next(e for e in record(graded, name)["exercises"] if e["exercise"] == exercise)


def test_what_is_written(graded, exercises):
    out, said = graded
    assert said.returncode == 0, said.stderr
    names = ["=cmd", "Ada", 'Lovelace, "Eva"', "bomb", "later", "odd"]
    assert {path.stem for path in out.glob("*.txt")} == set(names)
    rows = list(csv.DictReader((out / "class.csv").open(newline="")))
    assert sorted(row["name"] for row in rows) == sorted(["'=cmd", *names[1:]])  # no formula
    ada = next(row for row in rows if row["name"] == "Ada")
    assert (ada["points"], ada["02_coalescing"]) == ("3", "1")
    whole = json.loads((out / "class.json").read_text())
    assert whole["seed"] == 7
    assert len({student["seed"] for student in whole["students"]}) == len(names)
    assert [len(student["exercises"]) for student in whole["students"]] == [len(exercises)] * len(names)
    assert "Ada " in said.stdout
    assert "--seed 7" in said.stdout
    assert not list(out.parent.rglob("evil.cu"))


def test_points_and_codes(graded):
    assert entry(graded, "Ada", "two_bounds")["questions"] == dict.fromkeys(
        ["gflop", "megabytes", "arithmetic_us", "memory_us", "k_at_the_ridge"], True
    )
    assert entry(graded, "Ada", "02_coalescing")["passed"]
    wrong = entry(graded, "=cmd", "02_coalescing")
    assert (wrong["failure"], wrong["points"]) == ("wrong result", 0)
    later = entry(graded, "later", "02_coalescing")
    assert (later["failure"], later["line"]) == ("wrong result", wrong["line"] + 3)  # its own line
    assert "the last term is missing" in (graded[0] / "=cmd.txt").read_text()
    assert entry(graded, "odd", "06_vectorization")["failure"] == "unreadable"


def test_the_same_code_is_graded_once(graded):
    """Another comment makes no other code."""
    mine, other = (entry(graded, name, "03_shared_memory") for name in ("Ada", 'Lovelace, "Eva"'))
    assert mine["passed"]
    assert other["passed"]
    assert [mine["same_code_as"], other["same_code_as"]] == [None, "Ada"]
    assert "Ada, 03_shared_memory" in graded[1].stdout


@pytest.mark.parametrize(
    ("name", "file", "why"),
    [
        ('Lovelace, "Eva"', "../evil.cu", "no exercise's file"),
        ('Lovelace, "Eva"', "eva/01_naive.cu", "a link"),
        ("odd", "a/b/01_naive.cu", "more than one folder down"),
        ("odd", "a/b/c", "more than one folder down"),
        ("odd", "02_coalescing.cu", "a link"),
        ("odd", "03_shared_memory.cu", "no regular file"),
        ("odd", "04_1d_tiling.cu", "300,000 bytes"),
        ("odd", "notes.txt", "no exercise's file"),
        ("bomb", "02_coalescing.cu", "134,217,728 bytes"),
    ],
)
def test_what_is_ignored(graded, name, file, why):
    ignored = {thing["file"]: thing["why"] for thing in record(graded, name)["ignored"]}
    assert why in ignored.get(file, str(ignored))


def test_what_is_no_hand_in(graded):
    assert "broken.zip: it is neither a folder nor a zip file" in graded[1].stdout
    assert "link: it is a link" in graded[1].stdout


def test_usage(student, tmp_path):
    student.refused("grade", tmp_path / "none", "--out", tmp_path / "out", words=["is no folder"])
    student.refused("grade", tmp_path, "--out", tmp_path / "out", words=["holds no folder"])
    (tmp_path / "a").mkdir()
    student.refused("grade", tmp_path, "--out", tmp_path, words=["give another"])
    student.refused("grade", tmp_path, "--out", tmp_path / "out", "--jobs", 0, words=["--jobs is 0"])
    assert not (tmp_path / "out").exists()


def test_the_one_zip_file_in_a_folder_is_opened(exercises, tmp_path):
    """As Moodle gives it."""
    folder = tmp_path / "Anna Muster_12345_assignsubmission_file_"
    folder.mkdir()
    zipped(folder / "mine.zip", {"my_exercises/02_coalescing.cu": "mine"})
    assert read_hand_in(folder, [*exercises.values()]).files == {"02_coalescing.cu": b"mine"}
