"""Ends a program quietly whose output nobody reads any more, as with `... | head`. Standard library only."""

import os
import sys
from collections.abc import Callable

STATUS = 141  # what a shell says of a program that a closed pipe ended


def until_nobody_reads(main: Callable[[], int]) -> int:
    """main()'s exit status."""
    try:
        try:
            return main()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # not later, where nothing can be done about it
    except BrokenPipeError:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return STATUS
