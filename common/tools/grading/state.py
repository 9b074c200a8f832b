"""A student's workspace: copies of the starters, and state.json, the one file that remembers what was done.
Standard library only.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tools.base import UsageError, read_fields, read_regular, write_json
from tools.grading.content import Exercise
from tools.grading.finding import Failed, Finding

STATE = "state.json"
VERSION = 1
MOST_BYTES = 1 << 18  # of a student's file; the longest solution has 20 KB


@dataclass
class Progress:
    """What is known of one exercise. version: of the file that passed, see version_of(); hints: how many were
    shown; revealed: the solution was shown before the exercise was passed."""

    attempts: int = 0
    hints: int = 0
    revealed: bool = False
    passed_at: str | None = None
    device: str | None = None
    version: str | None = None

    @property
    def passed(self) -> bool:
        return self.passed_at is not None

    @property
    def closed(self) -> bool:
        return self.passed or self.revealed


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def version_of(source: str) -> str:
    """A short name for one version of a file."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Held by one process and thread at a time for each folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Workspace:
    """The student's directory. It is made when something is first written to it."""

    def __init__(self, folder: Path):
        self.folder = folder
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder} is no directory; give another with --workspace")

    def file(self, exercise: Exercise) -> Path:
        return self.folder / exercise.file_name

    def shown(self, exercise: Exercise) -> str:
        """The file as it is named to the student: relative to where they are, if it lies below."""
        path = self.folder.resolve() / exercise.file_name
        below = path.is_relative_to(Path.cwd())
        return str(path.relative_to(Path.cwd()) if below else self.file(exercise))

    def begin(self, exercise: Exercise) -> Path:
        """The student's file; the starter is copied if there is none yet. What is there stays."""
        path = self.file(exercise)
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
                file.write(exercise.starter)  # never over what has just appeared
        return path

    def read(self, exercise: Exercise) -> str:
        """The student's file. Raises Failed, so that other exercises are still graded."""
        path = self.begin(exercise)
        try:
            return read_regular(path, MOST_BYTES).decode()
        except (UsageError, UnicodeDecodeError) as error:
            says = str(error) if isinstance(error, UsageError) else f"{path}: is not text"
            look = "what lies there; `reset` puts the starter in its place and keeps the old file."
            raise Failed(Finding("unreadable", f"{says}.", look=look)) from None

    def reset(self, exercise: Exercise) -> Path | None:
        """Puts the starter back. Returns where the old file now lies, if there was any.
        A starter is not kept: it would overwrite the work that the last reset has kept."""
        path = self.file(exercise)
        old = None
        with suppress(UsageError):
            if read_regular(path, MOST_BYTES) == exercise.starter.encode():
                return None
        if os.path.lexists(path):
            old = path.replace(path.with_name(path.name + ".old"))
        self.begin(exercise)
        return old

    def mark(self, exercise: Exercise, progress: Progress) -> str:
        """How it stands, in one character."""
        if progress.revealed or not progress.passed:
            return "r" if progress.revealed else " "
        with suppress(UsageError, UnicodeDecodeError):  # gone
            if version_of(read_regular(self.file(exercise), MOST_BYTES).decode()) == progress.version:
                return "x"
        return "~"

    # ---- state.json ----

    def load(self) -> dict[str, Progress]:
        """By exercise. Raises UsageError for a file that is not what this program writes."""
        path = self.folder / STATE
        if not os.path.lexists(path):
            return {}
        try:
            content = json.loads(read_regular(path, MOST_BYTES).decode(errors="replace"))
            if content["format"] != VERSION:
                raise ValueError("it is of another version of this program")
            return {name: read_fields(Progress, entry, name) for name, entry in content["exercises"].items()}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, UsageError) as error:
            raise UsageError(
                f"{path}: is no state of exercises ({error!r}); move it away to begin anew"
            ) from None

    @contextmanager
    def update(self, exercise: Exercise) -> Iterator[Progress]:
        """What is known of an exercise, to be changed; written at the end. Other processes wait meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder):
            state = self.load()
            yield state.setdefault(exercise.name, Progress())
            entries = {name: asdict(entry) for name, entry in sorted(state.items())}
            write_json(self.folder / STATE, {"format": VERSION, "exercises": entries})
