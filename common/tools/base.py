"""What the tools share: where things are, errors in one line, progress, files, the ninja that builds.

Standard library only, as is everything that measures or reads machine code: it runs wherever the programs
run, also without .venv: PYTHONPATH=common python3 -m tools profile record --build build.
"""

import argparse
import json
import os
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LADDER_BUILD") or ROOT / "build")  # <build>/ladder says which it belongs to
EVIDENCE = ROOT / "docs" / "evidence" / "h200"


class UsageError(Exception):
    """What the user got wrong or what is missing here, in one line; ends a program with `status`."""

    def __init__(self, message: object = "", status: int = 2):
        super().__init__(message)
        self.status = status


# ---- Programs --------------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    """Shows the module's text as --help, and says what is wrong in one line."""

    def __init__(self, description: str | None = None, prog: str | None = None, **options: object):
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
    if not sys.stderr.isatty():
        print(f"[{done}/{total}] {text}", file=sys.stderr, flush=True)
        return
    bar = "#" * (30 * done // total)
    end = "\n" if done == total else ""
    print(f"\r\033[K[{bar:.<30}] {done}/{total}  {text}", end=end, file=sys.stderr, flush=True)


# ---- Files -----------------------------------------------------------------------------------------------


def write_whole(path: Path, text: str) -> None:
    """Writes a file that appears only when it is complete."""
    temporary = path.with_name(path.name + f".{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def write_json(path: Path, content: object) -> None:
    write_whole(path, json.dumps(content, indent=1) + "\n")


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not text") from None


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: cannot be read: {error}") from None


def find_ninja(error: type[Exception] = UsageError) -> str:
    """The ninja beside this Python of .venv, else $NINJA, else the one on PATH; without one, raises error."""
    beside_python = Path(sys.executable).parent / "ninja"
    for candidate in (str(beside_python), os.environ.get("NINJA"), shutil.which("ninja")):
        if candidate and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise error("ninja is not found; ./setup.sh installs it, `. .venv/bin/activate` puts it on PATH")
