"""What the tools share: where things are, errors in one line, progress, files, the ninja that builds.

Standard library only, as is everything that measures or reads machine code: it runs wherever the programs
run, also without .venv: PYTHONPATH=common python3 -m tools profile record --build build.
"""

import argparse
import gc
import json
import os
import shlex
import shutil
import stat
import sys
import threading
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LADDER_BUILD") or ROOT / "build")  # <build>/ladder says which it belongs to
EMULATOR = shlex.split(os.environ.get("EMULATOR", ""))  # runs the build's programs, if of another processor
EVIDENCE = ROOT / "docs" / "evidence" / "h200"
T = TypeVar("T", bound="DataclassInstance")
# Records and listings are millions of objects that stay. To look through all of them for cycles as often as
# Python does was half of the time that the pages took.
gc.set_threshold(100_000, 50, 100)


def is_library(step: str) -> bool:
    """Whether a step only calls cuBLAS on a GPU, and so has no kernel of its own to look at."""
    return "_cublas" in step


class UsageError(Exception):
    """What the user got wrong or what is missing here, in one line; ends a program with `status`."""

    def __init__(self, message: object = "", status: int = 2):
        super().__init__(message)
        self.status = status


# ---- Programs --------------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """Shows the module's text as --help, and says what is wrong in one line."""

    def __init__(self, description: str | None = None, prog: str | None = None, **options: Any):
        super().__init__(
            prog=prog or sys.argv[0],  # as it was called, with its folder
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            **options,
        )

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")


def run_program(main: Callable[[], int]) -> int:
    """The exit status of main(), with what it could not do said in one line."""
    closed_pipe, stopped = 141, 130  # as a shell says them
    try:
        try:
            return main()
        except UsageError as error:
            over = "\r\033[K" if sys.stderr.isatty() else ""  # the line of progress
            print(f"{over}error: {error}", file=sys.stderr)
            return error.status
        except KeyboardInterrupt:
            print("\nstopped", file=sys.stderr)
            return stopped
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # not later, where nothing can be done about it
    except BrokenPipeError:  # nobody reads on, as with `... | head`
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return closed_pipe


def progress(done: int, total: int, text: str) -> None:
    print(f"[{done}/{total}] {text}", file=sys.stderr, flush=True)


# ---- Words and tables ------------------------------------------------------------------------------------


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def printable(text: str) -> str:
    """In one line, which nothing in it can end, erase or forge: what steers a terminal is spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def span(values: Iterable[Any]) -> str:
    """ "3 to 20", or the one value there is."""
    found = sorted(values)
    return " to ".join(map(str, dict.fromkeys([found[0], found[-1]])))


def aligned(rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table for a terminal; all columns but the first `left` are aligned to the right."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    places = [f"{{:{'<' if n < left else '>'}{width}}}" for n, width in enumerate(widths)]
    return "\n".join("  ".join(places).format(*row).rstrip() for row in rows)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """The same in Markdown, under a head."""
    rule = "|".join("---" if n < left else "---:" for n in range(len(head)))
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


# ---- Files -----------------------------------------------------------------------------------------------


def write_whole(path: Path, text: str) -> None:
    """Writes a file that appears only when it is complete."""
    temporary = path.with_name(path.name + f".{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def write_json(path: Path, content: object) -> None:
    write_whole(path, json.dumps(content, indent=1) + "\n")


def read_regular(path: Path, most: int) -> bytes:
    """Of what others hand in: a regular file, no link, of a bounded size; nothing else is touched. Raises
    UsageError."""
    wrong = {stat.S_IFLNK: "is a link", stat.S_IFDIR: "is a folder", stat.S_IFREG: ""}
    try:
        if why := wrong.get(stat.S_IFMT(os.lstat(path).st_mode), "is no regular file"):
            raise UsageError(f"{path}: {why}")
        # As it may be another thing by now.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > most:
        raise UsageError(f"{path}: has more than {most:,} bytes")
    return data


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not text") from None


def read_json(path: Path, remedy: str = "") -> Any:
    try:
        return json.loads(read_text(path))
    except ValueError as error:
        raise UsageError(f"{path}: is not JSON: {error}{remedy}") from None


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None


def read_fields(kind: type[T], table: Any, where: object, **given: Any) -> T:
    """A dataclass from a table of TOML or JSON, and from what is given besides: no field is missing or blank
    that has no default, each is of its type, and there are no others. Lists of tables are named for one.
    Raises UsageError."""
    if not isinstance(table, dict):
        raise UsageError(f"{where}: is no table")
    types = {name: wanted for name, wanted in get_type_hints(kind).items() if name not in given}
    inner: dict[str, Any] = {
        name: next(filter(is_dataclass, get_args(wanted)), None) for name, wanted in types.items()
    }
    lists = {name for name, wanted in types.items() if inner[name] and get_origin(wanted) is list}
    keys = {name.removesuffix("s") if name in lists else name: name for name in types}
    if unknown := table.keys() - keys:
        raise UsageError(f"{where}: unknown key '{min(unknown)}'; known are {', '.join(sorted(keys))}")
    optional = {f.name for f in fields(kind) if f.default is not MISSING or f.default_factory is not MISSING}
    for key, name in keys.items():
        if name not in optional and not str(table.get(key, "")).strip():
            raise UsageError(f"{where}: has no {key}")
        if key not in table:
            continue
        value, wanted, of = table[key], types[name], inner[name]
        if isinstance(value, list) and name in lists:
            named = [item.get("id", n) if isinstance(item, dict) else n for n, item in enumerate(value, 1)]
            value = [read_fields(of, i, f"{where}: {key} {n}") for n, i in zip(named, value, strict=True)]
        elif isinstance(value, dict) and of and name not in lists:
            value = read_fields(of, value, f"{where}: {key}")
        elif of or not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            words = {str: "a text", int: "a whole number", int | float: "a number", list: "a list"}
            other = f"tables, [[{key}]]" if name in lists else "a table, { ... }" if of else str(wanted)
            raise UsageError(f"{where}: {key} is {value!r:.40}, and should be {words.get(wanted, other)}")
        given[name] = value.strip() if isinstance(value, str) else value
    try:
        return kind(**given)
    except (ValueError, UsageError) as problem:  # of __post_init__
        raise UsageError(f"{where}: {problem}") from None


def chosen(names: Iterable[str], known: Sequence[str], what: str) -> list[str]:
    """Of the known names those that are given; they may be cut short. Raises UsageError."""
    found = []
    for name in names:
        fits = [name] if name in known else [other for other in known if name and other.startswith(name)]
        if len(fits) != 1:
            raise UsageError(f"'{name}' names no {what}; there are {', '.join(known)}")
        found += fits
    return found


def find_ninja() -> str:
    """The ninja beside this Python of .venv, else $NINJA, else the one on PATH."""
    beside_python = str(Path(sys.executable).parent)
    for name, path in (("ninja", beside_python), (os.environ.get("NINJA", ""), None), ("ninja", None)):
        if found := shutil.which(name, path=path):
            return found
    raise UsageError("ninja is not found; ./setup.sh installs it, `. .venv/bin/activate` puts it on PATH")
