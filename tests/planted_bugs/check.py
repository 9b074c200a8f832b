"""Runs a program with a planted bug and wants it rejected, for the reason that the bug's file gives.

tests/planted_bugs/NAME.toml holds a bug as a change of a right kernel (common/tools/edits.py), and:

  wrong, seen    for the reader: the mistake, and what one notices of it
  check          what `run --check` must print: tables with `says`, and with `place` if the message must name
                 a line of the kernel, the one that holds this code
  gpu            what rejects it on a GPU, one of them at least: "verify", the program's own verification, or
                 tools of compute-sanitizer
  not_on_gpu     or why it is not run there
  cases          the problem that shows the bug, as options of the program
  gpu_cases      that which shows it on a GPU, if it is another one: it has more multiprocessors

`// BUG` in the changed code marks the mistake where the change is more than that. To add a bug: write its
file, put its name into common/programs/meson.build, and run, inside the build directory,

  meson compile NAME && meson test 'rejects NAME'

The whole kernel is then in common/programs/NAME.cuh.

Exit status: 0 rejected, 1 not, 2 a file that cannot be read, 77 (skipped) what it needs is not here.
"""

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "common"))
from tools.base import EMULATOR, read_fields, read_text, read_toml, run_program
from tools.edits import EditedKernel

TIMEOUT_S = 60
SKIPPED = 77
MIN_BUGS = 15
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
REJECTED, UNAVAILABLE = 1, 3  # exit statuses of the programs


@dataclass
class Message:
    says: str
    place: str = ""


@dataclass(kw_only=True)
class Bug(EditedKernel):
    name: str
    wrong: str
    seen: str
    checks: list[Message]
    cases: str
    gpu_cases: str = ""
    gpu: list = field(default_factory=list)
    not_on_gpu: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gpu and not self.not_on_gpu:
            raise ValueError("says neither gpu nor not_on_gpu")
        if unknown := set(self.gpu) - {"verify", *TOOLS}:
            raise ValueError(f"gpu names {', '.join(unknown)}")
        self.kernel = self.source()
        for message in self.checks:
            if (count := self.kernel.count(message.place)) != 1 and message.place:
                raise ValueError(f"the kernel has {count} places like '{message.place}', not one")

    def lacks(self, output: str, kernel: Path) -> str:
        """The first of the messages that is not there, with its place in the kernel's file; "" if all are."""
        text = read_text(kernel)
        for message in self.checks:
            line = text[: text.index(message.place)].count("\n") + 1
            place = f"{kernel.name}:{line}: " if message.place else ""
            if not any(message.says in said and place in said for said in output.splitlines()):
                return place + message.says
        return ""


def read_bug(path: Path) -> Bug:
    return read_fields(Bug, read_toml(path), path, name=path.stem)


def run(command: list[str]) -> tuple[int, str]:
    """Exit status and all output; a status of -1 means that the time was up."""
    print("$", " ".join(command), flush=True)
    try:
        done = subprocess.run(
            [*EMULATOR, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        output = expired.stdout or b""  # bytes even in text mode
        return -1, output.decode(errors="replace") if isinstance(output, bytes) else output
    return done.returncode, done.stdout


def describe_status(status: int) -> str:
    return f"ran for more than {TIMEOUT_S} s" if status == -1 else f"ended with status {status}"


def check_on_cpu(bug: Bug, program: str, kernel: Path) -> int:
    """kernel: the file that the program was made of."""
    status, output = run([program, "--device", "cpu", "--check", "--repeat", "0", *bug.cases.split()])
    print(output)
    if status == UNAVAILABLE:
        print(f"skipped: {bug.name} cannot be checked by this build")
        return SKIPPED
    if status != REJECTED:
        print(f"error: {bug.name} {describe_status(status)}; a rejected program ends with {REJECTED}")
        return 1
    if lacking := bug.lacks(output, kernel):
        print(f"error: {bug.name} was rejected, but no line says '{lacking}'")
        return 1
    return 0


def find_sanitizer() -> str | None:
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")


def on_gpu(program: str, bug: Bug) -> list[str]:
    return [program, "--device", "gpu", "--repeat", "0", *(bug.gpu_cases or bug.cases).split()]


def rejected_by_program(program: str, bug: Bug) -> bool | None:
    """Whether verification rejects the bug (an error of the CUDA runtime counts); None: there is no GPU."""
    status, output = run(on_gpu(program, bug))
    print(output)
    return None if status == UNAVAILABLE else status == REJECTED


def rejected_by_tool(sanitizer: str, tool: str, program: str, bug: Bug) -> bool | None:
    """Whether a tool of compute-sanitizer reports an error in the bug's kernel; None: it cannot run here."""
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9", *on_gpu(program, bug)]
    status, output = run(command)
    report = output.splitlines()
    print("\n".join(report[:40] + (["..."] if len(report) > 40 else []) + report[-3:]))
    if "Device not supported" in output or status == UNAVAILABLE:
        return None
    # The program's own exit status stands if it fails; the summary tells what the tool thought.
    summary = re.search(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) ", output)
    kernels = re.findall(r"__global__ void [^;{]*?(s?gemm_\w+)\(", bug.kernel)
    return summary is not None and int(summary[1]) > 0 and any(name in output for name in kernels)


def check_on_gpu(bug: Bug, program: str) -> int:
    if bug.not_on_gpu:
        print(f"skipped: {bug.name} is not run on a GPU: {bug.not_on_gpu}")
        return SKIPPED
    verdict = rejected_by_program(program, bug)
    if verdict is None:
        print("skipped: there is no GPU that can run this")
        return SKIPPED
    verdicts = {"verify": verdict}
    sanitizer = find_sanitizer()
    for tool in [word for word in bug.gpu if word != "verify"]:
        verdicts[tool] = rejected_by_tool(sanitizer, tool, program, bug) if sanitizer else None
        if verdicts[tool] is None:
            why = "it cannot run here" if sanitizer else "no compute-sanitizer found"
            print(f"{tool} left out: {why}")
    words = {True: "rejects it", False: "lets it pass", None: "did not run"}
    print(f"{bug.name}: " + "; ".join(f"{name} {words[verdict]}" for name, verdict in verdicts.items()))
    if any(verdicts.values()):
        return 0
    if any(verdicts[name] is None for name in bug.gpu):
        print("skipped: what should reject it did not run")
        return SKIPPED
    print(f"error: nothing rejects {bug.name} on the GPU")
    return 1


def check_inventory(folder: Path, registered: set[str]) -> int:
    bugs = {path.stem: read_bug(path) for path in sorted(folder.glob("*.toml"))}
    problems = [
        f"{name}.toml is not in the list in common/programs/meson.build"
        for name in sorted(bugs.keys() - registered)
    ]
    problems += [
        f"common/programs/meson.build lists {name}, which has no .toml"
        for name in sorted(registered - bugs.keys())
    ]
    if len(bugs) < MIN_BUGS:
        problems.append(f"there are {len(bugs)} bugs; at least {MIN_BUGS} are needed")
    for problem in problems:
        print("error:", problem)
    not_on_gpu = [bug.name for bug in bugs.values() if bug.not_on_gpu]
    print(f"{len(bugs)} bugs; not run on a GPU: {', '.join(not_on_gpu) or 'none'}")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode in ("cpu", "gpu"):
        modes.add_parser(mode)
        modes.choices[mode].add_argument("bug", type=Path, help="its file")
        modes.choices[mode].add_argument("program")
    modes.choices["cpu"].add_argument("kernel", type=Path, help="the file that the program was made of")
    inventory = modes.add_parser("inventory")
    inventory.add_argument("folder", type=Path)
    inventory.add_argument("registered", nargs="+", help="the names that the build knows")
    arguments = parser.parse_args()
    if arguments.mode == "inventory":
        return check_inventory(arguments.folder, set(arguments.registered))
    bug = read_bug(arguments.bug)
    if arguments.mode == "cpu":
        return check_on_cpu(bug, arguments.program, arguments.kernel)
    return check_on_gpu(bug, arguments.program)


if __name__ == "__main__":
    sys.exit(run_program(main))
