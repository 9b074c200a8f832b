"""python3 experiments/register_banks PROGRAM -o OUT: see command.py."""

import sys
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path[:0] = [str(here.parent), str(here.parents[1] / "common")]

from tools.base import run_program  # noqa: E402

from register_banks.command import main  # noqa: E402

sys.exit(run_program(main))
