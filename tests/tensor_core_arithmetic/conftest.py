"""What the tests of experiments/tensor_core_arithmetic share.

BUILD in the environment: the build directory, with the program.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (
    Path(os.environ.get("BUILD", ".")) / "experiments" / "tensor_core_arithmetic" / "tensor_core_arithmetic"
)
TOOL = ROOT / "experiments" / "tensor_core_arithmetic"
sys.path[:0] = [str(ROOT / "common"), str(ROOT / "experiments")]
