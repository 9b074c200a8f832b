"""What the tests of the claims share. BUILD in the environment: the build directory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMON = ROOT / "common"
sys.path.insert(0, str(COMMON))
os.environ["PYTHONPATH"] = str(COMMON)  # of `python -m tools`

HERE = "05_2d_tiling"  # the step whose claims the tests make up

# A program that stands in for a step's: it writes an X-ray and counts how often it was asked.
PROGRAM = """#!{python}
import json, sys
from pathlib import Path
with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
record = json.loads(Path({answer!r}).read_text())
if "status" in record:
    print(record["says"], file=sys.stderr)
    sys.exit(record["status"])
Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps([record]))
"""


def row(space, operation, array, source="", bytes=4, **counts):
    """A row of an X-ray; what is not given is 0."""
    names = ("requests", "lanes", "sectors", "bytes_used", "wavefronts", "ideal_wavefronts", "conflicts")
    place = {"file": "steps/05_2d_tiling/kernel.cu", "line": 1, "source": source}
    return {
        **place,
        **{"space": space, "operation": operation, "array": array, "bytes": bytes},
        **{name: counts.get(name, 0) for name in names},
    }


LOADED = {"requests": 10, "lanes": 320, "bytes_used": 1280}
XRAY = {
    "complaints": [],
    "xray": {
        "blocks": 4,
        "kernels": [
            {
                "kernel": "sgemm_2d_tiling",
                "threads_per_block": 256,
                "accesses": [
                    row("global", "load", "A", "a = A[0];", **LOADED, sectors=40),
                    row("global", "load", "B", "b = B[0];", **LOADED, sectors=320),
                    row("global", "store", "C", "C[0] = c;", bytes=16, requests=2, sectors=8, bytes_used=64),
                    row("shared", "load", "As", requests=5, wavefronts=10, ideal_wavefronts=5, conflicts=5),
                    row("shared", "copy", "Bs", requests=5, wavefronts=20, ideal_wavefronts=5),
                ],
            }
        ],
    },
}


@pytest.fixture(scope="session")
def build():
    """The build directory that the tests run for."""
    return Path(os.environ["BUILD"])


class FakeBuild:
    """A build directory with one program, whose X-ray is what `answer` says."""

    def __init__(self, folder: Path, step: str = "05_2d_tiling"):
        self.path = folder / "build"
        self.program = self.path / "steps" / step / "run"
        self.program.parent.mkdir(parents=True)
        self._log = folder / "log"
        self._answer = folder / "answer.json"
        self.program.write_text(
            PROGRAM.format(python=sys.executable, log=str(self._log), answer=str(self._answer))
        )
        self.program.chmod(0o755)
        self.answer(XRAY)

    def answer(self, record) -> None:
        self._answer.write_text(json.dumps(record))

    @property
    def calls(self) -> list[str]:
        return self._log.read_text().splitlines() if self._log.exists() else []


@pytest.fixture
def fake_build(tmp_path):
    return FakeBuild(tmp_path)


@pytest.fixture
def fake_profiles(tmp_path):
    """A directory with a profile of step 05."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    counters = {"duration_us": 100.0, "fma_pipe_percent": 50.0, "lsu_pipe_percent": None}
    counters["tensor_pipe_percent"] = 62.5
    source = (ROOT / "steps" / "05_2d_tiling" / "kernel.cu").read_text().splitlines()
    ffma_line = 1 + next(n for n, text in enumerate(source) if "+= a[" in text)
    lds = {"executed": 100, "wavefronts": 400, "ideal_wavefronts": 200, "stalls": {"long_scoreboard": 3}}
    instructions = [
        {"sass": "@P0 LDG.E.128.CONSTANT R4, desc[UR4][R2.64]", "executed": 10, "sectors": 160},
        {"sass": "LDS.128 R4, [R2]", "line": ffma_line} | lds,
        {"sass": "LDS R4, [R2]", "executed": 50, "wavefronts": 50, "ideal_wavefronts": 50},
        {"sass": "@!PT LDS RZ, [RZ]", "executed": 7},
        {"sass": "STS [R2], R4", "stalls": {"long_scoreboard": 1, "wait": 5}, "line": 1},
    ]
    waits = {"long_scoreboard": 0.5, "dispatch_stall": 0.125}
    run = {
        "counters": counters,
        "stalls": {"long_scoreboard": 0.25},
        "cycles_per_issue": waits,
        "opcodes": {},
    }
    record = {
        "step": "05_2d_tiling",
        "facts": {"device": "NVIDIA H200"},
        "runs": [
            {"m": 4096, "n": 4096, "k": 4096, **run, "instructions": instructions},
            {"m": 256, "n": 256, "k": 128, **run, "opcodes": {"LDS.128": 3, "FFMA": 8}},
        ],
    }
    (folder / "05_2d_tiling.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def context(fake_build, fake_profiles):
    """What expressions of step 05 see."""
    from tools.claims.context import Context

    return Context(fake_build.path, HERE, profiles=fake_profiles)


def claims_text(*checks: str, fewest: int = 8, **more: str) -> str:
    """A claims.toml with these checks, filled up with claims that hold."""
    filled = [*checks, *["const('05', 'BK') == 8"] * (fewest - len(checks))]
    tables = [
        f'[[claim]]\nid = "claim-{n}"\nsays = "Sentence {n}."\ncheck = """{check}"""\n'
        + "".join(f"{key} = {value}\n" for key, value in (more.items() if n == 1 else ()))
        for n, check in enumerate(filled, 1)
    ]
    return "\n".join(tables)


@pytest.fixture
def step_dir(tmp_path):
    """Makes a copy of step 05 with a claims.toml of its own."""

    def make(text: str) -> Path:
        folder = tmp_path / "steps" / "05_2d_tiling"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.cu").write_text((ROOT / "steps" / "05_2d_tiling" / "kernel.cu").read_text())
        (folder / "claims.toml").write_text(text)
        return folder

    return make


@pytest.fixture
def claims_py(tmp_path):
    """Runs the checker from another directory."""

    def run(*arguments):
        command = [sys.executable, "-m", "tools", "claims", *arguments]
        return subprocess.run(
            [*map(str, command)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )

    return run
