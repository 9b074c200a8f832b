"""What a class hands in: finds the files of each student, whatever lies around them. Standard library only.

A hand-in is a folder or a zip file below the folder of all hand-ins; its name is the student's. The
exercises' files lie in it or one folder down. Only regular files of a bounded size are read, no links are
followed, and what is not read is named.
"""

import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tools.base import UsageError, printable, read_regular
from tools.grading.content import Exercise
from tools.grading.state import MOST_BYTES, version_of

MOST_FILES = 2000  # of a hand-in
MOST_ZIPPED = 32 << 20  # bytes of a zip file
MANY, DEEP = f"there are more than {MOST_FILES:,} files", "it lies more than one folder down"
DEFLATED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others take as much memory as they say
LONGEST_PATH = 200  # characters of a path that are shown
LONGEST_STEM = 180  # bytes of a name that begins a file's name


class Thing(NamedTuple):
    """What lies in a hand-in: its path there, size and time, what is wrong with it, and how to read it."""

    path: str
    size: int = 0
    modified: float = 0
    wrong: str = ""
    read: Callable[[], bytes] = bytes


@dataclass
class HandIn:
    """Of one student. name: in one line, whatever the folder is called; files: what was handed in for each
    exercise, as bytes; ignored: what else was there, and why it does not count;
    modified: when the newest of the files was written, in seconds since 1970, 0 if there is none."""

    name: str
    files: dict[str, bytes] = field(default_factory=dict)
    ignored: list[tuple[str, str]] = field(default_factory=list)
    modified: float = 0

    @property
    def stem(self) -> str:
        """How the files of the student's results are called: by the name, if it fits and is not that of the
        class's."""
        fits = len(self.name.encode()) <= LONGEST_STEM and not re.search(r"/|-[0-9a-f]{16}$", self.name)
        if fits and self.name.casefold() != "class":
            return self.name
        return f"{self.name[: LONGEST_STEM // 4].replace('/', '_')}-{version_of(self.name)}"

    def take(self, exercises: list[Exercise], found: Iterator[Thing]) -> None:
        """Takes what counts. Whatever is there, and whatever a damaged zip file does, ends in `ignored`."""
        wanted = {exercise.file_name for exercise in exercises}
        try:
            things = sorted(found, key=lambda thing: (thing.path.count("/"), thing.path))
        except Exception as error:
            things = [Thing("", wrong=_why(error))]
        for thing in things:
            name = PurePosixPath(thing.path).name
            faults = {
                "it is no exercise's file": name not in wanted,
                DEEP: thing.path.count("/") > 1,
                f"there is another {name}": name in self.files,
                f"it has {thing.size:,} bytes; a hand-in has at most {MOST_BYTES:,}": thing.size > MOST_BYTES,
            }
            wrong = thing.wrong or next((fault for fault, has in faults.items() if has), "")
            try:
                if not wrong:
                    self.files[name] = thing.read()
                    self.modified = max(self.modified, thing.modified)
            except Exception as error:
                wrong = _why(error)
            if wrong:
                self.ignored.append((printable(thing.path[:LONGEST_PATH]) or "all of it", printable(wrong)))


def _why(error: Exception) -> str:
    return f"it cannot be read: {str(error) or type(error).__name__}"[:LONGEST_PATH]


def read_hand_ins(folder: Path, exercises: list[Exercise]) -> tuple[list[HandIn], list[tuple[str, str]]]:
    """All hand-ins in order of their names, and what in the folder is none. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder; give the one that holds a folder or a zip file for each student"
        )
    hand_ins: dict[str, HandIn] = {}
    ignored = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = Path(entry.name).stem if entry.name.lower().endswith(".zip") else entry.name
        name, shown = (printable(text.replace("\\", r"\\")) for text in (name, entry.name))
        if entry.name.startswith("."):
            continue
        is_file = entry.is_file(follow_symlinks=False)
        if entry.is_symlink():
            ignored.append((shown, "it is a link"))
        elif name in hand_ins:
            ignored.append((shown, f"there is another hand-in of {name}"))
        elif entry.is_dir() or (is_file and zipfile.is_zipfile(entry.path)):
            hand_ins[name] = HandIn(name)
            hand_ins[name].take(exercises, (_in_folder if entry.is_dir() else _in_zip)(Path(entry.path)))
        else:
            ignored.append((shown, "it is neither a folder nor a zip file"))
    if not hand_ins:
        raise UsageError(f"{folder} holds no folder and no zip file of a student")
    return list(hand_ins.values()), ignored


def read_hand_in(folder: Path, exercises: list[Exercise]) -> HandIn:
    """The one that a folder is."""
    hand_in = HandIn(folder.name)
    hand_in.take(exercises, _in_folder(folder))
    return hand_in


def _in_folder(folder: Path) -> Iterator[Thing]:
    """Or in the one zip file that it holds, as Moodle gives hand-ins of one file in folders."""
    first = [*islice(os.scandir(folder), 2)]
    if len(first) == 1 and first[0].is_file(follow_symlinks=False) and zipfile.is_zipfile(first[0].path):
        yield from _in_zip(Path(first[0].path))
        return
    count, unread = 0, list[OSError]()
    kinds = {stat.S_IFREG: "", stat.S_IFLNK: "it is a link", stat.S_IFDIR: DEEP}
    for place, folders, files in os.walk(folder, onerror=unread.append):
        deep = len(Path(place).relative_to(folder).parts) >= 2
        for name in [*files, *(f for f in folders if deep or (Path(place) / f).is_symlink())]:
            path = Path(place) / name
            if (count := count + 1) > MOST_FILES:
                yield Thing(f"{path.relative_to(folder)} and others", wrong=MANY)
                return
            status = path.lstat()
            wrong = kinds.get(stat.S_IFMT(status.st_mode), "it is no regular file")
            read, shown = partial(read_regular, path, MOST_BYTES), str(path.relative_to(folder))
            yield Thing(shown, status.st_size, status.st_mtime, wrong, read)
        if deep:
            folders.clear()
    yield from (Thing(os.path.relpath(e.filename, folder), wrong=_why(e)) for e in unread)


def _unzipped(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:  # which may hold more than it says
        return file.read(MOST_BYTES)


def _written(entry: zipfile.ZipInfo) -> float:
    with suppress(ValueError, OverflowError):  # month 0
        return datetime(*entry.date_time).timestamp()
    return 0


def _in_zip(path: Path) -> Iterator[Thing]:
    if (size := path.stat().st_size) > MOST_ZIPPED:
        raise ValueError(f"it has {size:,} bytes; a zip file has at most {MOST_ZIPPED:,}")
    archive = zipfile.ZipFile(path)
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    for entry in entries[:MOST_FILES]:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        wrong = "" if kind in (0, stat.S_IFREG) else "it is a link, or no regular file"
        if entry.compress_type not in DEFLATED:
            wrong = "it is compressed in another way than by deflate, which zip files use"
        read, name = partial(_unzipped, archive, entry), entry.filename.replace("\\", "/").lstrip("/")
        yield Thing(name, entry.file_size, _written(entry), wrong, read)
    if len(entries) > MOST_FILES:
        yield Thing(f"{entries[MOST_FILES].filename} and others", wrong=MANY)
