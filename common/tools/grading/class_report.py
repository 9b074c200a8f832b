"""Grades a class: every hand-in, several at a time, and what the teacher gets of it. Standard library only.

OUT/NAME.txt    the messages, in the words that the student would see
OUT/NAME.json   points, failure codes and points of each question; written when a student is done, and what
                was written is not graded again
OUT/class.csv   a row for each student, and OUT/class.json the same for programs
"""

import csv
import hashlib
import io
import random
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import UsageError, aligned, read_json, write_json, write_whole
from tools.grading.budget import Budget
from tools.grading.content import Exercise
from tools.grading.finding import Failed, Finding, Grade, show, wrapped
from tools.grading.grader import grade_file
from tools.grading.hand_ins import HandIn, read_hand_ins, similarity, words_of
from tools.grading.source import read
from tools.grading.state import STATE, Progress, parse_state, version_of

Graded = dict[tuple[str, str], tuple[str, Grade]]  # of an exercise and code: whose it was, and what it got
WIDEST = 40  # characters of a name in the table
TOLD = ("hints", "attempts", "revealed")  # by state.json
BLANK = Finding("not handed in", "Nothing was handed in.")


@dataclass
class Row:
    """A student's result. made_of: what it depends on; grades: by exercise; codes: a short name of each
    file's code; progress: as state.json says; spent: seconds of its programs; before: graded by an earlier
    call."""

    hand_in: HandIn
    seed: int
    made_of: str = ""
    spent: float = 0
    codes: dict[str, str] = field(default_factory=dict)
    grades: dict[str, Grade] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    before: bool = False
    alike: dict[str, dict[str, Any]] = field(default_factory=dict)
    same_code_as: dict[str, str] = field(default_factory=dict)

    @property
    def points(self) -> float:
        return sum(grade.points for grade in self.grades.values())

    def score(self, exercises: list[Exercise]) -> float:
        return round(100 * self.points / len(exercises), 1)

    def told(self, blank: str) -> list[str]:
        """What state.json says of all exercises; blank: if there is none."""
        progress = self.progress.values()
        return [str(sum(getattr(p, what) for p in progress)) if progress else blank for what in TOLD]

    def most_alike(self, to: str) -> tuple[str, dict[str, Any]]:
        """The exercise in which the row is most similar to the solution, or to a classmate."""
        none = "", {"to_solution": 0, "to_classmate": 0, "classmate": ""}
        return max(self.alike.items(), key=lambda item: item[1][to], default=none)


def grade_class(
    folder: Path, out: Path, exercises: list[Exercise], build: Path, *, jobs: int, device: str, seed: int,
    say: Callable[[str], None],
) -> list[Row]:  # fmt: skip
    """Grades all hand-ins of a folder and writes the results. seed: of the hidden problems, which differ from
    student to student; the same code of two students is graded once. Raises UsageError before anything is
    graded."""
    hand_ins, ignored = read_hand_ins(folder, exercises)
    if out.resolve() == folder.resolve():
        raise UsageError("--out is the folder of the hand-ins; give another")
    out.mkdir(parents=True, exist_ok=True)
    for name, why in ignored:
        say(f"ignored: {name}: {why}")
    rows = [Row(hand_in, random.Random(f"{seed} {hand_in.name}").getrandbits(31)) for hand_in in hand_ins]
    version = _version(exercises, build, device)
    graded: Graded = {}
    pool = ThreadPoolExecutor(jobs)
    try:
        tasks: dict[str, dict[str, Future[Grade]]] = {}
        for row in rows:
            _read(row, exercises, version)
            row.before = _keeps(row, out, exercises, graded)
        for row in (row for row in rows if not row.before):
            tasks[row.hand_in.name] = {
                exercise.name: pool.submit(_grade, row, exercise, build, device, graded)
                for exercise in exercises
                if exercise.file_name in row.hand_in.files
            }
        for row in rows:
            if not row.before:
                row.grades = {name: task.result() for name, task in tasks[row.hand_in.name].items()}
                write_whole(out / f"{row.hand_in.stem}.txt", _messages(row, exercises))
                write_json(out / f"{row.hand_in.stem}.json", _record(row, exercises))
            kept = ", as graded before" if row.before else ""
            say(f"{row.hand_in.name}: {row.points:g} of {len(exercises)} points{kept}")
    finally:
        pool.shutdown(cancel_futures=True)  # of a class that was stopped, too
    _compare(rows, exercises)
    for row in rows:
        write_json(out / f"{row.hand_in.stem}.json", _record(row, exercises))
    write_json(out / "class.json", {"seed": seed, "students": [_record(row, exercises) for row in rows]})
    write_whole(out / "class.csv", _csv(rows, exercises))
    return rows


# ---- What was graded before ------------------------------------------------------------------------------


def _version(exercises: list[Exercise], build: Path, device: str) -> str:
    """Of all that grades depend on beside the hand-ins: the exercises, and what grades them."""
    tools = [*sorted(Path(__file__).parent.glob("*.*")), build / "common/judge/judge"]
    stamps = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in tools if path.exists()]
    return version_of(repr((device, stamps, [(e, e.starter, e.solution) for e in exercises])))


def _read(row: Row, exercises: list[Exercise], version: str) -> None:
    hand_in = row.hand_in
    hashes = [(name, hashlib.sha256(data).hexdigest()) for name, data in sorted(hand_in.files.items())]
    row.made_of = version_of(repr((version, row.seed, hashes, hand_in.ignored)))
    for exercise in exercises:
        with suppress(UnicodeDecodeError, KeyError):
            row.texts[exercise.name] = hand_in.files[exercise.file_name].decode()
    with suppress(UsageError):
        row.progress = parse_state(hand_in.files.get(STATE, b"").decode(errors="replace"), STATE)


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


def _grade(row: Row, exercise: Exercise, build: Path, device: str, graded: Graded) -> Grade:
    """One file; whatever happens, the others are graded."""
    name = exercise.name
    if (source := row.texts.get(name)) is None:
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
        result = grade_file(exercise, build, source, exercise.file_name, device, row.seed, budget)
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


def _compare(rows: list[Row], exercises: list[Exercise]) -> None:
    """Compares with the solution and with all others. A few words alone say nothing."""
    least = 12
    for exercise in (e for e in exercises if e.kind != "predict"):
        solution = words_of(exercise.solution, exercise.starter)
        words = {
            row.hand_in.name: words_of(row.texts[exercise.name], exercise.starter)
            for row in rows
            if exercise.name in row.texts
        }
        words = {name: mine for name, mine in words.items() if len(mine[0]) >= least}
        for row in (row for row in rows if row.hand_in.name in words):
            mine = words.pop(name := row.hand_in.name)
            share, mate = max(((similarity(mine, w), n) for n, w in words.items()), default=(0, ""))
            words[name] = mine
            alike = {"to_solution": similarity(mine, solution), "to_classmate": share, "classmate": mate}
            row.alike[exercise.name] = alike


def _record(row: Row, exercises: list[Exercise]) -> dict[str, Any]:
    """What class.json holds of a student."""
    entries = []
    for exercise in exercises:
        grade = row.grades.get(exercise.name) or Grade(BLANK)
        found = grade.finding
        entry: dict[str, Any] = {
            "exercise": exercise.name, "kind": exercise.kind, "passed": grade.passed, "points": grade.points,
            "failure": found.code if found else None, "line": found.line if found else None,
            "says": found.says if found else None, "questions": grade.questions,
            "details": found.details if found else [], "look": found.look if found else "",
            "notes": grade.notes, "code": row.codes.get(exercise.name),
            "seconds": round(grade.seconds, 1), "device": grade.device,
            "similarity": row.alike.get(exercise.name),
            "same_code_as": row.same_code_as.get(exercise.name),
            "version": version_of(row.texts[exercise.name]) if exercise.name in row.texts else None,
        }  # fmt: skip
        if progress := row.progress.get(exercise.name):
            entry |= {what: getattr(progress, what) for what in TOLD}
        entries.append(entry)
    ignored = [{"file": path, "why": why} for path, why in row.hand_in.ignored]
    return {
        "name": row.hand_in.name, "seed": row.seed, "made_of": row.made_of,
        "points": round(row.points, 2), "of": len(exercises), "score": row.score(exercises),
        "ignored": ignored, "exercises": entries,
    }  # fmt: skip


def _messages(row: Row, exercises: list[Exercise]) -> str:
    lines = [f"{row.hand_in.name}: {row.points:g} of {len(exercises)} points", ""]
    lines += [f"ignored: {path}: {why}" for path, why in row.hand_in.ignored]
    missing = [exercise.name for exercise in exercises if exercise.name not in row.grades]
    lines += [f"not handed in: {', '.join(missing)}", ""] if missing else []
    for exercise in exercises:
        if (grade := row.grades.get(exercise.name)) is None:
            continue
        lines.append(f"{exercise.name}: {'passed' if grade.passed else 'not yet'}")
        if grade.passed or exercise.kind == "predict":
            lines += [wrapped(note, "  + ", "    ") for note in grade.notes]
        if grade.finding:
            lines += [show(grade.finding, exercise.file_name, row.texts.get(exercise.name, "")), ""]
    return "\n".join(lines) + "\n"


def _csv(rows: list[Row], exercises: list[Exercise]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [exercise.name for exercise in exercises]
    writer.writerow(["name", "score", "points", *TOLD, "most_alike", "classmate", *names])
    for row in rows:
        _, alike = row.most_alike("to_classmate")
        cells = [f"{row.grades[name].points:g}" if name in row.grades else "" for name in names]
        head = [_harmless(row.hand_in.name), row.score(exercises), f"{row.points:g}", *row.told("")]
        writer.writerow([*head, alike["to_classmate"], _harmless(alike["classmate"]), *cells])
    return out.getvalue()


def _harmless(name: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{name}" if name.startswith(tuple("=+-@\t\r")) else name


def _cut(name: str) -> str:
    return name if len(name) <= WIDEST else f"{name[: WIDEST - 1]}…"


def table(rows: list[Row], exercises: list[Exercise]) -> str:
    """For the teacher: who has what, and what looks alike."""
    lines = [["student", "points", "score", "handed in", *TOLD[:2], "like the solution", "like a classmate"]]
    for row in rows:
        name, best = row.most_alike("to_classmate")
        mate = f"{best['to_classmate']} % {_cut(best['classmate'])}, {name}" if best["classmate"] else "-"
        near = f"{row.most_alike('to_solution')[1]['to_solution']} %"
        points = [f"{row.points:g}", f"{row.score(exercises)} %", str(len(row.grades))]
        lines.append([_cut(row.hand_in.name), *points, *row.told("-")[:2], near, mate])
    return aligned(lines)
