"""What the functions of an expression return (see values.py): accesses, profiles, measurements.

Their public attributes and methods are what an expression may use.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partialmethod
from typing import Any, ClassVar, TypeVar

from tools.base import UsageError
from tools.machine_code.listing import matches, parse_instruction
from tools.machine_code.loops import QUEUE, compute_capability
from tools.machine_code.occupancies import LIMITS
from tools.measuring.counters_record import STALLS, WHERE_LISTED

Text = str | None

K = TypeVar("K")
V = TypeVar("V")


class NotAvailable(Exception):
    """A value that cannot be had here, and why: no fault of the expression."""


class ExpressionError(UsageError):
    """What is wrong with an expression, in one line."""


class NoValue(ExpressionError):
    """A well-formed expression that has no value: no such access, division by zero, a faulty kernel."""


def pick(table: Mapping[K, V], key: K, no_such: str) -> V:
    """NoValue, which says what there is, if it is not in the table."""
    if key not in table:
        raise NoValue(f"{no_such}; there are {', '.join(map(str, table)) or 'none'}")
    return table[key]


class Figures:
    """Named figures of a record, as attributes, and those that follow from them."""

    _derived: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}

    def __init__(self, what: str, figures: Mapping[str, Any]):
        self._what = what
        self._figures = figures

    def __repr__(self) -> str:
        return self._what

    def __getattr__(self, name: str) -> Any:
        if name in self._derived:
            return self._derived[name](self)
        if name.startswith("_") or name not in self._figures:
            raise AttributeError(name)
        if self._figures[name] is None:
            raise NotAvailable(f"{self._what} was recorded without {name}")
        return self._figures[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._derived, *self._figures})


def rows_of(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The accesses in a record of `run --xray`."""
    return [row for kernel in record["xray"]["kernels"] for row in kernel["accesses"]]


class Accesses(Figures):
    """Rows of an X-ray, added up. Where nothing accesses the shared memory there are no bank conflicts: that
    must not pass for good news, so what is said of wavefronts is an error then."""

    _derived: ClassVar = {
        "rows": lambda a: len(a._rows),  # places in the source, counted once for each array and width
        "requests": lambda a: a._sum("requests"),  # instructions executed, counted once for each warp
        "lanes": lambda a: a._sum("lanes"),  # active lanes of all requests
        "words": lambda a: (
            sum(row["lanes"] * row["bytes"] for row in a._rows) // 4
        ),  # of 4 bytes, that lanes move
        # Of the lanes, of shared memory, while their threads had asynchronous copies under way.
        "lanes_during_copies": lambda a: a._sum("lanes_during_copies"),
        "width": lambda a: a._width(),  # bytes a lane moves at once; the accesses must agree
        # Global memory. bytes_used: distinct bytes that each request wanted, added up; l1_wavefronts: passes
        # through the banks of the L1 cache (copies count on both sides).
        "sectors": lambda a: a._global("sectors"),
        "bytes_used": lambda a: a._global("bytes_used"),
        "l1_wavefronts": lambda a: a._global("wavefronts"),
        "sectors_per_request": lambda a: a._quotient(a.sectors, a._sum("requests", "global")),
        "bytes_per_sector": lambda a: a._quotient(a.bytes_used, a.sectors),  # wanted, of its 32
        "l1_wavefronts_per_request": lambda a: a._quotient(a.l1_wavefronts, a._sum("requests", "global")),
        # Shared memory. wavefronts: passes through it; ideal: what the same accesses need if no bank is in
        # demand twice; conflicts: of the excess, what the banks written to cause.
        "wavefronts": lambda a: a._shared("wavefronts"),
        "ideal": lambda a: a._shared("ideal_wavefronts"),
        "excess": lambda a: a.wavefronts - a.ideal,
        "conflicts": lambda a: a._shared("conflicts"),
        "wavefronts_per_request": lambda a: a._quotient(a.wavefronts, a._sum("requests", "shared")),
    }

    def __init__(self, rows: list[dict[str, Any]], what: str):
        super().__init__(what, {})
        self._rows = rows

    def _sum(self, key: str, space: str | None = None) -> int:
        return sum(row.get(key, 0) for row in self._rows if space in (None, row["space"]))

    def _global(self, key: str) -> int:
        if self._rows and not any(row["space"] == "global" for row in self._rows):
            raise NoValue(f"the {self._what} is of shared memory, which has no sectors")
        return self._sum(key, "global")

    def _shared(self, key: str) -> int:
        if not any(row["space"] == "shared" for row in self._rows):
            raise NoValue(f"there is no {self._what} of shared memory")
        return self._sum(key, "shared")

    def _quotient(self, above: int, below: int) -> float:
        if below == 0:
            raise NoValue(f"there is no {self._what}")
        return above / below

    def _width(self) -> int:
        widths = {row["bytes"] for row in self._rows}
        if len(widths) != 1:
            found = ", ".join(map(str, sorted(widths))) or "none"
            raise NoValue(f"{self._what} has no one width; found {found}")
        return widths.pop()


class Xray(Accesses):
    """All memory accesses of a step, as the CPU device saw them in its aligned kernel. load, store, copy and
    access (all of them) choose by array, by a text in the source line, by space ('global' or 'shared'); an
    asynchronous copy shows twice, as an access to global and one to shared memory."""

    _derived: ClassVar = {
        **Accesses._derived,
        "shared_requests": lambda x: x._sum("requests", "shared"),
        "shared_wavefronts": lambda x: x._sum("wavefronts", "shared"),
        # Races, accesses out of bounds, reads of what was never written, and the like.
        "faults": lambda x: len(x._record.get("complaints") or []),
        "blocks": lambda x: x._record["xray"]["blocks"],
        # Of C: the largest error as a share of abs A * abs B, and by how much of itself it is too large as a
        # whole.
        "relative_error": lambda x: x._record["relative_error"],
        "bias": lambda x: x._record["bias"],
        "threads_per_block": lambda x: x._record["xray"]["kernels"][0]["threads_per_block"],
    }

    def __init__(self, step: str, record: dict[str, Any]):
        super().__init__(rows_of(record), f"access in {step}")
        self._step, self._record = step, record

    def _select(self, operation: Text, array: Text = None, line: Text = None, space: Text = None) -> Accesses:
        arrays = {row["array"] for row in self._rows}
        # A misspelt array must not pass for one that is never accessed.
        if array is not None and array not in arrays | {"A", "B", "C"}:
            known = ", ".join(sorted(arrays))
            raise NoValue(f"{self._step} accesses no array '{array}'; there are {known}")
        rows = [row for row in self._rows if line is None or line in row["source"]]
        if not rows and line is not None:
            raise NoValue(f"no access of {self._step} stands in a line with '{line}'")
        for key, wanted in (("operation", operation), ("array", array), ("space", space)):
            rows = [row for row in rows if wanted in (None, row[key])]
        words = (operation or "access", f"of {array}" if array else "", f"in '{line}'" if line else "")
        return Accesses(rows, " ".join(filter(None, (*words, f"in {self._step}"))))

    load = partialmethod(_select, "load")
    store = partialmethod(_select, "store")
    copy = partialmethod(_select, "copy")
    ldmatrix = partialmethod(_select, "ldmatrix")
    access = partialmethod(_select, None)


class Gpu(Figures):
    """The GPU that the evidence is from. Figures of the maker; the peaks follow from them."""

    _derived: ClassVar = {
        # FP32, each FFMA being two operations, at the highest clock.
        "peak_tflops": lambda g: g.sms * g.fp32_lanes_per_sm * 2 * g.max_sm_clock_mhz * 1e6 / 1e12,
        "dram_tb_per_s": lambda g: g.dram_bytes_per_s / 1e12,
        # Operations to a byte of DRAM traffic at which both peaks are reached: the roofline's ridge.
        "flops_per_byte": lambda g: g.peak_tflops * 1e12 / g.dram_bytes_per_s,
    }


class Ladder(Figures):
    """A measurement of ladder.json: its fields, and .ratio (to cuBLAS, which ran in turn with it). Of steps
    on tensor cores .ratio_sustained, .sustained_tflops and others stand beside it. counted_clock_mhz: of the
    multiprocessors, by their own counters; old records lack it."""

    def __init__(self, what: str, figures: Mapping[str, Any]):
        counted = (f"{of}counted_clock_mhz" for of in ("", "cublas_", "sustained_", "sustained_cublas_"))
        super().__init__(what, {**dict.fromkeys(counted), **figures})

    _derived: ClassVar = {
        "ratio": lambda m: m.ratio_to_cublas,
        "cublas_tflops": lambda m: m.tflops * m.time_us / m.cublas_time_us,
        # What the library's fastest algorithm says of itself: "tiles of 128 x 128, K in 4 parts".
        "cublas_tiles": lambda m: m.cublas_algorithm.partition(", ")[2],
    }


class Architecture(Figures):
    """What the compiler makes of a step for a GPU, by docs/evidence/architectures.json: .registers .spills,
    and of the main loop .loop_instructions .ffma .hmma .others .reuse_marks .clashes .bank_conflicts."""

    _derived: ClassVar = {
        "loop_instructions": lambda a: a.instructions,
        "others": lambda a: a.instructions - a.ffma - a.hmma - a._figures.get("hgmma", 0),
        # The most shared memory that a block can have on such a GPU.
        "shared_bytes_allowed": lambda a: LIMITS[compute_capability(a.arch)].shared_bytes_per_block,
    }

    def __init__(self, what: str, row: Mapping[str, Any]):
        figures = {key: value for key, value in row.items() if key != "loop"} | row["loop"]
        super().__init__(what, figures)

    def count(self, pattern: str) -> int:
        """Instructions of the main loop that match, e.g. "LDS.128"; see listing.matches."""
        mix = self._figures["mix"]
        return sum(n for opcode, n in mix.items() if matches(parse_instruction(opcode), pattern))


class RegisterBanks(Figures):
    """A pattern of experiments/register_banks: the fields of its measurement, and what models say of it, in
    cycles for an FFMA of a scheduler. patterns: all that were measured with so many warps, by name."""

    _derived: ClassVar = {
        "predicted": lambda b: b.model(f"bank {QUEUE}"),  # the rule of machine_code/loops.py
        "off": lambda b: b.predicted / b.cycles_per_ffma - 1,
    }

    def __init__(self, what: str, figures: Mapping[str, Any], models: Mapping[str, float]):
        super().__init__(what, figures)
        self._models = models

    def model(self, name: str) -> float:
        """By a model of experiments/register_banks/model.py: 'next 1', 'bank any', ..."""
        return pick(self._models, name, f"there is no model '{name}'")


class Profile(Figures):
    """What Nsight Compute recorded of a kernel: its counters as attributes, its stalls, its instructions."""

    def __init__(self, what: str, run: dict[str, Any], source: list[str], sms: int):
        super().__init__(what, {**dict.fromkeys(WHERE_LISTED), **run["counters"]})  # old ones lack some
        self._run = run
        self._sms = sms
        self._source = source  # lines of kernel.cu

    @property
    def cycles_per_hmma(self) -> float:
        """Cycles that the SMs counted, for each HMMA or HGMMA of a scheduler; an SM has four."""
        if not (instructions := self.hmma_instructions):
            raise NoValue(f"{self._what}: no HMMA was counted")
        return self.sm_cycles * 4 * self._sms / instructions

    def stall(self, reason: str) -> float:
        """The share of warp samples with this reason, in percent."""
        return 100 * self._run["stalls"].get(_known(reason), 0)

    def stall_cycles(self, reason: str) -> float:
        """Cycles that a warp spends with this reason for each instruction that it issues."""
        cycles = self._run["cycles_per_issue"]
        return cycles.get(_known(reason), cycles.get(f"{reason}_stall", 0))

    def stall_at(self, reason: str, pattern: str) -> float:
        """Of the samples with this reason, the share that found a warp at such an instruction, in percent."""

        def samples(of: str | None) -> int:
            return sum(i.get("stalls", {}).get(_known(reason), 0) for i in self._instructions(of))

        if (every := samples(None)) == 0:
            raise NoValue(f"{self._what} has no sample of {reason}")
        return 100 * samples(pattern) / every

    def executed(self, pattern: str | None = None, line: str | None = None) -> int:
        """How often instructions such as 'LDS.128' were executed, counted once for each warp; here and below
        also of those only that belong to a line of the source that holds a text."""
        if "instructions" in self._run or line is not None:
            return self._sum("executed", pattern, line)
        opcodes = self._run["opcodes"]  # of a library's kernel, there are only these
        return sum(n for op, n in opcodes.items() if not pattern or matches(parse_instruction(op), pattern))

    def sectors(self, pattern: str, line: str | None = None) -> int:
        return self._sum("sectors", pattern, line)

    def wavefronts(self, pattern: str, line: str | None = None) -> int:
        return self._sum("wavefronts", pattern, line)

    def excess(self, pattern: str) -> int:
        """Wavefronts of such instructions beyond what their accesses need."""
        return self._sum("wavefronts", pattern) - self._sum("ideal_wavefronts", pattern)

    def _sum(self, key: str, pattern: str | None, line: str | None = None) -> int:
        return sum(i.get(key) or 0 for i in self._instructions(pattern, line))

    def _instructions(self, pattern: str | None, line: str | None = None) -> Iterator[dict[str, Any]]:
        if "instructions" not in self._run:
            raise NotAvailable(f"{self._what} was recorded without its instructions")
        numbers = [number for number, text in enumerate(self._source, 1) if line is not None and line in text]
        if line is not None and not numbers:
            raise NoValue(f"{self._what}: no line of the kernel holds '{line}'")
        for instruction in self._run["instructions"]:
            if line is not None and instruction.get("line") not in numbers:
                continue
            if pattern is None or matches(parse_instruction(instruction["sass"]), pattern):
                yield instruction


def _known(reason: str) -> str:
    pick(STALLS, reason, f"there is no stall reason '{reason}'")
    return reason
