"""How long grading a file, and a hand-in, may take in all; one problem has limits of its own (run.py).
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
    """The time of one file, which begins now. spent: seconds that others of its hand-in have taken."""

    def __init__(self, spent: float = 0):
        waiting = os.getloadavg()[0] / (os.cpu_count() or 1)
        self.is_whole = spent <= HAND_IN_S - FILE_S
        self.began = time.monotonic()
        seconds = max(min(FILE_S, HAND_IN_S - spent), 0)
        self.ends = self.began + seconds * min(max(waiting, 1), MOST_WAITING)

    @property
    def left(self) -> float:
        return self.ends - time.monotonic()

    def finding(self) -> Finding:
        """Why grading has ended when nothing is left."""
        says = f"Grading was stopped after {time.monotonic() - self.began:.0f} s: "
        if self.is_whole:
            says += f"all problems together may take {FILE_S} s, and a right kernel takes a few."
            return Finding("time", says, look=LOOK)
        says += f"all files of a hand-in may take {HAND_IN_S} s together, and others of it have taken these."
        return Finding("time", says, look="the files of this hand-in that take longest.")
