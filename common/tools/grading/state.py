"""A student's workspace: copies of the starters, and state.json, the one file that remembers what was done.
Standard library only.
"""

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.base import UsageError, write_whole
from tools.grading.content import HINTS, Exercise

STATE = "state.json"
VERSION = 1


class StateError(UsageError):
    """What is wrong with the workspace, in one line."""


class Unreadable(Exception):
    """What is wrong with one file of the student's, which the others do not suffer from."""


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


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def version_of(source: str) -> str:
    """A short name for one version of a file."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


class Workspace:
    """The student's directory. It is made when something is first written to it."""

    def __init__(self, folder: Path):
        self.folder = folder
        if folder.exists() and not folder.is_dir():
            raise StateError(f"{folder} is no directory; give another with --workspace")

    def file(self, exercise: Exercise) -> Path:
        return self.folder / exercise.file_name

    def shown(self, exercise: Exercise) -> str:
        """The file as it is named to the student: relative to where they are, if it lies below."""
        path = self.file(exercise)
        try:
            return str(path.resolve().relative_to(Path.cwd()))
        except ValueError:
            return str(path)

    def begin(self, exercise: Exercise) -> Path:
        """The student's file; the starter is copied if there is none yet. What is there stays."""
        path = self.file(exercise)
        if not path.exists():
            text = exercise.starter.read_text(encoding="utf-8")
            self._make()
            try:
                with path.open("x", encoding="utf-8") as file:  # never over what has just appeared
                    file.write(text)
            except FileExistsError:
                pass
            except OSError as error:
                raise StateError(f"{path}: cannot be written: {error.strerror}") from None
        return path

    def read(self, exercise: Exercise) -> str:
        """The student's file. Raises Unreadable."""
        path = self.begin(exercise)
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise Unreadable("it is not text in UTF-8; save it as that") from None
        except OSError as error:
            raise Unreadable(error.strerror or "unknown error") from None

    def reset(self, exercise: Exercise) -> tuple[Path, Path | None]:
        """Puts the starter back. Returns the file, and where the old one now lies, if there was any.
        A starter is not kept, for it would take the place of the work that the last reset kept."""
        path = self.file(exercise)
        old = None
        try:
            is_starter = path.is_file() and path.read_bytes() == exercise.starter.read_bytes()
            if path.exists() and not is_starter:
                old = path.with_name(path.name + ".old")
                path.replace(old)
        except OSError as error:
            raise StateError(f"{path}: cannot be moved: {error.strerror}") from None
        return self.begin(exercise), old

    def _make(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"{self.folder}: cannot be made: {error.strerror}") from None

    # ---- state.json ----

    def load(self) -> dict[str, Progress]:
        """By exercise. Raises StateError for a file that is not what this program writes."""
        path = self.folder / STATE
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StateError(f"{path}: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise StateError(f"{path}: is not JSON ({error}); move it away to begin anew") from None
        try:
            if content["format"] != VERSION:
                raise StateError(f"{path}: is of another version of this program; move it away")
            return {name: _progress(entry) for name, entry in content["exercises"].items()}
        except (KeyError, TypeError, AttributeError, ValueError):
            raise StateError(f"{path}: is no state of exercises; move it away to begin anew") from None

    def update(self, exercise: Exercise, change: Callable[[Progress], Any]) -> Progress:
        """Changes what is known of an exercise, on the disk at once; others may be at it at the same time."""
        self._make()
        with self._locked():
            state = self.load()
            progress = state.setdefault(exercise.name, Progress())
            change(progress)
            entries = {name: asdict(entry) for name, entry in sorted(state.items())}
            content = {"format": VERSION, "exercises": entries}
            write_whole(self.folder / STATE, json.dumps(content, indent=1) + "\n")
        return progress

    @contextmanager
    def _locked(self) -> Iterator[None]:
        descriptor = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _progress(entry: dict[str, Any]) -> Progress:
    progress = Progress(**{field.name: entry[field.name] for field in fields(Progress)})
    texts = (progress.passed_at, progress.device, progress.version)
    counts = (progress.attempts, progress.hints)
    fine = (
        all(text is None or isinstance(text, str) for text in texts)
        and all(type(count) is int and count >= 0 for count in counts)
        and progress.hints <= HINTS
        and isinstance(progress.revealed, bool)
    )
    if not fine:
        raise ValueError
    return progress
