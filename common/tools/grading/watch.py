"""Grades an exercise again whenever its file is saved. Standard library only."""

import time
from collections.abc import Callable
from pathlib import Path

from tools.grading.content import Exercise
from tools.grading.finding import Grade
from tools.grading.state import Workspace

POLL_S = 0.25


def watch(
    choose: Callable[[], Exercise | None],
    workspace: Workspace,
    grade: Callable[[Exercise], Grade],
    say: Callable[[str], None],
    introduce: Callable[[Exercise], None] = lambda _: None,
) -> int:
    """Grades what `choose` says, now and after each save, until Ctrl-C; when that is passed, what it says
    then. Returns the exit status."""
    exercise = choose()
    if exercise is None:
        say("All exercises are done; name one to watch it.")
        return 0
    try:
        while True:
            path = workspace.begin(exercise)
            seen = _stamp(path)
            grade(exercise)
            following = choose()
            if following is None:
                say("That was the last one.")
                return 0
            if following is not exercise:
                exercise = following
                say("")
                introduce(exercise)
                path = workspace.begin(exercise)
                seen = _stamp(path)
            say("")
            say(f"watching {workspace.shown(exercise)}; Ctrl-C ends")
            # An editor that saves by renaming takes the file away for a moment.
            while _stamp(path) in (seen, None):
                time.sleep(POLL_S)
            say("")
    except KeyboardInterrupt:
        say("")
        return 0


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
