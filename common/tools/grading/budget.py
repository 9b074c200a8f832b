"""How long the programs of a file, and of a hand-in, may run in all; one order has limits of its own (run.py).
Standard library only.

The time is that of the clock, as a program may sleep; a machine on which programs wait for a processor gives
more.
"""

import os
import time

from tools.base import EMULATOR
from tools.grading.finding import Finding

PATIENCE = 20 if EMULATOR else 1  # right kernels take a twentieth of the time they have, or less
FILE_S = 60 * PATIENCE  # seconds
HAND_IN_S = 600 * PATIENCE
MOST_WAITING = 5  # processes that wait for each processor: beyond that many, no more time is given
LOOK = "what takes long in each call: the loops, and what the host does before it launches."


class Budget:
    """The time of one file, which begins now. seconds: if there is less than usual."""

    def __init__(self, seconds: float = FILE_S):
        waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
        self.began, self.seconds = time.monotonic(), min(seconds, FILE_S)
        self.ends = self.began + self.seconds * min(max(waiting, 1), MOST_WAITING)

    @property
    def left(self) -> float:
        return self.ends - time.monotonic()

    @property
    def is_whole(self) -> bool:
        return self.seconds == FILE_S

    def finding(self) -> Finding:
        """Why grading has ended when nothing is left."""
        took = f"after {time.monotonic() - self.began:.0f} s"
        if not self.is_whole:
            return out_of_time(f"It was stopped {took}: ")
        says = f"Grading was stopped {took}: all problems together may take {FILE_S} s, and a right kernel takes a few."
        return Finding("time", says, look=LOOK)


def out_of_time(says: str = "It was not graded: ") -> Finding:
    """Of a hand-in whose time is used up."""
    says += (
        f"the programs of one hand-in may run for {HAND_IN_S} s in all, and others of it have taken these."
    )
    return Finding("time", says, look="the files of this hand-in that took longest.")
