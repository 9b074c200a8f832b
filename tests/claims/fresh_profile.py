"""Profiles the steps on the GPU at hand and checks the claims against that, not against what was recorded.

  fresh_profile.py BUILD

Exit status as of ladder claims; 77 without the GPU that the claims are about, or without leave to read its
counters."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMON = ROOT / "common"
sys.path.insert(0, str(COMMON))
os.environ["PYTHONPATH"] = str(COMMON)  # of `python -m tools`

from tools.claims.context import Context, all_steps  # noqa: E402

SKIPPED = 77
NO_GPU = 3  # of ladder profile: no GPU, no Nsight Compute, or no permission


def gpu_at_hand() -> str:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        return (
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[0].strip()
        )
    except (OSError, subprocess.CalledProcessError):
        return ""


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    found, wanted = gpu_at_hand(), Context(build, "").gpu().name
    if found != wanted:
        print(f"skipped: the claims are about an {wanted}; here is {found or 'no GPU'}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        record = [sys.executable, "-m", "tools", "profile", "record", "--build", build, "--out", folder]
        status = subprocess.run([*map(str, record)], check=False).returncode
        if status != 0:
            return SKIPPED if status == NO_GPU else status
        steps = [ROOT / "steps" / step for step in all_steps()]
        options = ["--build", build, "--fresh-profile", folder]
        check = [sys.executable, "-m", "tools", "claims", "check", *steps, *options]
        return subprocess.run([*map(str, check)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
