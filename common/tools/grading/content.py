"""The exercises as their files describe them: reads, checks and orders them. As a command, checks all files.

  ladder exercise-files [DIR...]        DIR: an exercise's directory; default: all of them

  steps/NN_name/exercise/{exercise.toml, starter.cu}             its solution is steps/NN_name/kernel.cu
  exercises/find_the_fault/NAME/{exercise.toml, starter.cu, solution.cu}
  exercises/predict/NAME/{exercise.toml, answers.toml, solution.md}

docs/teaching.md describes exercise.toml. Exit status: 0 all well, 2 a file is malformed.
Standard library only.
"""

import ast
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import ROOT, Parser, UsageError
from tools.claims.context import all_steps
from tools.claims.objects import ExpressionError
from tools.claims.values import is_condition, parse

HINTS = 3
KEYS = {
    "kernel": {"title", "kind", "after", "task", "hints", "goal", "speed"},
    "fault": {"title", "kind", "after", "task", "hints", "goal", "speed"},
    "predict": {"title", "kind", "after", "task", "hints", "question"},
}
FAMILIES = {"kernel": "steps/NN_name/exercise", "fault": "find_the_fault", "predict": "predict"}
CODE_OF_NOTE = 12  # characters, without spaces: shorter lines give nothing away


class Malformed(UsageError):
    """What is wrong with an exercise's files, in one line."""


@dataclass(frozen=True)
class Goal:
    """What a kernel has to reach beyond being right. look: what to look at where it does not."""

    says: str
    check: str
    look: str


@dataclass(frozen=True)
class Speed:
    """At 4096 on a GPU the kernel must be at least so many times as fast as that step."""

    over: str
    at_least: float


@dataclass(frozen=True)
class Question:
    """answer: an expression; tolerance: relative; worked: how to get there."""

    id: str
    asks: str
    unit: str
    answer: str
    tolerance: float
    worked: str


@dataclass(frozen=True)
class Exercise:
    """One exercise. step: the step that it belongs to, for the others the one that they come after."""

    name: str
    folder: Path
    title: str
    kind: str  # kernel, fault or predict
    step: str
    task: str
    hints: list[str]
    goals: list[Goal] = field(default_factory=list)
    speed: Speed | None = None
    questions: list[Question] = field(default_factory=list)

    @property
    def starter(self) -> Path:
        return self.folder / ("answers.toml" if self.kind == "predict" else "starter.cu")

    @property
    def solution(self) -> Path:
        if self.kind == "kernel":
            return self.folder.parent / "kernel.cu"
        return self.folder / ("solution.md" if self.kind == "predict" else "solution.cu")

    @property
    def file_name(self) -> str:
        """What the student's copy is called."""
        return self.name + self.starter.suffix


# ---- Reading ---------------------------------------------------------------------------------------------


def exercise_folders(root: Path = ROOT) -> list[Path]:
    """Every directory that holds an exercise."""
    places = ("steps/[0-9][0-9]_*/exercise", "exercises/find_the_fault/*", "exercises/predict/*")
    found = [path for place in places for path in sorted(root.glob(place)) if path.is_dir()]
    return [path for path in found if not path.name.startswith((".", "_"))]


def read_all(root: Path = ROOT) -> list[Exercise]:
    """All exercises in the order in which they are done. Raises Malformed."""
    exercises = [read_exercise(folder) for folder in exercise_folders(root)]
    for n, exercise in enumerate(exercises):
        for other in exercises[:n]:
            if other.name == exercise.name:
                raise Malformed(f"{exercise.folder}: {other.folder} has the same name; rename one")
    kinds = list(FAMILIES)
    return sorted(exercises, key=lambda e: (e.step, kinds.index(e.kind), e.name))


def read_exercise(folder: Path) -> Exercise:
    """The exercise of a directory, all its files checked. Raises Malformed, which names the file."""
    folder = folder.resolve()
    path = folder / "exercise.toml"
    table = _toml(path)
    kind = _text(table, "kind", path)
    if kind not in KEYS:
        raise Malformed(f"{path}: kind is '{kind}'; use {', '.join(KEYS)}")
    if unknown := table.keys() - KEYS[kind]:
        raise Malformed(f"{path}: unknown key '{min(unknown)}'; known are {', '.join(sorted(KEYS[kind]))}")
    of_step = folder.name == "exercise"
    if of_step != (kind == "kernel"):
        raise Malformed(f"{path}: an exercise of kind {kind} lies in {FAMILIES[kind]}")
    name = folder.parent.name if of_step else folder.name
    if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", name):
        raise Malformed(f"{folder}: an exercise's name has lower-case letters, digits and _ only")
    if of_step:
        step = name
        if "after" in table:
            _step(_text(table, "after", path), path, "after")
    else:
        step = _step(_text(table, "after", path), path, "after")
    exercise = Exercise(
        name,
        folder,
        " ".join(_text(table, "title", path).split()),
        kind,
        step,
        _text(table, "task", path).strip(),
        _hints(table, path),
        [_goal(item, path, n) for n, item in enumerate(_tables(table, "goal", path), 1)],
        _speed(table["speed"], path) if "speed" in table else None,
        [_question(item, path, n) for n, item in enumerate(_tables(table, "question", path), 1)],
    )
    if kind == "predict":
        _check_predict(exercise, path)
    else:
        _check_sources(exercise, path)
    return exercise


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Malformed(f"{path}: does not exist") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Malformed(f"{path}: cannot be read: {error}") from None


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Malformed(f"{path}: does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Malformed(f"{path}: cannot be read: {error}") from None
    if not text.strip():
        raise Malformed(f"{path}: is empty")
    return text


def _text(table: dict[str, Any], key: str, where: object) -> str:
    text = table.get(key)
    if not isinstance(text, str) or not text.strip():
        raise Malformed(f"{where}: has no {key}")
    return text


def _tables(table: dict[str, Any], key: str, path: Path) -> list[dict[str, Any]]:
    tables = table.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise Malformed(f"{path}: '{key}' is no list of tables; write [[{key}]]")
    return tables


def _step(name: str, path: Path, key: str) -> str:
    if name not in all_steps():
        raise Malformed(f"{path}: {key} is '{name}', which is no step; see steps/")
    return name


def _hints(table: dict[str, Any], path: Path) -> list[str]:
    hints = table.get("hints")
    if (
        not isinstance(hints, list)
        or len(hints) != HINTS
        or not all(isinstance(hint, str) and hint.strip() for hint in hints)
    ):
        raise Malformed(f"{path}: 'hints' is to be a list of exactly {HINTS} texts")
    hints = [" ".join(hint.split()) for hint in hints]
    if len(set(hints)) != HINTS:
        raise Malformed(f"{path}: two hints are the same")
    return hints


def names_of(expression: str) -> set[str]:
    """The names that an expression uses. Raises ExpressionError."""
    return {node.id for node in ast.walk(parse(expression)) if isinstance(node, ast.Name)}


def _goal(table: dict[str, Any], path: Path, number: int) -> Goal:
    where = f"{path}: goal {number}"
    if unknown := table.keys() - {"says", "check", "look"}:
        raise Malformed(f"{where}: unknown key '{min(unknown)}'; known are check, look, says")
    says, check, look = (" ".join(_text(table, key, where).split()) for key in ("says", "check", "look"))
    try:
        if not is_condition(check):
            raise Malformed(f"{where}: the check is no condition; compare something")
        if "mine" not in names_of(check):
            raise Malformed(f"{where}: the check does not look at `mine`, the student's kernel")
    except ExpressionError as error:
        raise Malformed(f"{where}: {error}") from None
    return Goal(says, check, look)


def _speed(table: object, path: Path) -> Speed:
    if not isinstance(table, dict) or table.keys() != {"over", "at_least"}:
        raise Malformed(f'{path}: speed is to be like {{ over = "01_naive", at_least = 5.0 }}')
    over, at_least = table["over"], table["at_least"]
    if isinstance(at_least, bool) or not isinstance(at_least, (int, float)) or not 0 < at_least < 1000:
        raise Malformed(f"{path}: speed.at_least is to be a number above 0")
    return Speed(_step(str(over), path, "speed.over"), float(at_least))


def _question(table: dict[str, Any], path: Path, number: int) -> Question:
    where = f"{path}: question {number}"
    known = {"id", "asks", "unit", "answer", "tolerance", "worked"}
    if unknown := table.keys() - known:
        raise Malformed(f"{where}: unknown key '{min(unknown)}'; known are {', '.join(sorted(known))}")
    name, asks, answer, worked = (_text(table, key, where) for key in ("id", "asks", "answer", "worked"))
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise Malformed(f"{where}: the id is to be like 'sectors_of_b'")
    unit = table.get("unit", "")
    if not isinstance(unit, str):
        raise Malformed(f"{where}: the unit is no text")
    tolerance = table.get("tolerance", 0.01)
    if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 <= tolerance < 1:
        raise Malformed(f"{where}: the tolerance is relative: a number from 0 to below 1")
    try:
        if "mine" in names_of(answer):
            raise Malformed(f"{where}: the answer looks at `mine`, but there is no kernel of the student's")
    except ExpressionError as error:
        raise Malformed(f"{where}: {error}") from None
    return Question(name, " ".join(asks.split()), unit, answer.strip(), float(tolerance), worked.strip())


# ---- What must fit together ------------------------------------------------------------------------------


# What C++ takes for one piece; a ' within a number or a // within a string begins nothing.
PIECE = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    |(?P<text>(?:u8|[uUL])?(?:R"(?P<mark>[^\s()\\]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |\.?\d(?:'\w|[eEpP][+-]|[\w.])*|\w+""",
    re.DOTALL | re.VERBOSE,
)


def without_comments(source: str) -> str:
    """C++ source with its comments blanked out, lines kept. Strings and characters are respected."""
    return PIECE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m["comment"] else m[0], source)


def without_strings(code: str) -> str:
    """C++ source with the content of its strings and characters left out, lines kept."""
    return PIECE.sub(lambda m: '""' + "\n" * m[0].count("\n") if m["text"] else m[0], code)


def code_lines(source: str) -> set[str]:
    """The lines of code, without comments and spaces."""
    lines = ("".join(line.split()) for line in without_comments(source).splitlines())
    return {line for line in lines if line}


def _check_sources(exercise: Exercise, path: Path) -> None:
    starter, solution = _read(exercise.starter), _read(exercise.solution)
    for name, text in ((exercise.starter, starter), (exercise.solution, solution)):
        if not re.search(r"\bvoid sgemm\(const Gemm& ?\w+\)", text):
            raise Malformed(f"{name}: has no `void sgemm(const Gemm& g)`")
        if "__global__" not in text:
            raise Malformed(f"{name}: has no kernel")
    if exercise.kind == "kernel" and "TODO" not in starter:
        raise Malformed(f"{exercise.starter}: marks no place with TODO")
    removed = code_lines(solution) - code_lines(starter)
    # Line by line, for the starter may lack a line that the solution has twice.
    if without_comments(starter).split() == without_comments(solution).split():
        raise Malformed(f"{exercise.starter}: is the solution")
    # Neither what is shown at once nor a hint may hold a line that the student is to write.
    shown = [("the task", exercise.task), ("the title", exercise.title)]
    shown += [(f"hint {n}", hint) for n, hint in enumerate(exercise.hints, 1)]
    shown += [(f"goal {n}", g.says + " " + g.look) for n, g in enumerate(exercise.goals, 1)]
    comments = "\n".join(re.findall(r"//[^\n]*|/\*.*?\*/", starter, re.DOTALL))
    shown += [(f"a comment of {exercise.starter.name}", re.sub(r"//", " ", comments))]
    for what, text in shown:
        packed = "".join(text.split())
        for line in removed:
            if len(line) >= CODE_OF_NOTE and (line in packed or line.rstrip(";{") in packed):
                raise Malformed(f"{path}: {what} holds a line of the solution: {line}")


def _check_predict(exercise: Exercise, path: Path) -> None:
    if not exercise.questions:
        raise Malformed(f"{path}: asks nothing; write [[question]]")
    ids = [question.id for question in exercise.questions]
    if len(set(ids)) != len(ids):
        raise Malformed(f"{path}: two questions have the same id")
    answers = _toml(exercise.starter)
    if set(answers) != set(ids):
        odd = min(set(answers) ^ set(ids))
        raise Malformed(f"{exercise.starter}: '{odd}' stands in only one of answers.toml and exercise.toml")
    if filled := [name for name in ids if answers[name] != ""]:
        raise Malformed(f'{exercise.starter}: {filled[0]} is to be blank: {filled[0]} = ""')
    _read(exercise.solution)


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("folders", nargs="*", metavar="DIR")
    folders = [Path(name) for name in parser.parse_args().folders] or exercise_folders()
    bad = 0
    for folder in folders:
        try:
            exercise = read_exercise(folder)
        except Malformed as error:
            print(f"error: {error}", file=sys.stderr)
            bad += 1
        else:
            goals = f"{len(exercise.goals)} goals, " if exercise.goals else ""
            goals += f"{len(exercise.questions)} questions, " if exercise.questions else ""
            print(f"ok  {exercise.name}: {exercise.kind}, {goals}{len(exercise.hints)} hints")
    if not bad and len(folders) > 1:
        try:
            read_all()
        except Malformed as error:
            print(f"error: {error}", file=sys.stderr)
            bad += 1
    return 2 if bad else 0
