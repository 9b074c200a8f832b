"""The program's messages in plain words, with what to look at. Standard library only."""

import re
from contextlib import suppress

from tools.claims.context import extents
from tools.claims.objects import NoValue
from tools.grading.content import without_comments
from tools.grading.finding import Finding
from tools.grading.run import ENDLESS, Outcome, Problem

FAULT = re.compile(
    r"(?P<kind>[^:]+): (?P<where>.+?)(?::(?P<line>\d+))?: (?:kernel (?P<kernel>\S+), )?"
    r"block (?P<block>\([\d,]+\)) thread (?P<thread>\([\d,]+\)) (?P<detail>.*)"
)
INDEX = "the largest value that the index takes, against the size that the array is declared with."
# kind: in plain words; what to look at
FAULTS = {
    "out-of-bounds access to global memory": (
        "A thread reaches outside a matrix",
        "the guard before this access: which rows, columns and terms exist at the edge? The sizes are no "
        "multiples of the tile.",
    ),
    "out-of-bounds access to shared memory": ("A thread reaches outside the shared arrays", INDEX),
    "array index out of bounds": ("An index is beyond the end of its array", INDEX),
    "read of uninitialised global memory": (
        "A thread reads what nobody has written",
        "beta: when it is 0, C must not be read at all; it may hold anything.",
    ),
    "write to read-only memory": (
        "A thread writes to A or B, which are inputs",
        "which array the line stores to.",
    ),
    "access to host memory": (
        "The kernel uses memory that is not the device's",
        "where the pointer or the array comes from: a kernel can use its arguments, A, B and C, its own "
        "variables and shared memory.",
    ),
    "misaligned access": (
        "A wide access begins at an address that is no multiple of its width",
        "which shapes make every row begin at a multiple of 16 bytes; the others need narrow accesses. In "
        "shared memory: a row, its padding included, has to be a multiple of 4 floats long, and elements "
        "change places in fours.",
    ),
    "read of uninitialised shared memory": (
        "A thread reads an element of shared memory that nobody has written",
        "who fills this element, and when: a barrier is missing between filling and reading, or, at the edge "
        "of a matrix, the tile is not filled up with zeros.",
    ),
    "data race on shared memory": (
        "Two threads use the same element of shared memory and nothing orders them: the result may be right "
        "today and wrong tomorrow",
        "the barriers: one after the tile is filled, before anybody reads it; one after the last read, "
        "before it is filled again. If both write: have two elements the same place? See "
        "docs/steps/03_shared_memory.md.",
    ),
    "data race on global memory": (
        "Two threads use the same element of a matrix and nothing orders them",
        "which thread owns which element of C: every element must belong to exactly one. Behind a row's last "
        "element the next row may begin.",
    ),
    "use of shared memory before its asynchronous copy arrived": (
        "A thread reads an element whose asynchronous copy may still be on its way",
        "async_copy_wait and what it counts, and the barrier after it: waiting is for the thread's own "
        "copies only. See docs/steps/09_async_copy.md.",
    ),
    "asynchronous copy that outlives its block": (
        "A block ends while a copy that it asked for may still be on its way",
        "the last round of the loop: ask for no tile that nobody multiplies, and wait for each that you "
        "asked for. See docs/steps/13_bulk_copy.md.",
    ),
    "operand not rounded to TF32": (
        "A warp gives the tensor cores an element with more bits than they look at",
        "the way from A and B to this product: each element is rounded once, by to_tf32() or round4(); what "
        "is cut off instead errs twice as much, and always towards zero.",
    ),
    "thread exit before a barrier": (
        "Some threads leave the kernel while others wait for them at a barrier",
        "every `return` before the last __syncthreads(): threads without an element of C still have to help.",
    ),
    "divergent barrier": (
        "The threads of a block wait at different barriers",
        "conditions around __syncthreads(): all threads of the block must meet at the same one.",
    ),
    "lane missing from a warp-wide operation": (
        "Some lanes of a warp wait for others that never come",
        "conditions around __syncwarp() and __shfl_sync(), and the masks: every lane of a mask must come.",
    ),
    "misuse of a barrier": (
        "A barrier is used in a way that a GPU leaves undefined",
        "the mask or the count: it has to name exactly those that come.",
    ),
    "deadlock": (
        "Threads wait at a barrier that can never open",
        "loops and conditions around __syncthreads(): does every thread reach it equally often?",
    ),
}
LEADING = "how far apart the rows are: lda, ldb and ldc, not K and N."
BATCH = (
    "the batch: blockIdx.z counts its matrices, which lie strideA, strideB and strideC elements apart; the "
    "grid needs g.batch blocks in z."
)
SHARED = "where the array is declared: what one thread writes and another reads is __shared__."
# What explains other faults, and is said before them.
FIRST = ("thread exit before", "divergent", "deadlock", "lane missing", "out-of-bounds access to global")
# in the message of a wrong result: what to look at
WRONG = {
    "before it had a value": "where the variable is declared: nothing is zero by itself.",
    "sum of nothing": "the variable that takes the products: is each added, and can it hold a fraction?",
    "leaves out k0": "the line that copies the tile: the terms of each turn begin at k0.",
    "transposed": "the indices in the product: [row][k] of A and [k][col] of B, in tiles as filled.",
    "changed places": "the rows and columns of a thread: where it sums and where it stores, they must be the "
    "same.",
    "never written": "the grid that is launched and the guard before the store: does every element of C "
    "have a thread, and does that thread store it?",
    "old value": "the store: these elements kept what C held before. Every element has to become "
    "alpha * sum + beta * C.",
    "alpha": "the line that stores C: alpha * sum + beta * C.",
    "beta": "the line that stores C: alpha * sum + beta * C.",
    "leading dimension": LEADING,
    "stale buffer": "which buffer is filled and which is read in each turn of the loop.",
    "terms": "the loop over k, at its beginning and its end: K need not be a multiple of the tile.",
    "must not read": "the guards: what lies beyond the edge of a matrix, and C when beta is 0, must not get "
    "into a sum.",
    "NaN": "what goes into the sum: does it begin at zero, and is every tile filled up to its edge?",
}
WRONG_ELSE = "one element by hand: which row of A and which column of B does the thread of this C[i][j] use?"


def fault_finding(complaint: str, file: str, problem: Problem, source: str) -> Finding | None:
    """The message of an observed run in plain words; None if it is no such message. source: the student's."""
    match = FAULT.fullmatch(complaint)
    if match is None or match["kind"] not in FAULTS:
        return None
    says, look = FAULTS[match["kind"]]
    line = int(match["line"]) if match["line"] and match["where"] == file else 0
    look = _where_options_point(look, problem) if "global" in match["kind"] else look
    detail = re.sub(r" \(and \d+ more at this line\)$", "", match["detail"])
    detail = re.sub(r"([\w.:\[\]]*\w) \+ (\d+) bytes", lambda place: _element(place, source), detail)
    where = f"Thread {match['thread']} of block {match['block']} {detail}."
    return Finding(match["kind"], f"{says} ({match['kind']}).", line, [where, f"Seen with {problem}."], look)


def _element(place: re.Match[str], source: str) -> str:
    """As[3][19] for "As + 460 bytes", where the source says how long a row is."""
    name, index = place[1], int(place[2]) // 4
    with suppress(NoValue):
        indices: list[str] = []
        for extent in reversed(extents(source, re.sub(r"\[.*?\]", "", name))):
            indices.insert(0, f"[{index % extent}]")
            index //= extent
        return name + "".join(indices)
    return place[0]


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
    """What to look at first, as plainer problems were right before."""
    if "--batch" in problem.options:
        return f"{BATCH} Otherwise: {look}"
    return f"{LEADING} Otherwise: {look}" if "--ld" in problem.options else look


def forgotten_shared(finding: Finding, source: str, solution: str) -> Finding | None:
    """A wrong result explained by an array that lacks the __shared__ that it has in the solution."""
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
    at = f" with {outcome.at}" if outcome.at else ""
    if outcome.crash == ENDLESS:
        says = f"The program did not come to its end{at}; it was stopped."
        look = "the loops: does each of them end, also with K = 0 and with ragged sizes?"
        return Finding("endless", says, look=look)
    # Once a kernel has been launched, the program itself says where it crashed.
    if "outside any kernel" in outcome.crash or outcome.crash.endswith(("signal 11", "signal 7")):
        return host_finding()
    if "outside the limits of CUDA" in outcome.crash:
        code = without_comments(source).splitlines()
        line = next((n for n, text in enumerate(code, 1) if re.search(r"(?<!\w)launch\s*\(", text)), 0)
        says = f"It launches what no GPU can{at}: the grid, a block or its shared memory is outside the "
        detail = (
            "A block has at least 1 thread and at most 1024 (x * y * z, with z up to 64) and at most 227 KiB "
            "of shared memory; a grid has at most 65535 blocks in y and in z."
        )
        look = "the block's size (32 x 32 threads are 1024, 64 x 64 are 4096), and the bytes that launch() "
        return Finding("launch", f"{says}limits of CUDA.", line, [detail], f"{look}asks for.")
    line = re.search(rf"{re.escape(file)}:(\d+)", outcome.crash)
    said = re.sub(r", address \S+?(?=;|$)|; run with --check.*", "", outcome.crash)
    look = (
        "the launch, the indices of the first and the last thread, and whether a thread has more "
        "than a few KB of arrays of its own."
    )
    return Finding("crash", f"The program ended early{at}: {said}.", int(line[1]) if line else 0, look=look)


def host_finding() -> Finding:
    says = "The host itself reads or writes A, B or C, outside any kernel. On a GPU that crashes."
    look = "the function that launches: it may look at sizes and addresses; the kernel does the work."
    return Finding("host work", says, look=look)
