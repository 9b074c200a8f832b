"""The report: right on a half-done state, graded from the state alone."""

import json


def test_report_of_nothing(student, exercises):
    result = student("report", "--json", "r.json")
    assert result.returncode == 0, result.stderr
    report = json.loads((student.folder / "r.json").read_text())
    assert [entry["exercise"] for entry in report["exercises"]] == list(exercises)
    assert report["score"] == 0
    assert report["totals"]["exercises"] == len(exercises)
    assert not student.workspace.exists()


def test_report_of_a_half_done_state(student, exercises):
    names = [e.name for e in exercises.values() if e.kind == "predict"]
    passed, changed, revealed, failed = (exercises[name] for name in names[:4])
    student.solves(passed)
    student("hint", changed.name)
    student("hint", changed.name)
    student("check", changed.name)
    student.solves(changed)
    path = student.workspace / changed.file_name
    path.write_text(path.read_text() + "# one more thing\n")
    student("solution", revealed.name, "--reveal")
    student.solves(revealed)
    student("check", failed.name)
    student("solution", "01_naive", "--reveal")
    before = (student.workspace / "state.json").read_bytes()

    result = student("report", "--json", "r.json")
    assert result.returncode == 0, result.stderr
    assert (student.workspace / "state.json").read_bytes() == before
    report = json.loads((student.folder / "r.json").read_text())
    found = {entry["exercise"]: entry for entry in report["exercises"]}
    assert list(found) == list(exercises)

    def row(exercise):
        entry = found[exercise.name]
        keys = ("kind", "passed", "revealed", "points", "hints_used", "attempts", "changed")
        return tuple(entry[key] for key in keys)

    assert row(passed) == ("predict", True, False, 1, 0, 1, False)
    assert row(changed) == ("predict", True, False, 1, 2, 2, True)
    assert row(revealed) == ("predict", True, True, 0, 0, 1, False)
    assert row(failed) == ("predict", False, False, 0, 0, 1, False)
    assert row(exercises["01_naive"]) == ("kernel", False, True, 0, 0, 0, False)
    assert row(exercises["02_coalescing"]) == ("kernel", False, False, 0, 0, 0, False)
    assert found[passed.name]["version"] == found[passed.name]["passed_version"]
    assert found[changed.name]["version"] != found[changed.name]["passed_version"]
    assert found[passed.name]["passed_at"].endswith("Z")
    assert found[failed.name]["passed_at"] is None
    assert found["02_coalescing"]["version"] is None
    assert report["totals"] == {
        "exercises": len(exercises),
        "passed": 3,
        "points": 2,
        "of": len(exercises),
        "revealed": 2,
        "changed": 1,
        "hints_used": 2,
        "attempts": 5,
    }
    assert report["score"] == round(200 / len(exercises), 1)
    assert f"2 of {len(exercises)} points, score {report['score']:g} %" in result.stdout
    assert sorted(path.name for path in student.folder.iterdir()) == ["r.json", "work"]


def test_a_file_that_is_gone_counts_as_changed(student, numbers):
    student.solves(numbers)
    (student.workspace / numbers.file_name).unlink()
    student("report", "--json", "r.json")
    report = json.loads((student.folder / "r.json").read_text())
    entry = next(e for e in report["exercises"] if e["exercise"] == numbers.name)
    assert (entry["passed"], entry["changed"], entry["version"]) == (True, True, None)
