"""Runs what students write, and compilers on it, where it can do no harm. Standard library only.

bubblewrap (https://github.com/containers/bubblewrap) gives each program its own file system, of which it can
change one folder, and no network; the kernel's limits (prlimit of util-linux) bound its processor time,
memory and files. All that it starts ends with it. Where bubblewrap cannot run, such as in most containers,
the limits remain; programs that write nothing run there as another user, if this one is root (setpriv of
util-linux), and a worker can do little where Linux has Landlock (common/judge/walls.cpp).
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

READABLE = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/etc/alternatives")
# Of the environment.
KEPT = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CPU_DEVICE_CORES")
NOBODY = 65534
MIB = 1 << 20
MOST_SAID = 1 * MIB  # what is kept of an output
AS_NOBODY = (
    "bubblewrap cannot run here: a hand-in runs as a user without rights, who could read what everybody may "
    "and use the network"
)
WITHOUT = (
    "bubblewrap cannot run here: a hand-in could read and change your files and use the network; run the "
    "grader in a container"
)


def environment() -> dict[str, str]:
    """What a student's program, and what runs it, may know of the environment. Messages are English."""
    return {name: os.environ[name] for name in KEPT if name in os.environ} | {"LC_ALL": "C"}


@dataclass(frozen=True)
class Limits:
    """cpu_s: processor time of each process, in seconds; wall_s: of all, by the clock; memory: bytes of each
    process's address space, None: unlimited, as CUDA needs it; file: bytes of the largest file."""

    cpu_s: int = 60
    wall_s: float = 180
    memory: int | None = 4096 * MIB
    file: int = 256 * MIB
    processes: int = 4096  # of the user: all that this machine runs for them counts
    descriptors: int = 256

    @property
    def words(self) -> list[str]:
        words = [f"--cpu={self.cpu_s}:{self.cpu_s + 2}", f"--fsize={self.file}", "--core=0"]
        words += [f"--nofile={self.descriptors}", f"--nproc={self.processes}"]
        return ["prlimit", *words, *([f"--as={self.memory}"] if self.memory else []), "--"]


@cache
def works() -> bool:
    """Whether bubblewrap can keep programs in."""
    if shutil.which("bwrap") is None or os.environ.get("EXERCISES_ISOLATION") == "limits":
        return False
    said = subprocess.run([*_walls([], []), "true"], capture_output=True, check=False)
    return said.returncode == 0


@cache
def nobody() -> list[str]:
    """What makes a command another user's, who may write nowhere; nothing if it cannot be."""
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    words += ["--inh-caps=-all", "--bounding-set=-all"]
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return []
    # Unless that user does not even find the programs.
    tried = subprocess.run([*words, "test", "-r", __file__], capture_output=True, check=False)
    return words if tried.returncode == 0 else []


def weakness() -> str:
    """What a hand-in could do here, in one line; "" within walls."""
    return "" if works() else AS_NOBODY if nobody() else WITHOUT


def _walls(readable: Iterable[Path], writable: Iterable[Path]) -> list[str]:
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    words += ["--proc", "/proc", "--dev", "/dev", "--size", str(256 * MIB), "--tmpfs", "/tmp"]
    for system in (*READABLE, "/etc/ld.so.cache"):
        words += ["--ro-bind-try", system, system]
    for how, paths in (("--ro-bind", readable), ("--bind", writable)):
        for path in paths:
            words += [how, str(path.resolve()), str(path.resolve())]
    return words


def confined(
    command: list[str], limits: Limits, *, readable: Iterable[Path] = (), writable: Iterable[Path] = (),
    cwd: Path | None = None, gpu: bool = False,
) -> list[str]:  # fmt: skip
    """The command within walls and limits. Beside the system's programs it sees `readable`, and `writable`,
    which it can change; descriptors that are left open are passed on."""
    if not works():
        return [*limits.words, *([] if writable else nobody()), *command]
    walls = _walls(readable, writable)
    for path in Path("/dev").glob("nvidia*") if gpu else ():
        walls += ["--dev-bind", str(path), str(path)]
    walls += ["--remount-ro", "/"] if gpu else ["--remount-ro", "/dev", "--remount-ro", "/"]
    return [*walls, *(["--chdir", str(cwd.resolve())] if cwd else []), *limits.words, *command]


@dataclass(frozen=True)
class Ended:
    """status: as a shell says it; said: the beginning of all output; endless: it had to be ended."""

    status: int
    said: str
    endless: bool = False


def run_confined(command: list[str], limits: Limits, *, cwd: Path | None = None, **where: Any) -> Ended:
    """Runs the command to its end, with messages in English, and kills whatever it has started. Raises
    OSError if it cannot be started."""
    words = confined(command, limits, cwd=cwd, **where)
    with tempfile.TemporaryFile() as out:  # its size is limited, too
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
            cwd=cwd, env=environment(),
        )  # fmt: skip
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(limits.wall_s)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        out.seek(0)
        said = out.read(MOST_SAID).decode(errors="replace")
    # It was killed, or its processor time was up; a shell reports that plus 128.
    return Ended(status, said, abs(status) % 128 in (signal.SIGXCPU, signal.SIGKILL))
