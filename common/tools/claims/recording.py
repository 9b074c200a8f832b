"""What a step does to compute one tile of C, request by request, and which elements of A, B and C each lane
means by it.

The step runs on the CPU device with matrices in which every element has a value of its own. Whatever a kernel
does with its tiles, by the value that a load reads it is known which element that was: no layout, no
swizzle and no order of stages needs to be understood here. All values are TF32 numbers, so that rounding
leaves them as they are.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tools.base import EMULATOR, UsageError
from tools.claims.objects import NotAvailable, NoValue

FRACTIONS = 1024  # of a TF32 number, ten bits
EXPONENTS = range(-20, 20)
MOST = 2 * len(EXPONENTS) * FRACTIONS  # elements of A and B together that can be told apart
MOST_PRODUCTS = 2**22  # of which `run --requests` keeps every request
FLOAT = 4  # bytes
LANES = 32


class Element(NamedTuple):
    """Of A, B or C."""

    matrix: str
    row: int
    col: int


@dataclass(frozen=True)
class Request:
    """One access by the lanes of a warp. Lanes that take no part have no address and no elements; of a bulk
    copy there is one address, and nothing is known of its elements."""

    warp: int
    sequence: int  # in the block: by its first access
    addresses: list[int | None]  # bytes from the array's first
    elements: list[list[Element | None]]  # of each lane; None: a zero past the matrix

    @cached_property
    def corners(self) -> list[tuple[int, int] | None]:
        """The smallest row and column of each lane's elements, if it has any."""
        known = ([e for e in elements if e] for elements in self.elements)
        return [(min([e.row for e in of]), min([e.col for e in of])) if of else None for of in known]

    def words(self, line: "Line") -> Iterator[tuple[int, Element | None, int]]:
        """Of what the lanes get, word by word: the lane, the element and its address. Of an ldmatrix, eight
        lanes give the addresses of a matrix's rows, and each lane gets a word of each matrix."""
        for lane, elements in enumerate(self.elements):
            for n, element in enumerate(elements):
                ldmatrix = line.operation == "ldmatrix"
                begin = self.addresses[8 * n + lane // 4 if ldmatrix else lane]
                assert begin is not None
                yield lane, element, begin + FLOAT * (lane % 4 if ldmatrix else n)


@dataclass(frozen=True)
class Line:
    """All accesses of one kind at one line of the source."""

    line: int
    space: str  # global or shared
    operation: str  # load, store, copy or ldmatrix
    array: str
    bytes: int  # of a lane
    requests: list[Request]


@dataclass(frozen=True)
class Recording:
    step: str
    m: int
    n: int
    k: int
    lines: list[Line]

    def of(self, operations: tuple[str, ...], space: str = "") -> Iterator[tuple[Line, Request]]:
        for line in self.lines:
            if line.operation in operations and space in ("", line.space):
                yield from ((line, request) for request in line.requests)

    def owners(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Row and column of C -> the warp and the lane that store it."""
        found = {}
        for line, request in self.of(("store",), "global"):
            if line.array == "C":
                for lane, elements in enumerate(request.elements):
                    found.update({(e.row, e.col): (request.warp, lane) for e in elements if e})
        return found

    def operands(self) -> dict[tuple[int, int], set[Element]]:
        """Warp and lane -> the elements of A and B that it has in registers at some time to multiply them."""
        from_shared = any(line.space == "shared" for line in self.lines)
        found: dict[tuple[int, int], set[Element]] = {}
        for _, request in self.of(("load", "ldmatrix"), "shared" if from_shared else "global"):
            for lane, elements in enumerate(request.elements):
                kept = {e for e in elements if e and e.matrix in "AB"}
                found.setdefault((request.warp, lane), set()).update(kept)
        return found


# ---- Making one ------------------------------------------------------------------------------------------


def labels(m: int, n: int, k: int) -> tuple[Any, Any, dict[int, Element]]:
    """A and B as arrays of NumPy, and of each bit pattern the element."""
    import numpy as np

    if m * k + k * n > MOST:
        raise UsageError(f"{m} x {n} x {k} has too many elements to tell them apart; make K smaller")
    numbers = np.outer(np.exp2(EXPONENTS), 1 + np.arange(FRACTIONS) / FRACTIONS).ravel()
    numbers = np.random.default_rng(1).permutation([*numbers, *-numbers]).astype(np.float32)
    a, b = numbers[: m * k].reshape(m, k), numbers[m * k : m * k + k * n].reshape(k, n)
    element = {
        int(bits): Element(name, *map(int, at))
        for name, matrix in (("A", a), ("B", b))
        for at, bits in np.ndenumerate(matrix.view(np.uint32))
    }
    return a, b, element


def run(step: str, program: Path, m: int, n: int, k: int, *options: object) -> dict[str, Any]:
    """The record of a step's program, as `--xray --json` writes it. NotAvailable if it cannot observe."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "xray.json"
        command = [program.resolve(), "--xray", "--m", m, "--n", n, "--k", k, *options, "--json", out]
        try:
            result = subprocess.run(
                [*EMULATOR, *map(str, command)], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise NoValue(f"{program} cannot be run: {error.strerror}") from None
        lines = (result.stderr or result.stdout).splitlines()
        said = next((line.strip().removeprefix("error: ") for line in lines if line.strip()), "")
        if result.returncode == 3:
            raise NotAvailable(f"{step} run --xray: {said}")
        try:
            record = json.loads(out.read_text())
            record = record[0] if isinstance(record, list) else record
            record["xray"]["kernels"][0]["accesses"]
            return record
        except (OSError, ValueError, LookupError, TypeError):
            ended = f"{step} run --xray ended with exit status {result.returncode}"
            raise NoValue(f"{ended}: {said or 'it printed nothing'}") from None


def record(step: str, program: Path, m: int, n: int, k: int) -> dict[str, Any]:
    """Runs the step on a problem of one block's tile. The JSON record of that, in which the words that a
    request reads have become elements: [matrix, row, column], or null for a zero past the matrix."""
    import numpy as np

    a, b, element = labels(m, n, k)
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        np.save(here / "a.npy", a)
        np.save(here / "b.npy", b)
        found = run(step, program, m, n, k, "--requests", "--a", here / "a.npy", "--b", here / "b.npy")
    kernel = max(found["xray"]["kernels"], key=lambda kernel: sum(a["requests"] for a in kernel["accesses"]))
    strides = {"A": k, "B": n, "C": n}
    lines = []
    for access in kernel["accesses"]:
        width = access["bytes"] // FLOAT
        requests = []
        for request in access.get("requests_kept", []):
            addresses, words = request["addresses"], request["words"]
            stride = strides.get(access["array"]) if access["space"] == "global" else None
            elements: list[Any] = []
            if len(addresses) == LANES and words:
                parts = [words[lane * width : (lane + 1) * width] for lane in range(LANES)]
                if access["operation"] == "ldmatrix":
                    parts = [of_matrices(parts, lane) for lane in range(LANES)]
                taking_part = [access["operation"] == "ldmatrix" or a is not None for a in addresses]
                elements = [
                    [element.get(word) for word in part] if takes else []
                    for part, takes in zip(parts, taking_part, strict=True)
                ]
            elif len(addresses) == LANES and stride:  # a store: it says where
                elements = [
                    [(access["array"], *divmod(address // FLOAT + i, stride)) for i in range(width)]
                    if address is not None
                    else []
                    for address in addresses
                ]
            requests.append([request["warp"], request["sequence"], addresses, elements])
        keys = ("line", "space", "operation", "array", "bytes")
        lines.append({**{key: access[key] for key in keys}, "requests": requests})
    return {"m": m, "n": n, "k": k, "lines": lines}


def of_matrices(rows: list[list[int]], lane: int) -> list[int]:
    """What ldmatrix gives a lane: a word of each of the four matrices. Eight lanes point at the eight rows of
    one."""
    return [rows[8 * matrix + lane // 4][lane % 4] for matrix in range(LANES // 8)]


def from_record(step: str, found: dict[str, Any]) -> Recording:
    lines = []
    for line in found["lines"]:
        requests = [
            Request(warp, sequence, addresses, [[e and Element(*e) for e in lane] for lane in elements])
            for warp, sequence, addresses, elements in line["requests"]
        ]
        lines.append(Line(**{**line, "requests": requests}))
    return Recording(step, found["m"], found["n"], found["k"], lines)
