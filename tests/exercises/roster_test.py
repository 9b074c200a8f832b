"""The list of a class: whose a hand-in is, how late it came, the grades that go back to Moodle and Canvas."""

import csv
import io
import json
import os
from dataclasses import replace

import pytest
from tools.base import UsageError
from tools.grading.class_report import BLANK, Row
from tools.grading.content import Question
from tools.grading.finding import Grade
from tools.grading.hand_ins import HandIn
from tools.grading.predict import solution_of
from tools.grading.roster import Deadline, read_roster, time_of

MOODLE = """\ufeffIdentifier,"Full name","Email address",Status,Grade,"Maximum Grade","Grade can be changed",\
"Last modified (submission)","Last modified (grade)","Feedback comments"
"Participant 12345","Anna Muster",anna@example.org,"Submitted for grading",,20.00,Yes,\
"Tuesday, 1 December 2026, 11:58 PM",-,
"Participant 777","Bert Beispiel",bert@example.org,"Submitted for grading",,20.00,Yes,\
"Wednesday, 2 December 2026, 12:29 AM",-,
"Participant 778","Carla Nichts",carla@example.org,"No submission",,20.00,Yes,-,-,
"Participant 779","Dora Fertig",dora@example.org,Graded,17.00,20.00,No,-,"Monday, 7 December 2026, 9:00 AM",
"""
CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,GEMM 1 (91),Other (92),Final Score
,,,,,Manual Posting,,
    Points Possible,,,,,10,5,(read only)
"Muster, Anna",4711,s1,amuster,Mon,,3,80
"Beispiel, Bert",4712,s2,bbeispiel,Tue,4,,70
"Student, Test",4799,,x,Mon,,,
"""


@pytest.fixture
def roster(tmp_path):
    def make(text):
        (tmp_path / "class.csv").write_text(text)
        return read_roster(tmp_path / "class.csv")

    return make


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    ("text", "hand_in", "name"),
    [
        (MOODLE, "Anna Muster_12345_assignsubmission_file_", "Anna Muster"),
        (MOODLE, "Anna Muster_12345_assignsubmission_file_my_exercises", "Anna Muster"),
        (MOODLE, "Renamed_777_assignsubmission_file_", "Bert Beispiel"),
        (MOODLE, "Participant_778_assignsubmission_file_", "Carla Nichts"),
        (MOODLE, "bert beispiel", "Bert Beispiel"),
        (MOODLE, "carla", "Carla Nichts"),  # of carla@example.org
        (MOODLE, "Zoe_1_assignsubmission_file_", None),
        (CANVAS, "musteranna_4711_678910_my_exercises", "Muster, Anna"),
        (CANVAS, "beispielbert_LATE_4712_678911_02_coalescing", "Beispiel, Bert"),
        (CANVAS, "Bert Beispiel", "Beispiel, Bert"),
        (CANVAS, "amuster", "Muster, Anna"),
        (CANVAS, "4799", None),
        ("First name;Surname;ID number\nAnna;Muster;9\nAnna;Muster;10\n", "10", "Anna Muster (10)"),
        ("First name;Surname;ID number\nAnna;Muster;9\nAnna;Muster;10\n", "Anna Muster", None),  # which?
    ],
)
def test_whose_a_hand_in_is(roster, text, hand_in, name):
    student = roster(text).find(hand_in)
    assert (student and student.name) == name


def test_grades_for_moodle(roster):
    """The worksheet as it was, but for the grades, of which no one else's is touched."""
    before = rows_of(MOODLE.removeprefix("\ufeff"))
    points = {"Anna Muster": 3, "Bert Beispiel": 0, "Dora Fertig": 1}
    after = rows_of(roster(MOODLE).with_grades(points, 4, dict.fromkeys(points, "said"), ""))
    assert [row.pop("Grade") for row in after] == ["15.00", "0.00", "", "17.00"]
    assert [row.pop("Feedback comments") for row in after] == ["said", "said", "", ""]
    for row in before:
        del row["Grade"], row["Feedback comments"]
    assert after == before


def test_grades_for_canvas(roster):
    said = roster(CANVAS).with_grades({"Muster, Anna": 3}, 4, {}, "GEMM 1")
    assert said.splitlines() == [
        "Student,ID,SIS User ID,SIS Login ID,Section,GEMM 1 (91)",
        ",,,,,Manual Posting",
        "    Points Possible,,,,,10",
        '"Muster, Anna",4711,s1,amuster,Mon,7.50',
        '"Beispiel, Bert",4712,s2,bbeispiel,Tue,4',
    ]
    new = roster(CANVAS).with_grades({"Muster, Anna": 3}, 4, {}, "")
    assert new.splitlines()[2:4] == ["    Points Possible,,,,,4", '"Muster, Anna",4711,s1,amuster,Mon,3.00']
    with pytest.raises(UsageError, match="no assignment 'GEMM 2'"):
        roster(CANVAS).with_grades({}, 4, {}, "GEMM 2")


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "name\n", "name,due\nAnna,tomorrow\n"])
def test_what_is_no_roster(roster, text):
    with pytest.raises(UsageError):
        roster(text)


def test_lateness():
    deadline = Deadline(time_of("2026-12-01 23:59", ""), 10)
    assert deadline.hours_late(None, time_of("Wednesday, 2 December 2026, 2:29 AM", "")) == 2.5
    assert deadline.hours_late(None, time_of("2026-12-01 12:00", "")) == 0
    assert deadline.hours_late(None, None) is None
    assert [deadline.kept(hours) for hours in (None, 0.0, 0.1, 24, 25, 999)] == [1, 1, 0.9, 0.9, 0.8, 0]


def test_weights(exercises):
    questions = [Question("a", "?", "1", "", weight=3), Question("b", "?", "1", "")]
    exercise = replace(exercises["two_bounds"], points=2, questions=questions)
    row = Row(HandIn("Anna"), 1, grades={"two_bounds": Grade(BLANK, questions={"a": True, "b": False})})
    assert row.points_of(exercise) == 1.5
    assert row.points_of(replace(exercise, name="another")) == 0


def test_a_class_with_a_roster(student, exercises, build, tmp_path):
    """Predictions alone, which are graded at once. The older file was in time."""
    answers = solution_of(exercises["two_bounds"], build)
    roster = tmp_path / "roster.csv"
    roster.write_text("name,due\nAnna,\nBert,\nCarla,\nDora,2026-12-24 12:00\n")
    for name, time in (("anna", 1), ("bert", 2_000_000_000), ("Dora", 1), ("stranger", 1)):
        file = tmp_path / "class" / name / "two_bounds.toml"
        file.parent.mkdir(parents=True)
        file.write_text(answers)
        (file.parent / "sectors.toml").write_text("")  # of another week
        os.utime(file, (time, time))
        os.utime(file.parent / "sectors.toml", (1, 1))
    options = ("--exercises", "two_bounds", "--roster", roster, "--due", "2026-12-01 23:59", "--late", 100)
    said = student("grade", tmp_path / "class", "--out", tmp_path / "out", *options)
    assert said.returncode == 0, said.stderr
    assert "not in the roster, or twice there: stranger" in said.stdout
    rows = {row["name"]: row for row in csv.DictReader((tmp_path / "out" / "class.csv").open(newline=""))}
    assert {name: row["score"] for name, row in rows.items()} == {
        "Anna": "100.0",
        "Bert": "0.0",
        "Carla": "0.0",
        "Dora": "100.0",
        "stranger": "100.0",
    }
    assert float(rows["Bert"]["hours_late"]) > 1000
    assert rows["Carla"]["two_bounds"] == ""
    anna = json.loads((tmp_path / "out" / "Anna.json").read_text())
    assert (anna["of"], anna["ignored"]) == (1, [])
    back = rows_of((tmp_path / "out" / "grades.csv").read_text())
    assert [(row["name"], row["Grade"]) for row in back] == [
        ("Anna", "1.00"),
        ("Bert", "0.00"),
        ("Carla", ""),
        ("Dora", "1.00"),
    ]
    student.refused("grade", tmp_path / "class", "--out", tmp_path / "o", "--due", "soon", words=["no time"])
    student.refused("grade", tmp_path / "class", "--out", tmp_path / "o", "--exercises", "x", words=["'x'"])
