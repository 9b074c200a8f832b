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
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_type_hints

from tools.base import ROOT, Parser, UsageError
from tools.claims.values import ExpressionError, all_steps, is_condition, parse

HINTS = 3
# kind: where they lie, and what only they have in exercise.toml
KINDS = {
    "kernel": ("steps/NN_name/exercise", {"goal", "speed"}),
    "fault": ("find_the_fault", {"goal", "speed"}),
    "predict": ("predict", {"question"}),
}
CODE_OF_NOTE = 12  # characters, without spaces: shorter lines give nothing away


class Malformed(UsageError):
    """What is wrong with an exercise's files, in one line."""


# ---- Fields ----------------------------------------------------------------------------------------------

T = TypeVar("T")
TYPES: dict[type | UnionType, str] = {
    str: "a text",
    list: "a list: several of them, or [[...]]",
    dict: "a table { ... }",
    int: "a whole number",
    int | float: "a number",
}


def read_fields(kind: type[T], table: Any, where: object, error: type[UsageError] = Malformed) -> T:
    """A dataclass from a table of TOML or JSON: nothing is missing or blank that has no default, each field
    is of its type, and there are no others."""
    if not isinstance(table, dict):
        raise error(f"{where}: is no table")
    types = get_type_hints(kind)
    if unknown := table.keys() - types.keys():
        raise error(f"{where}: unknown key '{min(unknown)}'; known are {', '.join(sorted(types))}")
    for known in fields(kind):
        name, wanted, value = known.name, types[known.name], table.get(known.name)
        if known.default is MISSING and known.default_factory is MISSING and str(value or "").strip() == "":
            raise error(f"{where}: has no {name}")
        odd_bool = isinstance(value, bool) and wanted is not bool
        if name in table and (odd_bool or not isinstance(value, wanted)):
            raise error(f"{where}: '{name}' is to be {TYPES.get(wanted, wanted)}")
    return kind(**{key: value.strip() if isinstance(value, str) else value for key, value in table.items()})


# ---- What there is ---------------------------------------------------------------------------------------


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
    at_least: int | float


@dataclass(frozen=True)
class Question:
    """answer: an expression; tolerance: relative; worked: how to get there."""

    id: str
    asks: str
    answer: str
    worked: str
    unit: str = ""
    tolerance: int | float = 0.01


@dataclass(frozen=True)
class Description:
    """What exercise.toml holds."""

    title: str
    kind: str  # kernel, fault or predict
    task: str
    hints: list
    after: str = ""
    goal: list = field(default_factory=list)
    question: list = field(default_factory=list)
    speed: dict | None = None


@dataclass(frozen=True)
class Exercise:
    """One exercise. step: the step that it belongs to, for the others the one that they come after."""

    name: str
    folder: Path
    title: str
    kind: str
    step: str
    task: str
    hints: list[str]
    goals: list[Goal]
    questions: list[Question]
    speed: Speed | None

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
    return in_order([read_exercise(folder) for folder in exercise_folders(root)])


def in_order(exercises: list[Exercise]) -> list[Exercise]:
    of_name: dict[str, Exercise] = {}
    for exercise in exercises:
        other = of_name.setdefault(exercise.name, exercise)
        if other is not exercise:
            raise Malformed(f"{exercise.folder}: {other.folder} has the same name; rename one")
    return sorted(exercises, key=lambda e: (e.step, list(KINDS).index(e.kind), e.name))


def read_exercise(folder: Path) -> Exercise:
    """The exercise of a directory, all its files checked. Raises Malformed, which names the file."""
    folder = folder.resolve()
    path = folder / "exercise.toml"
    table = _toml(path)
    about = read_fields(Description, table, path)
    kind = about.kind
    if kind not in KINDS:
        raise Malformed(f"{path}: kind is '{kind}'; use {', '.join(KINDS)}")
    place, own = KINDS[kind]
    if unknown := ({"goal", "speed", "question"} - own) & table.keys():
        raise Malformed(
            f"{path}: unknown key '{min(unknown)}' for a {kind}; known are {', '.join(sorted(own))}"
        )
    of_step = folder.name == "exercise"
    if of_step != (kind == "kernel"):
        raise Malformed(f"{path}: an exercise of kind {kind} lies in {place}")
    name = folder.parent.name if of_step else folder.name
    if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", name):
        raise Malformed(f"{folder}: an exercise's name has lower-case letters, digits and _ only")
    if not (of_step or about.after):
        raise Malformed(f"{path}: has no after")
    exercise = Exercise(
        name=name,
        folder=folder,
        title=about.title,
        kind=kind,
        step=name if of_step else _step(about.after, path, "after"),
        task=about.task,
        hints=about.hints,
        goals=[_goal(item, f"{path}: goal {n}") for n, item in enumerate(about.goal, 1)],
        questions=[_question(item, f"{path}: question {n}") for n, item in enumerate(about.question, 1)],
        speed=_speed(about.speed, path) if about.speed is not None else None,
    )
    _check_hints(exercise.hints, path)
    if kind == "predict":
        _check_predict(exercise, path)
    else:
        _check_sources(exercise, path)
    return exercise


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


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as error:
        raise Malformed(f"{path}: cannot be read: {error}") from None


def _step(name: str, path: Path, key: str) -> str:
    if name not in all_steps():
        raise Malformed(f"{path}: {key} is '{name}', which is no step; see steps/")
    return name


def _check_hints(hints: list[object], path: Path) -> None:
    texts = {" ".join(hint.split()) for hint in hints if isinstance(hint, str) and hint.strip()}
    if len(hints) != HINTS or len(texts) != HINTS:
        raise Malformed(f"{path}: 'hints' is to be a list of exactly {HINTS} texts, each another")


def names_of(expression: str) -> set[str]:
    """The names that an expression uses. Raises ExpressionError."""
    return {node.id for node in ast.walk(parse(expression)) if isinstance(node, ast.Name)}


def _goal(table: object, where: str) -> Goal:
    goal = read_fields(Goal, table, where)
    try:
        if not is_condition(goal.check):
            raise Malformed(f"{where}: the check is no condition; compare something")
        if "mine" not in names_of(goal.check):
            raise Malformed(f"{where}: the check does not look at `mine`, the student's kernel")
    except ExpressionError as error:
        raise Malformed(f"{where}: {error}") from None
    return goal


def _speed(table: dict[str, Any], path: Path) -> Speed:
    speed = read_fields(Speed, table, f"{path}: speed")
    if not 0 < speed.at_least < 1000:
        raise Malformed(f"{path}: speed.at_least is to be a number above 0")
    _step(speed.over, path, "speed.over")
    return speed


def _question(table: object, where: str) -> Question:
    question = read_fields(Question, table, where)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", question.id):
        raise Malformed(f"{where}: the id is to be like 'sectors_of_b'")
    if not 0 <= question.tolerance < 1:
        raise Malformed(f"{where}: the tolerance is relative: a number from 0 to below 1")
    try:
        if "mine" in names_of(question.answer):
            raise Malformed(f"{where}: the answer looks at `mine`, but there is no kernel of the student's")
    except ExpressionError as error:
        raise Malformed(f"{where}: {error}") from None
    return question


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
    read = []
    folders = [Path(name) for name in parser.parse_args().folders] or exercise_folders()
    for folder in folders:
        try:
            exercise = read_exercise(folder)
        except Malformed as error:
            print(f"error: {error}", file=sys.stderr)
            continue
        read.append(exercise)
        counts = {"goals": len(exercise.goals), "questions": len(exercise.questions), "hints": HINTS}
        print(
            f"ok  {exercise.name}: {exercise.kind}, {', '.join(f'{n} {of}' for of, n in counts.items() if n)}"
        )
    in_order(read)
    return 0 if len(read) == len(folders) else 2
