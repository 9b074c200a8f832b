"""Where the ninja is that builds this project."""

import os
import shutil
import sys
from pathlib import Path


def find_ninja(error: type[Exception]) -> str:
    """The ninja beside this Python of .venv, else $NINJA, else the one on PATH; without one, raises error."""
    beside_python = Path(sys.executable).parent / "ninja"
    for candidate in (str(beside_python), os.environ.get("NINJA"), shutil.which("ninja")):
        if candidate and os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise error("ninja is not found; ./setup.sh installs it, `. .venv/bin/activate` puts it on PATH")
