"""Grades a class: every hand-in, several at a time, and what the teacher gets of it. Standard library only.

OUT/NAME.txt    the messages, in the words that the student would see
OUT/NAME.json   points, failure codes and points of each question; written when a student is done, and what
                was written is not graded again
OUT/class.csv   a row for each student, and OUT/class.json the same for programs
OUT/grades.csv  if there is a roster: what Moodle or Canvas imports
"""

import csv
import hashlib
import io
import os
import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from tools.base import UsageError, aligned, read_json, write_json, write_whole
from tools.grading.budget import Budget
from tools.grading.content import Exercise
from tools.grading.finding import Failed, Finding, Grade, show, wrapped
from tools.grading.grader import grade_file
from tools.grading.hand_ins import HandIn, read_hand_ins
from tools.grading.roster import Deadline, Roster, Student
from tools.grading.source import read
from tools.grading.state import version_of

Graded = dict[tuple[str, str], tuple[str, Grade]]  # of an exercise and code: whose it was, and what it got
WIDEST = 40  # characters of a name in the table
BLANK = Finding("not handed in", "Nothing was handed in.")


@dataclass
class Row:
    """A student's result. grades: by exercise; student: of the roster; late:
    hours, None if there is no deadline; kept: the share of the points that lateness leaves. made_of: what the
    result depends on; codes: a short name of each file's code; spent: seconds of its programs; before: graded
    by an earlier call."""

    hand_in: HandIn
    seed: int
    student: Student | None = None
    late: float | None = None
    kept: float = 1
    made_of: str = ""
    spent: float = 0
    codes: dict[str, str] = field(default_factory=dict)
    grades: dict[str, Grade] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    before: bool = False
    same_code_as: dict[str, str] = field(default_factory=dict)

    def text(self, exercise: Exercise) -> str | None:
        """The file, if it was handed in and is text."""
        if exercise.name not in self.texts:
            with suppress(UnicodeDecodeError, KeyError):
                self.texts[exercise.name] = self.hand_in.files[exercise.file_name].decode()
        return self.texts.get(exercise.name)

    def points_of(self, exercise: Exercise) -> float:
        """All for what is passed, of a prediction as much as is right."""
        grade = self.grades.get(exercise.name, Grade(BLANK))
        of = {question.id: question.weight for question in exercise.questions}
        right = sum(weight for name, weight in of.items() if grade.questions.get(name))
        share = right / sum(of.values()) if of else 0
        return exercise.points if grade.passed else round(exercise.points * share, 2)

    def points(self, exercises: list[Exercise]) -> float:
        return round(self.kept * sum(self.points_of(exercise) for exercise in exercises), 2)

    def score(self, exercises: list[Exercise]) -> float:
        return round(100 * self.points(exercises) / most_points(exercises), 1)

    def summary(self, exercises: list[Exercise]) -> str:
        """ "3 of 4 points, 26 hours late"."""
        late = f", {self.late:.1f} hours late" if self.late else ""
        return f"{self.points(exercises):g} of {most_points(exercises):g} points{late}"


def most_points(exercises: list[Exercise]) -> float:
    return sum(exercise.points for exercise in exercises)


def _rows(hand_ins: list[HandIn], roster: Roster | None, deadline: Deadline, seed: int) -> list[Row]:
    """Of all who have handed in, by the names of the roster where there is one, and of all others in it."""
    rows, taken = [], set[str]()
    for hand_in in hand_ins:
        student = roster.find(hand_in.name) if roster else None
        if student and student.name in taken:
            student = None
        if student:
            taken.add(student.name)
            hand_in.name = student.name
        modified = None
        with suppress(ValueError, OverflowError, OSError):  # of a year that there is not
            modified = datetime.fromtimestamp(hand_in.modified).astimezone() if hand_in.modified else None
        late = deadline.hours_late(student, modified)
        number = random.Random(f"{seed} {hand_in.name}").getrandbits(31)
        rows.append(Row(hand_in, number, student, late, deadline.kept(late)))
    missing = [s for s in roster.students if s.name not in taken] if roster else []
    rows += [Row(HandIn(student.name), 0, student) for student in missing]
    names = set[str]()
    for row in rows:  # results are kept by name
        while row.hand_in.name in names:
            row.hand_in.name += " (another)"
        names.add(row.hand_in.name)
    return sorted(rows, key=lambda row: row.hand_in.name) if roster else rows


def grade_class(
    folder: Path, out: Path, exercises: list[Exercise], build: Path, *, jobs: int, device: str, seed: int,
    say: Callable[[str], None], roster: Roster | None = None, deadline: Deadline | None = None,
    assignment: str = "", known: list[Exercise] | None = None,
) -> list[Row]:  # fmt: skip
    """Grades all hand-ins of a folder and writes the results. seed: of the hidden problems, which differ from
    student to student; the same code of two students is graded once; assignment: what Canvas calls it; known:
    exercises whose files are no strangers, though others are graded. Raises UsageError before anything is
    graded."""
    hand_ins, ignored = read_hand_ins(folder, known or exercises)
    if out.resolve() == folder.resolve():
        raise UsageError("--out is the folder of the hand-ins; give another")
    if roster:
        roster.with_grades({}, 1, {}, assignment)
    out.mkdir(parents=True, exist_ok=True)
    for name, why in ignored:
        say(f"ignored: {name}: {why}")
    rows = _rows(hand_ins, roster, deadline or Deadline(), seed)
    for row in rows:
        if roster and row.student is None:
            say(f"not in the roster, or twice there: {row.hand_in.name}")
    version = _version(exercises, build, device)
    graded: Graded = {}
    pool = ThreadPoolExecutor(jobs)
    os.environ["CPU_DEVICE_CORES"] = str(max((os.cpu_count() or 1) // jobs, 1))  # of each job
    try:
        tasks: dict[str, dict[str, Future[Grade]]] = {}
        for row in rows:
            _read(row, exercises, version)
            row.before = _keeps(row, out, exercises, graded)
        for row in (row for row in rows if not row.before):
            tasks[row.hand_in.name] = {
                exercise.name: pool.submit(grade_one, row, exercise, build, device, graded)
                for exercise in exercises
                if exercise.file_name in row.hand_in.files
            }
        for row in rows:
            if not row.before:
                row.grades = {name: task.result() for name, task in tasks[row.hand_in.name].items()}
                write_whole(out / f"{row.hand_in.stem}.txt", _messages(row, exercises))
                write_json(out / f"{row.hand_in.stem}.json", _record(row, exercises))
            before = ", as graded before" if row.before else ""
            say(f"{row.hand_in.name}: {row.summary(exercises)}{before}")
    finally:
        pool.shutdown(cancel_futures=True)  # of a class that was stopped, too
    write_json(out / "class.json", {"seed": seed, "students": [_record(row, exercises) for row in rows]})
    write_whole(out / "class.csv", _csv(rows, exercises))
    if roster:
        in_time = {row.student.name: row for row in rows if row.student and row.hand_in.files}
        points = {name: row.points(exercises) for name, row in in_time.items()}
        says = {name: _feedback(row, exercises) for name, row in in_time.items()}
        back = roster.with_grades(points, most_points(exercises), says, assignment)
        write_whole(out / "grades.csv", back)
    return rows


# ---- What was graded before ------------------------------------------------------------------------------


def _version(exercises: list[Exercise], build: Path, device: str) -> str:
    """Of all that grades depend on beside the hand-ins: the exercises, and what grades them."""
    tools = [
        *sorted(Path(__file__).parent.glob("*.*")),
        build / "common/judge/judge",
        build / "common/judge/worker",
    ]
    stamps = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in tools if path.exists()]
    texts = [(exercise, exercise.starter) for exercise in exercises]
    return version_of(repr((device, stamps, texts)))


def _read(row: Row, exercises: list[Exercise], version: str) -> None:
    hand_in = row.hand_in
    hashes = [(name, hashlib.sha256(data).hexdigest()) for name, data in sorted(hand_in.files.items())]
    row.made_of = version_of(repr((version, row.seed, row.late, row.kept, hashes, hand_in.ignored)))
    for exercise in exercises:
        row.text(exercise)


def _keeps(row: Row, out: Path, exercises: list[Exercise], graded: Graded) -> bool:
    """Whether the student was graded before, and nothing has changed since. Takes the grades over."""
    try:
        record = read_json(out / f"{row.hand_in.stem}.json")
        if record["made_of"] != row.made_of:
            return False
        for entry in (entry for entry in record["exercises"] if entry["failure"] != BLANK.code):
            name, found = entry["exercise"], None
            if entry["failure"]:
                found = Finding(*(entry[key] for key in ("failure", "says", "line", "details", "look")))
            grade = Grade(found, entry["notes"], entry["device"], entry["seconds"], entry["questions"])
            row.grades[name] = grade
            if entry["same_code_as"]:
                row.same_code_as[name] = entry["same_code_as"]
            if entry["code"]:
                row.codes[name] = entry["code"]
                graded.setdefault((name, entry["code"]), (entry["same_code_as"] or row.hand_in.name, grade))
    except (UsageError, LookupError, TypeError):
        return False
    return True


# ---- Grading ---------------------------------------------------------------------------------------------


def grade_one(row: Row, exercise: Exercise, build: Path, device: str, graded: Graded) -> Grade:
    """One file; whatever happens, the others are graded."""
    name = exercise.name
    if (source := row.text(exercise)) is None:
        return Grade(Finding("unreadable", "The file is not text in UTF-8."))
    try:
        if exercise.kind == "predict":
            return grade_file(exercise, build, source, "")
        # With the same lines in the same places, as a finding names one.
        lines = [line.rstrip(" \t") for line in read(source, exercise.starter).text.rstrip().split("\n")]
        key = name, version_of("\n".join(lines))
        row.codes[name] = key[1]
        if key in graded:
            row.same_code_as[name], result = graded[key]
            return result
        budget = Budget(row.spent)
        result = grade_file(exercise, build, source, exercise.file_name, device, row.seed, budget, False)
        row.spent += result.seconds
        if budget.is_whole:
            graded[key] = row.hand_in.name, result
        return result
    except Failed as failed:
        return Grade(failed.finding)
    except UsageError as error:
        return Grade(Finding("not graded", f"It could not be graded here: {error}"))
    except Exception as error:  # one hand-in must not end the class
        return Grade(Finding("not graded", f"The grader failed: {type(error).__name__}: {error}"))


def _record(row: Row, exercises: list[Exercise]) -> dict[str, Any]:
    """What class.json holds of a student."""
    entries = []
    for exercise in exercises:
        grade = row.grades.get(exercise.name) or Grade(BLANK)
        found = grade.finding
        entry: dict[str, Any] = {
            "exercise": exercise.name, "kind": exercise.kind, "passed": grade.passed,
            "points": row.points_of(exercise), "of": exercise.points,
            "failure": found.code if found else None, "line": found.line if found else None,
            "says": found.says if found else None, "questions": grade.questions,
            "details": found.details if found else [], "look": found.look if found else "",
            "notes": grade.notes, "code": row.codes.get(exercise.name),
            "seconds": round(grade.seconds, 1), "device": grade.device,
            "same_code_as": row.same_code_as.get(exercise.name),
            "version": version_of(row.texts[exercise.name]) if exercise.name in row.texts else None,
        }  # fmt: skip
        entries.append(entry)
    ignored = [{"file": path, "why": why} for path, why in row.hand_in.ignored]
    return {
        "name": row.hand_in.name, "seed": row.seed, "made_of": row.made_of,
        "points": row.points(exercises), "of": most_points(exercises), "score": row.score(exercises),
        "hours_late": row.late,
        "ignored": ignored, "exercises": entries,
    }  # fmt: skip


def message(row: Row, exercise: Exercise, grade: Grade) -> str:
    """What the student would see."""
    lines = []
    if grade.passed or exercise.kind == "predict":
        lines += [wrapped(note, "  + ", "    ") for note in grade.notes]
    if grade.finding:
        lines.append(show(grade.finding, exercise.file_name, row.texts.get(exercise.name, "")))
    return "\n".join(lines)


def _messages(row: Row, exercises: list[Exercise]) -> str:
    lines = [f"{row.hand_in.name}: {row.summary(exercises)}", ""]
    lines += [f"ignored: {path}: {why}" for path, why in row.hand_in.ignored]
    missing = [exercise.name for exercise in exercises if exercise.name not in row.grades]
    lines += [f"not handed in: {', '.join(missing)}", ""] if missing else []
    for exercise in exercises:
        if (grade := row.grades.get(exercise.name)) is None:
            continue
        lines.append(f"{exercise.name}: {'passed' if grade.passed else 'not yet'}")
        lines += [message(row, exercise, grade), *([""] if grade.finding else [])]
    return "\n".join(lines) + "\n"


def _feedback(row: Row, exercises: list[Exercise]) -> str:
    """One line for the student."""
    each = (f"{e.name} {row.points_of(e):g} of {e.points:g}" for e in exercises)
    return f"{row.summary(exercises)}: {', '.join(each)}"


def _csv(rows: list[Row], exercises: list[Exercise]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [exercise.name for exercise in exercises]
    writer.writerow(["name", "score", "points", "hours_late", *names])
    for row in rows:
        cells = [f"{row.points_of(e):g}" if e.name in row.grades else "" for e in exercises]
        late = "" if row.late is None else f"{row.late:.1f}"
        head = [_harmless(row.hand_in.name), row.score(exercises), f"{row.points(exercises):g}", late]
        writer.writerow([*head, *cells])
    return out.getvalue()


def _harmless(name: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{name}" if name.startswith(tuple("=+-@\t\r")) else name


def _cut(name: str) -> str:
    return name if len(name) <= WIDEST else f"{name[: WIDEST - 1]}…"


def table(rows: list[Row], exercises: list[Exercise]) -> str:
    """For the teacher: who has what, and whose code is the same."""
    lines = [["student", "points", "score", "handed in", "same code as"]]
    for row in rows:
        same = ", ".join(f"{_cut(mate)}, {name}" for name, mate in row.same_code_as.items())
        points = [f"{row.points(exercises):g}", f"{row.score(exercises)} %", str(len(row.grades))]
        lines.append([_cut(row.hand_in.name), *points, same or "-"])
    return aligned(lines)
