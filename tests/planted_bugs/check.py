"""Runs a program with a planted bug and wants it rejected, for the reason that the kernel's header gives.

The header of a kernel begins with lines that this script reads:

    // bug: NAME               the file's name
    // check: TEXT             what `run --check` must print; several lines: each of them
    // place: CODE             the line of the source that the message before must name: the one holding CODE
    // gpu: verify, racecheck  what rejects it on a GPU: the program's own verification or a tool of
                               compute-sanitizer; one of them has to. "none (REASON)": not to be run there
    // cases: OPTIONS          the problem that shows the bug

Exit status: 0 rejected, 1 not, 2 a header that cannot be read, 77 (skipped) what it needs is not here.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT_S = 60
SKIPPED = 77
MIN_BUGS = 15
TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
REJECTED, UNAVAILABLE = 1, 3  # exit statuses of the programs


class HeaderError(Exception):
    """A header that does not say what it should."""


@dataclass
class Expectation:
    """A message that must appear, and the line of the source that it must name (0: any)."""

    text: str
    line: int = 0


@dataclass
class Bug:
    source: Path
    name: str
    kernel: str  # the name of the __global__ function
    cases: list[str]
    gpu: list[str]
    gpu_none: str = ""  # why it is not run on a GPU
    expected: list[Expectation] = field(default_factory=list)


def line_of(code: str, source: Path, lines: list[str]) -> int:
    body_begins = next(i for i, line in enumerate(lines) if not line.startswith("//"))
    found = [i + 1 for i, line in enumerate(lines) if i >= body_begins and code in line]
    if len(found) != 1:
        raise HeaderError(f"{source}: 'place: {code}' matches {len(found)} lines, not one")
    return found[0]


def read_gpu(bug: Bug, value: str) -> None:
    if none := re.fullmatch(r"none \((.+)\)", value):
        bug.gpu_none = none[1]
        return
    bug.gpu = [word.strip() for word in value.split(",")]
    if unknown := [word for word in bug.gpu if word not in ("verify", *TOOLS)]:
        raise HeaderError(f"{bug.source}: 'gpu: {value}' names {', '.join(unknown)}")


def read_bug(source: Path) -> Bug:
    lines = source.read_text(encoding="utf-8").splitlines()
    kernels = re.findall(r"__global__ void [^;{]*?(sgemm_\w+)\(", "\n".join(lines))
    if len(kernels) != 1:
        raise HeaderError(f"{source}: has {len(kernels)} kernels named sgemm_...; one is needed")
    bug = Bug(source, "", kernels[0], [], [])
    seen = set()
    for line in lines:
        match = re.fullmatch(r"// (bug|check|place|gpu|cases): (.+)", line)
        if match is None:
            break  # the machine-readable lines come first
        key, value = match[1], match[2].strip()
        if key in seen and key not in ("check", "place"):
            raise HeaderError(f"{source}: has two lines '// {key}:'")
        seen.add(key)
        if key == "bug":
            bug.name = value
        elif key == "check":
            bug.expected.append(Expectation(value))
        elif key == "place":
            if not bug.expected or bug.expected[-1].line:
                raise HeaderError(f"{source}: '// place:' must follow the '// check:' it belongs to")
            bug.expected[-1].line = line_of(value, source, lines)
        elif key == "gpu":
            read_gpu(bug, value)
        else:
            bug.cases = value.split()
    if missing := {"bug", "check", "gpu", "cases"} - seen:
        raise HeaderError(f"{source}: the header does not begin with '// {sorted(missing)[0]}: ...'")
    if bug.name != source.stem or bug.kernel != f"sgemm_{bug.name}":
        raise HeaderError(f"{source}: the bug, its file and its kernel (sgemm_...) must have the same name")
    return bug


def run(command: list[str]) -> tuple[int, str]:
    """Exit status and all output; a status of -1 means that the time was up."""
    print("$", " ".join(command), flush=True)
    try:
        done = subprocess.run(
            [*shlex.split(os.environ.get("EMULATOR", "")), *command],
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


def check_on_cpu(program: str, bug: Bug) -> int:
    status, output = run([program, "--device", "cpu", "--check", "--repeat", "0", *bug.cases])
    print(output)
    if status == UNAVAILABLE:
        print(f"skipped: {bug.name} cannot be checked by this build")
        return SKIPPED
    if status != REJECTED:
        print(f"error: {bug.name} {describe_status(status)}; a rejected program ends with {REJECTED}")
        return 1
    for expectation in bug.expected:
        place = f"{bug.source.name}:{expectation.line}: " if expectation.line else ""
        if not any(expectation.text in line and place in line for line in output.splitlines()):
            at = f" at {place.rstrip(': ')}" if place else ""
            print(f"error: {bug.name} was rejected, but no line says '{expectation.text}'{at}")
            return 1
    return 0


def find_sanitizer() -> str | None:
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")


def on_gpu(program: str, bug: Bug) -> list[str]:
    return [program, "--device", "gpu", "--repeat", "0", *bug.cases]


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
    return summary is not None and int(summary[1]) > 0 and bug.kernel in output


def check_on_gpu(program: str, bug: Bug) -> int:
    if bug.gpu_none:
        print(f"skipped: {bug.name} is not run on a GPU: {bug.gpu_none}")
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
    bugs = {source.stem: read_bug(source) for source in sorted(folder.glob("*.cu"))}
    problems = [
        f"{name}.cu is not in the list in common/programs/meson.build"
        for name in sorted(bugs.keys() - registered)
    ]
    problems += [
        f"common/programs/meson.build lists {name}, which has no .cu"
        for name in sorted(registered - bugs.keys())
    ]
    if len(bugs) < MIN_BUGS:
        problems.append(f"there are {len(bugs)} bugs; at least {MIN_BUGS} are needed")
    for problem in problems:
        print("error:", problem)
    not_on_gpu = [bug.name for bug in bugs.values() if bug.gpu_none]
    print(f"{len(bugs)} bugs; not run on a GPU: {', '.join(not_on_gpu) or 'none'}")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=("cpu", "gpu", "inventory"), required=True)
    parser.add_argument("target", help="cpu, gpu: the program; inventory: the folder of the kernels")
    parser.add_argument(
        "rest", nargs="+", help="cpu, gpu: the kernel's source; inventory: the registered names"
    )
    arguments = parser.parse_args()
    try:
        if arguments.mode == "inventory":
            return check_inventory(Path(arguments.target), set(arguments.rest))
        check = check_on_cpu if arguments.mode == "cpu" else check_on_gpu
        return check(arguments.target, read_bug(Path(arguments.rest[0])))
    except HeaderError as error:
        print("error:", error)
        return 2


if __name__ == "__main__":
    sys.exit(main())
