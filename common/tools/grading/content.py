"""The exercises as their files describe them: reads, checks and orders them.

  steps/NN_name/exercise/{exercise.toml, starter.toml}           its solution is steps/NN_name/kernel.cu
  exercises/find_the_fault/NAME/{exercise.toml, starter.toml, solution.cu}
  exercises/predict/NAME/{exercise.toml, answers.toml, solution.md}

starter.toml is an edit (tools/edits.py) of the solution. A solution may be one itself: solution.toml, an edit
of any kernel. What export.py makes has starter.cu and no solution. docs/adding_a_step.md describes
exercise.toml. Standard library only.
"""

import ast
import re
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from tools.base import ROOT, UsageError, read_fields, read_text, read_toml
from tools.claims.context import all_steps
from tools.claims.values import is_condition, parse
from tools.edits import Edit, EditedKernel

HINTS = 3
KINDS = {
    "kernel": "steps/NN_name/exercise",
    "fault": "find_the_fault",
    "predict": "predict",
}  # where they lie
WITHOUT_SOLUTION = "starter.cu"
CODE_OF_NOTE = 12  # characters, without spaces: shorter lines give nothing away


# ---- What there is ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Goal:
    """What a kernel has to reach beyond being right. look: what to look at where it does not."""

    says: str
    check: str
    look: str

    def __post_init__(self) -> None:
        if "mine" not in names_of(self.check):
            raise ValueError("the check does not look at `mine`, the student's kernel")
        if not is_condition(self.check):
            raise ValueError("the check is no condition; compare something")


@dataclass(frozen=True)
class Speed:
    """At 4096 on a GPU the kernel must be at least so many times as fast as that step."""

    over: str
    at_least: int | float

    def __post_init__(self) -> None:
        _check_step(self.over, "over")


@dataclass(frozen=True)
class Question:
    """answer: an expression; tolerance: relative; worked: how to get there; weight: its share."""

    id: str
    asks: str
    answer: str
    worked: str
    unit: str = ""
    tolerance: int | float = 0.01
    weight: int | float = 1

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ValueError(f"weight is {self.weight:g}, and should be more than 0")
        if "mine" in names_of(self.answer):
            raise ValueError("the answer looks at `mine`, but there is no kernel of the student's")


@dataclass(frozen=True)
class Exercise:
    """One exercise. after: the step that it belongs to, for the others the one that they come after. look:
    what to look at where the result is wrong and the wrong elements do not say why. Of a fault, symptom: what
    its user sees, all that is said before the first hint; found: the code of what the grader finds. points:
    in a class; ragged: what Grader.expected() finds of each of RAGGED, where there is no solution."""

    name: str
    folder: Path
    title: str
    kind: str  # kernel, fault or predict
    task: str
    hints: list
    after: str = ""
    points: int | float = 1
    ragged: list = field(default_factory=list)
    look: str = ""
    symptom: str = ""
    found: str = ""
    goals: list[Goal] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    speed: Speed | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is '{self.kind}'; use {', '.join(KINDS)}")
        if self.points <= 0:
            raise ValueError(f"points is {self.points:g}, and should be more than 0")
        if (self.folder.name == "exercise") != (self.kind == "kernel"):
            raise ValueError(f"an exercise of kind {self.kind} lies in {KINDS[self.kind]}")
        if self.kind != "kernel":
            _check_step(self.after, "after")
        texts = {" ".join(hint.split()) for hint in self.hints if isinstance(hint, str) and hint.strip()}
        if len(self.hints) != HINTS or len(texts) != HINTS:
            raise ValueError(f"hints is to be a list of exactly {HINTS} texts, each another")
        if self.kind == "fault" and not (self.symptom and self.found):
            raise ValueError("a fault has a symptom, and found, the code of what the grader finds")

    @property
    def step(self) -> str:
        return self.name if self.kind == "kernel" else self.after

    @cached_property
    def starter(self) -> str:
        """What the student begins with. Raises UsageError."""
        if self.kind == "predict":
            return read_text(self.folder / "answers.toml")
        if (whole := self.folder / WITHOUT_SOLUTION).exists():
            return read_text(whole)
        path = self.folder / "starter.toml"
        edit = read_fields(Edit, read_toml(path), path)
        try:
            return edit.text(self.solution)
        except UsageError as problem:
            raise UsageError(f"{path}: {problem}") from None

    @cached_property
    def solution(self) -> str:
        """A kernel, or what explains the answers. Raises UsageError, also where solutions were left out."""
        if not self.has_solution:
            raise UsageError(f"{self.name}: the solutions were left out here")
        if (edit := self.folder / "solution.toml").exists():
            return read_fields(EditedKernel, read_toml(edit), edit).source()
        if self.kind == "kernel":
            return read_text(self.folder.parent / "kernel.cu")
        return read_text(self.folder / ("solution.md" if self.kind == "predict" else "solution.cu"))

    @property
    def has_solution(self) -> bool:
        return not (self.folder / WITHOUT_SOLUTION).exists()

    @property
    def file_name(self) -> str:
        """What the student's copy is called."""
        return self.name + (".toml" if self.kind == "predict" else ".cu")


def _check_step(name: str, key: str) -> None:
    if name not in all_steps():
        raise ValueError(f"{key} is '{name}', which is no step; see steps/")


def names_of(expression: str) -> set[str]:
    """The names that an expression uses. Raises ExpressionError."""
    return {node.id for node in ast.walk(parse(expression)) if isinstance(node, ast.Name)}


# ---- Reading ---------------------------------------------------------------------------------------------


def exercise_folders(root: Path = ROOT) -> list[Path]:
    """Every directory that holds an exercise."""
    places = ("steps/[0-9][0-9]_*/exercise", "exercises/find_the_fault/[a-z]*", "exercises/predict/[a-z]*")
    return [path for place in places for path in sorted(root.glob(place)) if path.is_dir()]


def read_all(root: Path = ROOT) -> list[Exercise]:
    """All exercises in the order in which they are done. Raises UsageError."""
    exercises = [read_exercise(folder) for folder in exercise_folders(root)]
    return sorted(exercises, key=lambda e: (e.step, list(KINDS).index(e.kind), e.name))


def read_exercise(folder: Path) -> Exercise:
    """The exercise of a directory, all its files checked. Raises UsageError, which names the file."""
    folder = folder.resolve()
    name = folder.parent.name if folder.name == "exercise" else folder.name
    path = folder / "exercise.toml"
    exercise = read_fields(Exercise, read_toml(path), path, name=name, folder=folder)
    if exercise.kind == "predict":
        _check_predict(exercise, path)
    elif exercise.has_solution:
        _check_sources(exercise, path)
    return exercise


# ---- The function that launches --------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """The function of a kernel's file that launches, and the type of the problem that it takes."""

    name: str
    takes: str


@cache
def precisions() -> dict[str, str]:
    """What a kernel computes in, by the name of its entry."""
    return dict(re.findall(r"step_if_any\(&(\w+), (\w+)\)", read_text(ROOT / "common/unit.hpp")))


def entry_of_step(step: str) -> Entry:
    """Raises UsageError if the step's kernel has none."""
    path = ROOT / "steps" / step / "kernel.cu"
    form = rf"\bvoid ({'|'.join(precisions())})\(const (Gemm\w*)& ?\w+\)"
    if (match := re.search(form, without_comments(read_text(path)))) is None:
        raise UsageError(f"{path}: has no function that launches, by the names of common/unit.hpp")
    return Entry(*match.groups())


# ---- What must fit together ------------------------------------------------------------------------------

# A C++ file's pieces. Each begins where the one before it ends, and what is not closed ends as it does for
# the compiler, a comment with the file, a string with its line; so the time grows with the length alone. (The
# lexer of Pygments takes minutes for a quarter of a MB of `R"a(`.)
PIECE = re.compile(
    r"""(?P<comment>//[^\n]*+|/\*.*?(?:\*/|\Z))
    |(?P<raw>(?:u8|[uUL])?R")
    |(?P<text>(?:u8|[uUL])?(?:"(?:\\.|[^"\\\n])*+"?|'(?:\\.|[^'\\\n])*+'?))
    |\.?\d(?:'\w|[eEpP][+-]|[\w.])*+|\w++|\S""",
    re.DOTALL | re.VERBOSE,
)


def without_comments(source: str) -> str:
    """C++ source with its comments blanked out, lines kept. Strings and characters are respected."""
    return PIECE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]) if m["comment"] else m[0], source)


def without_strings(code: str) -> str:
    """C++ source with the content of its strings and characters left out, lines kept."""
    return PIECE.sub(lambda m: '""' + "\n" * m[0].count("\n") if m["text"] else m[0], code)


def code_lines(source: str) -> set[str]:
    """Its lines, without comments and spaces."""
    return {"".join(line.split()) for line in without_comments(source).splitlines()}


def lines_to_write(exercise: Exercise) -> set[str]:
    """Lines of the solution that the starter lacks."""
    return code_lines(exercise.solution) - code_lines(exercise.starter)


def _check_sources(exercise: Exercise, path: Path) -> None:
    starter, solution = exercise.starter, exercise.solution
    if exercise.kind == "kernel" and "TODO" not in starter:
        raise UsageError(f"{path}: the starter marks no place with TODO")
    removed = lines_to_write(exercise)
    # Line by line, for the starter may lack a line that the solution has twice.
    if without_comments(starter).split() == without_comments(solution).split():
        raise UsageError(f"{path}: the starter is the solution")
    # Neither what is shown at once nor a hint may hold a line that the student is to write.
    shown = [(f"the {key}", getattr(exercise, key)) for key in ("task", "title", "look", "symptom")]
    shown += [(f"hint {n}", hint) for n, hint in enumerate(exercise.hints, 1)]
    shown += [(f"goal {n}", g.says + " " + g.look) for n, g in enumerate(exercise.goals, 1)]
    comments = "\n".join(re.findall(r"//[^\n]*|/\*.*?\*/", starter, re.DOTALL))
    shown += [("a comment of the starter", re.sub(r"//", " ", comments))]
    for what, text in shown:
        packed = "".join(text.split())
        for line in removed:
            if len(line) >= CODE_OF_NOTE and (line in packed or line.rstrip(";{") in packed):
                raise UsageError(f"{path}: {what} holds a line of the solution: {line}")


def _check_predict(exercise: Exercise, path: Path) -> None:
    if not exercise.questions:
        raise UsageError(f"{path}: asks nothing; write [[question]]")
    starter = exercise.folder / "answers.toml"
    wanted = {question.id: "" for question in exercise.questions}
    if odd := {name for name, _ in read_toml(starter).items() ^ wanted.items()}:
        raise UsageError(
            f"{starter}: is to have each question of exercise.toml once, blank: {', '.join(odd)}"
        )
