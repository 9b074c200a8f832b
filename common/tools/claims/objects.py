"""What the functions of an expression return (see values.py): accesses, profiles, measurements.

Their public attributes and methods are what an expression may use.
"""

from collections.abc import Iterator
from typing import Any

from tools.machine_code.listing import matches, parse_instruction


class NotAvailable(Exception):
    """A value that cannot be had here, and why: no fault of the expression."""


class ExpressionError(Exception):
    """What is wrong with an expression, in one line."""


class ValueProblem(ExpressionError):
    """A well-formed expression that has no value: no such access, division by zero, a faulty kernel."""


class Accesses:
    """Rows of an X-ray, added up. `.ideal` and `.excess` are wavefronts of shared memory."""

    def __init__(self, rows: list[dict[str, Any]], what: str):
        self._rows = rows
        self._what = what

    def __repr__(self) -> str:
        return f"{self._what}: {len(self._rows)} rows"

    def _sum(self, key: str, space: str | None = None) -> int:
        return sum(row[key] for row in self._rows if space in (None, row["space"]))

    def _sum_global(self, key: str) -> int:
        if self._rows and not any(row["space"] == "global" for row in self._rows):
            raise ValueProblem(f"the {self._what} is of shared memory, which has no sectors")
        return self._sum(key, "global")

    def _sum_shared(self, key: str) -> int:
        # Where there is nothing, there are no bank conflicts: that must not pass for good news.
        if not any(row["space"] == "shared" for row in self._rows):
            raise ValueProblem(f"there is no {self._what} of shared memory")
        return self._sum(key, "shared")

    @property
    def rows(self) -> int:
        """In how many places of the source, counted once for each array and width."""
        return len(self._rows)

    @property
    def requests(self) -> int:
        """Instructions executed, counted once for each warp. 0 if there is no such access."""
        return self._sum("requests")

    @property
    def lanes(self) -> int:
        """Active lanes of all requests."""
        return self._sum("lanes")

    @property
    def sectors(self) -> int:
        """Sectors of 32 bytes, of global memory."""
        return self._sum_global("sectors")

    @property
    def lanes_during_copies(self) -> int:
        """Of these, of shared memory, while their threads had asynchronous copies under way."""
        return sum(row.get("lanes_during_copies", 0) for row in self._rows)

    @property
    def bytes_used(self) -> int:
        """Distinct bytes of global memory that each request wanted, added up."""
        return self._sum_global("bytes_used")

    @property
    def sectors_per_request(self) -> float:
        """Of the requests to global memory."""
        return self._quotient(self.sectors, self._sum("requests", "global"))

    @property
    def bytes_per_sector(self) -> float:
        """Of the 32 bytes of a sector, how many were wanted."""
        return self._quotient(self.bytes_used, self.sectors)

    @property
    def wavefronts(self) -> int:
        """Passes through the shared memory. An error, here and below, if nothing accesses it."""
        return self._sum_shared("wavefronts")

    @property
    def ideal(self) -> int:
        """Wavefronts that the same accesses need if no bank is in demand twice."""
        return self._sum_shared("ideal_wavefronts")

    @property
    def excess(self) -> int:
        """Wavefronts beyond the ideal."""
        return self.wavefronts - self.ideal

    @property
    def conflicts(self) -> int:
        """Of these, the ones that the banks written to cause. (Those read from count in `.excess`.)"""
        return self._sum_shared("conflicts")

    @property
    def wavefronts_per_request(self) -> float:
        """Of the requests to shared memory."""
        return self._quotient(self.wavefronts, self._sum("requests", "shared"))

    @property
    def l1_wavefronts(self) -> int:
        """Passes through the banks of the L1 cache, of global memory. (Copies count on both sides.)"""
        return self._sum_global("wavefronts")

    @property
    def l1_wavefronts_per_request(self) -> float:
        """Of the requests to global memory."""
        return self._quotient(self.l1_wavefronts, self._sum("requests", "global"))

    def _quotient(self, above: int, below: int) -> float:
        if below == 0:
            raise ValueProblem(f"there is no {self._what}")
        return above / below

    @property
    def width(self) -> int:
        """Bytes a lane moves at once; the accesses must agree."""
        widths = {row["bytes"] for row in self._rows}
        if len(widths) != 1:
            found = ", ".join(map(str, sorted(widths))) or "none"
            raise ValueProblem(f"{self._what} has no one width; found {found}")
        return widths.pop()


class Xray:
    """The memory accesses of a step, as the CPU device saw them in its aligned kernel."""

    def __init__(self, step: str, record: dict[str, Any]):
        self._step = step
        self._record = record
        self._rows = [row for kernel in record["xray"]["kernels"] for row in kernel["accesses"]]

    def __repr__(self) -> str:
        return f"xray of {self._step}"

    def _select(
        self, operation: str | None, array: str | None, line: str | None, space: str | None
    ) -> Accesses:
        arrays = {row["array"] for row in self._rows}
        # A misspelt array must not pass for one that is never accessed.
        if array is not None and array not in arrays | {"A", "B", "C"}:
            raise ValueProblem(
                f"{self._step} accesses no array '{array}'; there are {', '.join(sorted(arrays))}"
            )
        if line is not None and not any(line in row["source"] for row in self._rows):
            raise ValueProblem(f"no access of {self._step} stands in a line with '{line}'")
        rows = [
            row
            for row in self._rows
            if operation in (None, row["operation"])
            and array in (None, row["array"])
            and space in (None, row["space"])
            and (line is None or line in row["source"])
        ]
        words = (operation or "access", f"of {array}" if array else "", f"in '{line}'" if line else "")
        return Accesses(rows, " ".join(filter(None, (*words, f"in {self._step}"))))

    def load(self, array: str | None = None, line: str | None = None, space: str | None = None) -> Accesses:
        """The loads (of an array, in a source line that holds the text, from 'global' or 'shared' memory)."""
        return self._select("load", array, line, space)

    def store(self, array: str | None = None, line: str | None = None, space: str | None = None) -> Accesses:
        return self._select("store", array, line, space)

    def copy(self, array: str | None = None, line: str | None = None, space: str | None = None) -> Accesses:
        """The asynchronous copies; each shows twice, as an access to global and one to shared memory."""
        return self._select("copy", array, line, space)

    def access(self, array: str | None = None, line: str | None = None, space: str | None = None) -> Accesses:
        """Loads, stores and copies together."""
        return self._select(None, array, line, space)

    @property
    def global_requests(self) -> int:
        return self.access(space="global").requests

    @property
    def global_sectors(self) -> int:
        return self.access(space="global").sectors

    @property
    def global_bytes(self) -> int:
        """Bytes moved to and from global memory: all of each sector."""
        return self.global_sectors * 32

    @property
    def global_bytes_used(self) -> int:
        return self.access(space="global").bytes_used

    @property
    def shared_requests(self) -> int:
        return self.access(space="shared").requests

    @property
    def shared_wavefronts(self) -> int:
        return self.access()._sum("wavefronts", "shared")

    @property
    def excess(self) -> int:
        """Wavefronts of shared memory beyond the ideal."""
        return self.access(space="shared").excess

    @property
    def conflicts(self) -> int:
        """Of these, the ones that bank conflicts cost."""
        return self.access(space="shared").conflicts

    @property
    def faults(self) -> int:
        """Races, accesses out of bounds, reads of what was never written, and the like."""
        return len(self._record.get("complaints") or [])

    @property
    def blocks(self) -> int:
        return self._record["xray"]["blocks"]

    @property
    def threads_per_block(self) -> int:
        return self._record["xray"]["kernels"][0]["threads_per_block"]


class Figures:
    """Named figures of a record, as attributes."""

    def __init__(self, what: str, figures: dict[str, Any]):
        self._what = what
        self._figures = figures

    def __repr__(self) -> str:
        return self._what

    def __getattr__(self, name: str) -> Any:
        figures = self.__dict__.get("_figures", {})
        if name.startswith("_") or name not in figures:
            raise AttributeError(name)
        if figures[name] is None:
            raise NotAvailable(f"{self._what} was recorded without {name}")
        return figures[name]

    def _names(self) -> list[str]:
        return sorted(self._figures)


class Gpu(Figures):
    """The GPU that the evidence is from. Figures of the maker; the peaks follow from them."""

    @property
    def peak_tflops(self) -> float:
        """FP32, each FFMA being two operations, at the highest clock."""
        return self.sms * self.fp32_lanes_per_sm * 2 * self.max_sm_clock_mhz * 1e6 / 1e12

    @property
    def dram_tb_per_s(self) -> float:
        return self.dram_bytes_per_s / 1e12

    @property
    def flops_per_byte(self) -> float:
        """Operations to a byte of DRAM traffic at which both peaks are reached: the roofline's ridge."""
        return self.peak_tflops * 1e12 / self.dram_bytes_per_s


STALL_REASONS = (  # as Nsight Compute names them
    "barrier", "branch_resolving", "dispatch", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instruction", "not_selected", "selected",
    "short_scoreboard", "sleeping", "tex_throttle", "wait",
)  # fmt: skip


class Profile(Figures):
    """What Nsight Compute recorded of a kernel: its counters as attributes, its stalls, its instructions."""

    def __init__(self, what: str, run: dict[str, Any], source: list[str]):
        super().__init__(what, run["counters"])
        self._run = run
        self._source = source  # lines of kernel.cu

    def _known(self, reason: str) -> str:
        if reason not in STALL_REASONS:
            raise ValueProblem(f"there is no stall reason '{reason}'; there are {', '.join(STALL_REASONS)}")
        return reason

    def stall(self, reason: str) -> float:
        """The share of warp samples with this reason, in percent."""
        return 100 * self._run["stalls"].get(self._known(reason), 0)

    def stall_cycles(self, reason: str) -> float:
        """Cycles that a warp spends with this reason for each instruction that it issues."""
        cycles = self._run["cycles_per_issue"]
        return cycles.get(self._known(reason), cycles.get(f"{reason}_stall", 0))

    def stall_at(self, reason: str, pattern: str) -> float:
        """Of the samples with this reason, the share that found a warp at such an instruction, in percent."""
        self._known(reason)

        def samples(of: str | None) -> int:
            return sum(i.get("stalls", {}).get(reason, 0) for i in self._instructions(of))

        if (every := samples(None)) == 0:
            raise ValueProblem(f"{self._what} has no sample of {reason}")
        return 100 * samples(pattern) / every

    def _instructions(self, pattern: str | None, line: str | None = None) -> Iterator[dict[str, Any]]:
        if "instructions" not in self._run:
            raise NotAvailable(f"{self._what} was recorded without its instructions")
        numbers = [number for number, text in enumerate(self._source, 1) if line is not None and line in text]
        if line is not None and not numbers:
            raise ValueProblem(f"{self._what}: no line of the kernel holds '{line}'")
        for instruction in self._run["instructions"]:
            if line is not None and instruction.get("line") not in numbers:
                continue
            if pattern is None or matches(parse_instruction(instruction["sass"]), pattern):
                yield instruction

    def executed(self, pattern: str | None = None, line: str | None = None) -> int:
        """How often instructions such as 'LDS.128' were executed, counted once for each warp; here and below
        also of those only that belong to a line of the source that holds a text."""
        if "instructions" in self._run or line is not None:
            return sum(i.get("executed") or 0 for i in self._instructions(pattern, line))
        opcodes = self._run["opcodes"]  # of a library's kernel, there are only these
        return sum(n for op, n in opcodes.items() if not pattern or matches(parse_instruction(op), pattern))

    def sectors(self, pattern: str, line: str | None = None) -> int:
        return sum(i.get("sectors") or 0 for i in self._instructions(pattern, line))

    def wavefronts(self, pattern: str, line: str | None = None) -> int:
        return sum(i.get("wavefronts") or 0 for i in self._instructions(pattern, line))

    def excess(self, pattern: str) -> int:
        """Wavefronts of such instructions beyond what their accesses need."""
        return sum(
            (i.get("wavefronts") or 0) - (i.get("ideal_wavefronts") or 0) for i in self._instructions(pattern)
        )


class Ladder(Figures):
    """A measurement of ladder.json: its fields, and .ratio (to cuBLAS) and .cublas_tflops."""

    @property
    def ratio(self) -> float:
        """The speed as a fraction of cuBLAS's, which ran in turn with it."""
        return self.ratio_to_cublas

    @property
    def cublas_tflops(self) -> float:
        return self.tflops * self.time_us / self.cublas_time_us
