"""What a class hands in: finds the files of each student, whatever lies around them, and says how much two
files have in common. Standard library only.

A hand-in is a folder or a zip file below the folder of all hand-ins; its name is the student's. The
exercises' files lie in it or one folder down. Only regular files of a bounded size are read, no links are
followed, and what is not read is named.
"""

import os
import re
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tools.base import UsageError
from tools.grading.content import PIECE, Exercise
from tools.grading.state import STATE

MOST_BYTES = 1 << 18  # of a file
MOST_FILES = 2000  # of a hand-in
MANY, DEEP = f"there are more than {MOST_FILES:,} files", "it lies more than one folder down"
RUN = 6  # words that are compared as one


@dataclass
class HandIn:
    """Of one student: files: what was handed in for each exercise, as bytes, and state.json if it was;
    ignored: what else was there, and why it does not count."""

    name: str
    files: dict[str, bytes] = field(default_factory=dict)
    ignored: list[tuple[str, str]] = field(default_factory=list)

    def take(self, wanted: set[str], found: Iterator[tuple[str, int, str, object]]) -> None:
        """found: of each thing its path in the hand-in, its size, what is wrong with it, and how to read
        it."""
        things = sorted(found, key=lambda thing: (thing[0].count("/"), thing[0]))
        for path, size, wrong, read in things:
            name = PurePosixPath(path).name
            if name not in wanted:
                wrong = wrong or "it is no exercise's file"
            elif path.count("/") > 1:
                wrong = DEEP
            elif name in self.files:
                wrong = wrong or f"there is another {name}"
            elif size > MOST_BYTES:
                wrong = wrong or f"it has {size:,} bytes; a hand-in has at most {MOST_BYTES:,}"
            if not wrong:
                try:
                    self.files[name] = read()
                    continue
                except (OSError, RuntimeError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
                    wrong = f"it cannot be read: {error}"
            self.ignored.append((path, wrong))


def read_hand_ins(folder: Path, exercises: list[Exercise]) -> tuple[list[HandIn], list[tuple[str, str]]]:
    """All hand-ins in order of their names, and what in the folder is none. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder; give the one that holds a folder or a zip file for each student"
        )
    wanted = {exercise.file_name for exercise in exercises} | {STATE}
    hand_ins: dict[str, HandIn] = {}
    ignored = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        name = Path(entry.name).stem if entry.name.lower().endswith(".zip") else entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_symlink():
            ignored.append((entry.name, "it is a link"))
        elif name in hand_ins:
            ignored.append((entry.name, f"there is another hand-in of {name}"))
        elif entry.is_dir(follow_symlinks=False):
            hand_ins[name] = hand_in = HandIn(name)
            hand_in.take(wanted, _in_folder(Path(entry.path)))
        elif entry.is_file(follow_symlinks=False) and zipfile.is_zipfile(entry.path):
            hand_ins[name] = hand_in = HandIn(name)
            hand_in.take(wanted, _in_zip(Path(entry.path)))
        else:
            ignored.append((entry.name, "it is neither a folder nor a zip file"))
    if not hand_ins:
        raise UsageError(f"{folder} holds no folder and no zip file of a student")
    return list(hand_ins.values()), ignored


def _in_folder(folder: Path) -> Iterator[tuple[str, int, str, object]]:
    count = 0
    kinds = {stat.S_IFREG: "", stat.S_IFLNK: "it is a link", stat.S_IFDIR: DEEP}
    for place, folders, files in os.walk(folder):
        deep = len(Path(place).relative_to(folder).parts) >= 2
        for name in [*files, *(f for f in folders if deep or (Path(place) / f).is_symlink())]:
            path = Path(place) / name
            if (count := count + 1) > MOST_FILES:
                yield f"{path.relative_to(folder)} and others", 0, MANY, None
                return
            status = path.lstat()
            wrong = kinds.get(stat.S_IFMT(status.st_mode), "it is no regular file")
            yield str(path.relative_to(folder)), status.st_size, wrong, lambda path=path: _read(path)
        if deep:
            folders.clear()


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MOST_BYTES + 1)


def _in_zip(path: Path) -> Iterator[tuple[str, int, str, object]]:
    try:
        archive = zipfile.ZipFile(path)
        entries = archive.infolist()
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        yield path.name, 0, f"it cannot be read: {error}", None
        return
    for entry in entries[:MOST_FILES]:
        if entry.is_dir():
            continue
        mode = entry.external_attr >> 16
        wrong = "" if not stat.S_IFMT(mode) or stat.S_ISREG(mode) else "it is a link, or no regular file"
        yield (
            entry.filename.lstrip("/"),
            entry.file_size,
            wrong,
            lambda entry=entry: archive.open(entry).read(MOST_BYTES),
        )
    if len(entries) > MOST_FILES:
        yield f"{entries[MOST_FILES].filename} and others", 0, MANY, None


# ---- How much two files have in common -------------------------------------------------------------------


Words = tuple[set[tuple[str, ...]], set[tuple[str, ...]]]


def words_of(source: str, starter: str) -> Words:
    """The runs of words in a file that are not the starter's, as they are, and longer ones in which all names
    are the same."""

    def words(text: str) -> list[str]:
        text = PIECE.sub(lambda piece: " " if piece["comment"] else piece[0], text)
        return re.findall(r"[A-Za-z_]\w*|\d[\w.]*|\S", text)

    def runs(text: list[str], length: int) -> set[tuple[str, ...]]:
        return {tuple(text[at : at + length]) for at in range(len(text) - length + 1)}

    mine, given = words(source), words(starter)
    nameless = [[re.sub(r"^[A-Za-z_]\w*$", "name", word) for word in text] for text in (mine, given)]
    return runs(mine, RUN) - runs(given, RUN), runs(nameless[0], 2 * RUN) - runs(nameless[1], 2 * RUN)


def similarity(one: Words, other: Words) -> int:
    """Percent of what is in one of two files and in the other, too."""
    return max(round(100 * len(a & b) / max(len(a | b), 1)) for a, b in zip(one, other, strict=True))
