"""The list of a class, as Moodle or Canvas exports it, or any CSV file: whose a hand-in is, when it came and
when it was due, and the grades as a CSV file that goes back. Standard library only.

Moodle    the grading worksheet of an assignment (or a list of participants, which gets a column `Grade`)
Canvas    the exported gradebook: what goes back has its columns of the student, and one of an assignment
others    a column `name`, or two for first and last name; what else stands there may name a hand-in, too

The columns `due` and `submitted` hold a student's own times, as 2026-12-01 23:59.
"""

import csv
import io
import math
import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tools.base import UsageError, printable, read_text

# What the services call a student's folder or file: name_number_assignsubmission_file_ and
# name_LATE_number_number-of-the-file_name-of-the-file.
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_.*", re.DOTALL)
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_.*", re.DOTALL)
MOODLE_TIMES = ("%A, %d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M")
NAMES = (("full name",), ("student",), ("name",), ("first name", "last name"), ("first name", "surname"),
         ("firstname", "lastname"))  # fmt: skip
IDS = ("identifier", "id", "id number", "sis user id", "sis login id", "username", "email address", "email")
OF_STUDENT = ("Student", "LastName", "FirstName", "ID", "SIS User ID", "SIS Login ID", "Integration ID",
              "Root Account", "Section")  # fmt: skip
NO_STUDENT = ("Student, Test", "Points Possible")  # of Canvas
OURS = "gemm-ladder"  # the assignment, if it has no other name


def time_of(text: str, what: str) -> datetime | None:
    """A time as Moodle writes it in English, or as 2026-12-01 23:59; without a zone it is this machine's.
    None for a blank or "-". Raises UsageError."""
    if (text := text.strip()) in ("", "-"):
        return None
    with suppress(ValueError):
        return datetime.fromisoformat(text).astimezone()
    for form in MOODLE_TIMES:
        with suppress(ValueError):
            return datetime.strptime(text, form).astimezone()
    raise UsageError(f"{what}: '{text}' is no time; write it as 2026-12-01 23:59")


def packed(name: str) -> str:
    """A name as it is compared: accents in one encoding, without capitals, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name).casefold())


@dataclass
class Student:
    """One row of the roster. ids: whatever may name a hand-in, packed."""

    name: str
    row: dict[str, str]
    ids: set[str]
    submitted: datetime | None = None
    due: datetime | None = None


@dataclass
class Deadline:
    """due: of all whose row of the roster does not say another; percent: of the points, taken off for each
    day begun after it."""

    due: datetime | None = None
    percent: float = 0

    def hours_late(self, student: Student | None, modified: datetime | None) -> float | None:
        """By the roster, else by the newest file's time stamp; None if there is no deadline, or no time."""
        due = (student and student.due) or self.due
        when = (student and student.submitted) or modified
        return max(0.0, (when - due).total_seconds() / 3600) if due and when else None

    def kept(self, hours: float | None) -> float:
        """The share of the points that remains."""
        return max(0.0, 1 - self.percent / 100 * math.ceil((hours or 0) / 24))


@dataclass
class Roster:
    """columns: in order, as the file names them; above: Canvas's rows that are no students."""

    path: Path
    columns: list[str]
    students: list[Student]
    above: list[dict[str, str]] = field(default_factory=list)

    @property
    def is_canvas(self) -> bool:
        return self.columns[0] in OF_STUDENT[:2] and "Section" in self.columns

    def find(self, hand_in: str) -> Student | None:
        """Whose hand-in this is, by the name of its folder or file: by a number that the service has put
        there, else by the whole name. None if it is nobody's, or could be of two."""
        for form in (MOODLE, CANVAS):
            if match := form.fullmatch(hand_in):
                by_number = [s for s in self.students if match["id"] in s.ids]
                return _only(by_number or self._named(match["name"]))
        return _only(self._named(hand_in))

    def _named(self, name: str) -> list[Student]:
        return [student for student in self.students if packed(name) in student.ids]

    def with_grades(self, points: dict[str, float], of: float, says: dict[str, str], assignment: str) -> str:
        """The CSV file for the service. points: by student; who is not named keeps what is there. says: a
        line of feedback. Raises UsageError."""
        columns, above, maximum = self.columns, self.above, ""
        if self.is_canvas:
            title = re.compile(rf"{re.escape(assignment or OURS)}( \(\d+\))?")
            grade = next((c for c in columns if title.fullmatch(c)), "")
            if assignment and not grade:
                raise UsageError(f"{self.path}: has no assignment '{assignment}'; leave out --assignment")
            columns = [c for c in columns if c in OF_STUDENT] + [grade := grade or OURS]
            above = above or [{columns[0]: "    Points Possible"}]
            maximum = next((row[grade] for row in above if row.get(grade, "")[:1].isdigit()), "")
            above = [{grade: f"{of:g}"} | row for row in above]
        else:
            grade = next((c for c in columns if c.casefold() == "grade"), "Grade")
            columns = columns if grade in columns else [*columns, grade]
        out = io.StringIO()
        writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(above)
        for student in self.students:
            row = dict(student.row)
            if student.name in points and row.get("Grade can be changed", "Yes") != "No":
                most = _number(maximum) or _number(row.get("Maximum Grade", "")) or of
                row[grade] = f"{points[student.name] / of * most:.2f}"
                if "Feedback comments" in columns:
                    row["Feedback comments"] = says[student.name]
            writer.writerow(row)
        return out.getvalue()


def _number(text: str) -> float:
    """0 for what is none, such as a scale's name."""
    with suppress(ValueError):
        return float(text.replace(",", "."))
    return 0


def _only(found: list[Student]) -> Student | None:
    return found[0] if len(found) == 1 else None


def read_roster(path: Path) -> Roster:
    """Raises UsageError."""
    text = read_text(path).removeprefix("\ufeff")
    first = text.split("\n", 1)[0]
    reader = csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=first.count), restval="")
    try:
        rows = [{key: value or "" for key, value in row.items() if key is not None} for row in reader]
    except csv.Error as error:
        raise UsageError(f"{path}: is no CSV file: {error}") from None
    columns = [name or "" for name in reader.fieldnames or []]
    known = {name.strip().casefold(): name for name in columns}
    parts = next((names for names in NAMES if set(names) <= known.keys()), None)
    if parts is None:
        raise UsageError(f"{path}: has no column for the name; it is called Full name, Student or name")
    roster = Roster(path, columns, [])
    taken: set[str] = set()
    for row in rows:
        if not (name := " ".join(row[known[part]].strip() for part in parts).strip()) or name in NO_STUDENT:
            roster.above += [] if name == NO_STUDENT[0] else [row]
            continue
        shown = printable(name).replace("/", "_")  # files are called like that
        if shown in taken:
            shown += f" ({next((row[known[i]] for i in IDS if row.get(known.get(i, ''))), len(taken))})"
        taken.add(shown)
        where = f"{path}: {name}"
        due = time_of(row.get(known.get("due", ""), ""), where)
        when = known.get("submitted") or known.get("last modified (submission)") or ""
        submitted = time_of(row.get(when, ""), where)
        roster.students.append(Student(shown, row, set(_ids(name, row, known)), submitted, due))
    if not roster.students:
        raise UsageError(f"{path}: holds no student")
    return roster


def _ids(name: str, row: dict[str, str], known: dict[str, str]) -> Iterator[str]:
    """Also "Muster, Anna" as "Anna Muster" and, as Canvas names files, the other way round."""
    last, _, first = (part.strip() for part in name.partition(","))
    words = name.split()
    for text in (name, f"{first} {last}", f"{words[-1]} {' '.join(words[:-1])}"):
        yield packed(text)
    for column in IDS:
        if text := row.get(known.get(column, ""), "").strip():
            yield packed(text.split("@")[0])
            yield packed(text)
            yield text.removeprefix("Participant ")
