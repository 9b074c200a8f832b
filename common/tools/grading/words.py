"""The program's messages in plain words, with what to look at. Standard library only."""

import re
from pathlib import Path

from tools.base import read_toml
from tools.grading.content import without_comments
from tools.grading.finding import Finding
from tools.grading.run import ENDLESS, Outcome, Problem

FAULT = re.compile(
    r"(?P<kind>[^:]+): (?P<where>.+?)(?::(?P<line>\d+))?: (?:kernel (?P<kernel>\S+), )?"
    r"block (?P<block>\([\d,]+\)) thread (?P<thread>\([\d,]+\)) (?P<detail>.*)"
)
WORDS = read_toml(Path(__file__).parent / "words.toml")
WRONG = WORDS["wrong"]
BATCH = (
    "the batch: blockIdx.z counts its matrices, which lie strideA, strideB and strideC elements apart; the "
    "grid needs g.batch blocks in z."
)
# These explain other faults, and are reported first.
FIRST = ("divergent", "deadlock", "lane missing", "out-of-bounds access to global")
SHARED = "where the array is declared: what one thread writes and another reads is __shared__."
WRONG_ELSE = "one element by hand: which row of A and which column of B does the thread of this C[i][j] use?"


def fault_finding(complaint: str, file: str, problem: Problem) -> Finding | None:
    """The message of an observed run in plain words; None if it is no such message."""
    message, *table = complaint.splitlines() or [""]  # a deadlock's table: who waits for whom
    match = FAULT.fullmatch(message)
    if match is None or match["kind"] not in WORDS["fault"]:
        return None
    says, look = WORDS["fault"][match["kind"]].values()
    line = int(match["line"]) if match["line"] and match["where"] == file else 0
    look = _where_options_point(look, problem) if "global" in match["kind"] else look
    detail = re.sub(r" \(and \d+ more at this line\)", "", match["detail"])
    where = f"Thread {match['thread']} of block {match['block']} {detail}."
    return Finding(
        match["kind"], f"{says} ({match['kind']}).", line, [where, *table, f"Seen with {problem}."], look
    )


def wrong_finding(complaint: str, problem: Problem, otherwise: str = "") -> Finding:
    """A wrong result, or a write outside of C, in plain words. otherwise: what to look at if the wrong
    elements do not say it."""
    if match := re.match(r"write outside of a matrix.*?: (.*)", complaint):
        says = f"The kernel writes outside C with {problem}: {match[1]}."
        look = "the guard before the store: which rows and columns does C have?"
        return Finding("stray write", says, look=look)
    match = re.match(r"wrong result.*?: (\d+ of \d+ elements); (.*)", complaint)
    if match is None:
        return Finding("wrong result", f"It fails with {problem}: {complaint}.", look=WRONG_ELSE)
    count, rest = match[1], match[2]
    details = [rest[0].upper() + rest[1:] + "."]
    look = next((look for words, look in WRONG.items() if words in rest), "")
    look = otherwise if otherwise and look in (WRONG["transposed"], WRONG["changed places"]) else look
    look = look or _where_options_point(otherwise or WRONG_ELSE, problem)
    if re.search(r"of matrix [1-9]", rest):
        details.append("All of the batch's first matrix is right.")
        look = BATCH
    return Finding("wrong result", f"The result is wrong with {problem}: {count}.", 0, details, look)


def _where_options_point(look: str, problem: Problem) -> str:
    """What to look at, first what sets this problem apart from plainer ones, which were right."""
    if "--batch" in problem.options:
        return f"{BATCH} Otherwise: {look}"
    return f"{WRONG['leading dimension']} Otherwise: {look}" if "--ld" in problem.options else look


def forgotten_shared(finding: Finding, source: str, solution: str) -> Finding | None:
    """A wrong result explained by an array that lacks the __shared__ that it has in the solution."""
    if finding.code != "wrong result":
        return None
    shared = set(re.findall(r"(\w+)\s*\[", " ".join(re.findall(r"__shared__([^;=]*);", solution))))
    for number, line in enumerate(without_comments(source).splitlines(), 1):
        declared = re.match(r"\s*(?:(?:__align__|alignas)\s*\(\w+\)\s*)?float[234]?\s+(\w.*);", line)
        names = re.findall(r"(\w+)\s*\[", declared[1].split("=")[0]) if declared else []
        for name in shared.intersection(names):
            says = f"{finding.says} {name} is declared without __shared__: each thread has one of its own."
            return Finding("wrong result", says, number, finding.details, SHARED)
    return None


def ended_finding(outcome: Outcome, file: str, source: str = "") -> Finding:
    """A program that crashed or did not end. source: the student's."""
    line = 0
    if "outside any kernel" in outcome.crash:
        return host_finding()
    if no_kernel := re.search("launch: `(.*)` is no kernel", outcome.crash):
        name = re.sub(r"<.*|.*::", "", no_kernel[1])
        says = f"`{name}` is launched, but it is no kernel" if name else "It launches what is no kernel"
        whole = rf"\b{re.escape(name or '-')}\b"  # the program has said it
        word = re.compile(whole if re.search(whole, source) else r"\blaunch\b")
        line = next((n for n, text in enumerate(source.splitlines(), 1) if word.search(text)), 0)
        says += ": __global__ is missing before it."
        return Finding("no CUDA", says, line, look="the words before the function.")
    if outcome.crash == ENDLESS:
        code = "endless"
    elif "outside the limits of CUDA" in outcome.crash:
        code = "launch"
        if launch := re.search(r"(?<!\w)launch\s*\(", text := without_comments(source)):
            line = text.count("\n", 0, launch.start()) + 1
    elif outcome.crash.startswith("assert: "):
        code, condition = "assert", "".join(outcome.crash.removeprefix("assert: ").split())
        lines = enumerate(without_comments(source).splitlines(), 1)
        line = next((n for n, text in lines if f"assert({condition}" in "".join(text.split())), 0)
    else:
        code = "crash"
        if place := re.search(rf"{re.escape(file)}:(\d+)", outcome.crash):
            line = int(place[1])
    says, look = WORDS["ended"][code].values()
    said = re.sub(r", address [^;,]+|; run with --check.*", "", outcome.crash)
    at = f" with {outcome.at}" if outcome.at else ""
    return Finding(code, says.format(at=at, said=said), line, look=look)


def host_finding() -> Finding:
    says, look = WORDS["ended"]["host work"].values()
    return Finding("host work", says, look=look)
