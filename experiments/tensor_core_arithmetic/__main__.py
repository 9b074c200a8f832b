"""python3 experiments/tensor_core_arithmetic analyse FILE: see command.py."""

import sys
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path[:0] = [str(here.parent), str(here.parents[1] / "common")]

from tools.base import run_program  # noqa: E402

from tensor_core_arithmetic.command import main  # noqa: E402

sys.exit(run_program(main))
