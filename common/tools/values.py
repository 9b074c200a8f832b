"""The values that claims and pages may speak of, and the expressions that combine them.

  evaluate("xray(here).load('B').sectors_per_request", Context(build, "02_coalescing"))  ->  4.0

Expressions are Python's, reduced to a whitelist: numbers, strings, lists, arithmetic, comparisons, `and`,
`or`, `not`, comprehensions, the functions below, and attributes and methods of what these return:

  xray(step)              the memory accesses that the CPU device saw on the standard problem; see Xray
  sass(step)              the machine code of the built program, a Kernel of sass.py; also arch='sm_80' and
                          kernel='regex'; by default the kernel for aligned shapes
  profile(step, n=4096)   what Nsight Compute counted on the GPU; see Profile
  ladder(step, n=4096)    measured speed, .tflops .ratio (to cuBLAS) .time_us ...; see Ladder
  experiment(name, variant)   a recorded experiment's .ratio .tflops .speedup ...
  const(step, 'BK')       a `constexpr int` of the step's kernel.cu
  min max abs round sum len all any

and the names gpu (figures of the GPU, with their sources in docs/evidence/h200/device.json), here and before
(this step's and the previous step's directory), steps (all of them), N = 4096. A step may be cut short: '05'.
The goals of exercises know `mine`, the student's kernel, in place of a step.

What cannot be had here (no GPU code in the build, nothing recorded yet) raises NotAvailable; what is wrong
raises ExpressionError, or its subclass ValueProblem if only a value showed it. Both hold one line.
Standard library only.
"""

import ast
import json
import operator
import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sass
from sass_listing import matches, parse_instruction

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs" / "evidence" / "h200"
N = 4096  # the size that measurements are quoted for
STANDARD_PROBLEM = (256, 256, 128)  # m, n, k of the X-ray
DEFAULT_ARCH = "sm_90a"


class NotAvailable(Exception):
    """A value that cannot be had here, and why: no fault of the expression."""


class ExpressionError(Exception):
    """What is wrong with an expression, in one line."""


class ValueProblem(ExpressionError):
    """A well-formed expression that has no value: no such access, division by zero, a faulty kernel."""


# ---- What the functions return -----------------------------------------------------------------------------


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


# ---- Where values come from --------------------------------------------------------------------------------


def all_steps() -> list[str]:
    """The directories of the steps, in order."""
    return sorted(path.parent.name for path in (ROOT / "steps").glob("[0-9][0-9]_*/kernel.cu"))


def _read_json(path: Path, what: str) -> Any:
    """A recorded file. NotAvailable if it is not there."""
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise NotAvailable(f"{what} is not recorded yet ({shown})") from None
    except (OSError, ValueError) as error:
        raise ValueProblem(f"{shown} cannot be read: {error}") from None


def constants(source: str) -> dict[str, int]:
    """The `constexpr int` constants of a kernel's source, outside functions: {'BM': 128, 'WM': 64, ...}."""
    found: dict[str, int] = {}
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    for match in re.finditer(r"^constexpr int ([^;]+);", text, re.MULTILINE):
        for item in match[1].split(","):
            name, equals, expression = (part.strip() for part in item.partition("="))
            value = _integer(expression, found) if equals else None
            if value is not None:
                found[name] = value
    return found


def _integer(expression: str, names: dict[str, int]) -> int | None:
    """The value of a constant C++ integer expression over known names; None if it is anything else."""

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name):
                return names[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right):
                a, b = value(left), value(right)
                match op:
                    case ast.Add():
                        return a + b
                    case ast.Sub():
                        return a - b
                    case ast.Mult():
                        return a * b
                    case ast.Div():  # towards zero, as in C++
                        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                    case ast.Mod():
                        return abs(a) % abs(b) * (1 if a >= 0 else -1)
        raise KeyError

    try:
        return value(ast.parse(expression, mode="eval").body)
    except (KeyError, SyntaxError, ZeroDivisionError):
        return None


@dataclass
class Context:
    """What an expression is evaluated in. build: the build directory, if there is one; step: the directory
    name of the step that the expression belongs to; arch: whose machine code sass() reads by default;
    step_dir: where that step's kernel.cu lies, if not in steps/; profiles: a directory with other profiles
    than the recorded ones; evidence: the directory of all that was recorded; mine: the directory of a
    student's kernel: kernel.cu, the program run and, where there is nvcc, kernel.cubin."""

    build: Path | None
    step: str
    arch: str | None = None
    step_dir: Path | None = None
    profiles: Path | None = None
    evidence: Path = EVIDENCE
    mine: Path | None = None
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def at(self, step: str, step_dir: Path | None = None, arch: str | None = None) -> "Context":
        """The same for another step or architecture; what has been read is shared."""
        return Context(self.build, step, arch, step_dir, self.profiles, self.evidence, self.mine, self._cache)

    def _cached(self, key: Any, make: Callable[[], Any]) -> Any:
        """make()'s result or failure, once for each key."""
        if key not in self._cache:
            try:
                self._cache[key] = make()
            except (NotAvailable, ExpressionError) as error:
                self._cache[key] = error
        result = self._cache[key]
        if isinstance(result, (NotAvailable, ExpressionError)):
            raise result
        return result

    def directory(self, step: str) -> str:
        """The full directory name of a step that may be cut short."""
        if not isinstance(step, str):
            raise ValueProblem(f"{step!r} is no step")
        if step == MINE and self.mine is not None:
            return MINE
        names = sorted({*all_steps(), self.step} - {""})
        fits = [name for name in names if name == step] or [n for n in names if step and n.startswith(step)]
        if len(fits) != 1:
            raise ValueProblem(f"'{step}' names no step; there are {', '.join(names)}")
        return fits[0]

    def program(self, step: str) -> Path:
        """The built program of a step."""
        if step == MINE and self.mine is not None:
            return self.mine / "run"
        if self.build is None:
            raise NotAvailable("no build directory was given")
        path = self.build / "steps" / self.directory(step) / "run"
        if not path.exists():
            raise NotAvailable(f"{path} is not built")
        return path

    def previous(self) -> str:
        names = all_steps()
        index = names.index(self.step) if self.step in names else 0
        if index == 0:
            raise ValueProblem(f"no step comes before {self.step}")
        return names[index - 1]

    def xray_record(self, step: str, m: int = 256, n: int = 256, k: int = 128) -> dict[str, Any]:
        """The JSON record of `run --xray`; kept in <build>/xray-cache for as long as the program stays the
        same."""
        step = self.directory(step)
        record = self._cached(("xray", step, m, n, k), lambda: self._run_xray(step, m, n, k))
        if any("wavefronts" not in row for kernel in record["xray"]["kernels"] for row in kernel["accesses"]):
            raise ValueProblem(f"{self.program(step)} is older than this tool; run `meson compile` again")
        return record

    def _run_xray(self, step: str, m: int, n: int, k: int) -> dict[str, Any]:
        program = self.program(step)
        status = program.stat()
        prefix = f"{step}-{m}x{n}x{k}-"
        folder_of_cache = self.mine if step == MINE else self.build
        assert folder_of_cache is not None
        cache = folder_of_cache / "xray-cache"
        kept = cache / f"{prefix}{status.st_mtime_ns:x}-{status.st_size:x}.json"
        try:
            return json.loads(kept.read_text())
        except (OSError, ValueError):
            pass
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "xray.json"
            command = [program.resolve(), "--xray", "--m", m, "--n", n, "--k", k, "--json", out]
            try:
                result = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
            except OSError as error:
                raise ValueProblem(f"{program} cannot be run: {error.strerror}") from None
            if result.returncode == 3:
                raise NotAvailable(f"{step} run --xray: {_first_line(result.stderr or result.stdout)}")
            try:
                text = out.read_text()
                record = json.loads(text)
                record = record[0] if isinstance(record, list) else record
                record["xray"]["kernels"][0]["accesses"]
            except (OSError, ValueError, KeyError, IndexError, TypeError):
                said = _first_line(result.stderr or result.stdout) or "it printed nothing"
                raise ValueProblem(
                    f"{step} run --xray ended with exit status {result.returncode}: {said}"
                ) from None
        try:  # a build directory that cannot be written to costs time only
            cache.mkdir(exist_ok=True)
            temporary = kept.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(record))
            temporary.replace(kept)
            for old in cache.glob(f"{prefix}*.json"):
                if old != kept:
                    old.unlink(missing_ok=True)
        except OSError:
            pass
        return record

    def remember_xray(self, step: str, record: dict[str, Any]) -> None:
        """Takes a record of `run --xray` as the step's, instead of running it."""
        self._cache["xray", self.directory(step), record["m"], record["n"], record["k"]] = record

    def xray(self, step: str, m: int = 256, n: int = 256, k: int = 128) -> Xray:
        step = self.directory(step)
        return Xray(step, self.xray_record(step, m, n, k))

    def machine_code(self, step: str) -> Path:
        """The file with a step's machine code."""
        if step != MINE or self.mine is None:
            return self.program(step)
        path = self.mine / "kernel.cubin"
        if not path.exists():
            raise NotAvailable("there is no machine code without nvcc")
        return path

    def architectures(self, step: str) -> list[str]:
        """Whose machine code a step's program holds: ['sm_80', 'sm_90a']. Empty without CUDA."""
        program = self.machine_code(step)

        def read() -> list[str]:
            try:
                return sass.archs(program)
            except sass.SassError as error:
                raise NotAvailable(str(error)) from None

        return self._cached(("architectures", program), read)

    def kernels(self, step: str, arch: str | None = None) -> list[Any]:
        """The kernels of a step's program for an architecture, as sass.py reads them."""
        program = self.machine_code(step)
        built = self.architectures(step)
        arch = arch or self.arch or (DEFAULT_ARCH if DEFAULT_ARCH in built else next(iter(built), None))
        if arch is None or arch not in built:
            has = f"code for {', '.join(built)} only" if built else "no GPU code"
            raise NotAvailable(f"{program} holds {has}")

        def read() -> list[Any]:
            try:
                return list(sass.kernels(program, arch))
            except sass.SassError as error:
                raise ValueProblem(str(error)) from None

        return self._cached(("sass", program, arch), read)

    def sass(self, step: str, arch: str | None = None, kernel: str | None = None) -> Any:
        step = self.directory(step)
        found = self.kernels(step, arch)
        if kernel is not None:
            fits = [k for k in found if re.search(kernel, k.name)]
        else:
            # Two instances: the one for aligned shapes is what everything else speaks of.
            fits = [k for k in found if "<true>" in k.name or "<1>" in k.name] or found
        if len(fits) != 1:
            names = ", ".join(k.name for k in found) or "none"
            raise ValueProblem(
                f"{step} has {len(fits)} kernels '{kernel or 'aligned'}', not one; there are {names}"
            )
        return fits[0]

    def profile_record(self, step: str) -> dict[str, Any]:
        """docs/evidence/<gpu>/<step>.json, or its fresh counterpart."""
        step = self.directory(step)
        path = (self.profiles or self.evidence) / f"{step}.json"

        def read() -> dict[str, Any]:
            record = _read_json(path, f"the profile of {step}")
            if not isinstance(record, dict) or not isinstance(record.get("runs"), list):
                raise ValueProblem(f"{path} holds no profile; record it with profile.py")
            device = (record.get("facts") or {}).get("device")
            if self.profiles is not None and device != self.gpu().name:
                raise NotAvailable(f"{path} is of {device}; what is claimed is claimed of {self.gpu().name}")
            return record

        return self._cached(("profile", path), read)

    def profile(self, step: str, n: int = N, m: int | None = None, k: int | None = None) -> Profile:
        step = self.directory(step)
        shape = (m or n, n, k or n)
        for run in self.profile_record(step)["runs"]:
            if (run["m"], run["n"], run["k"]) == shape:
                what = f"the profile of {step} at {' x '.join(map(str, shape))}"
                return Profile(what, run, self._source(step))
        raise NotAvailable(f"the profile of {step} has no run of {' x '.join(map(str, shape))}")

    def ladder(self, step: str, n: int = N, batch: int = 1) -> Ladder:
        step = self.directory(step)
        records = self._cached("ladder", lambda: _read_json(self.evidence / "ladder.json", "the ladder"))
        for record in records:
            shape = (record["m"], record["n"], record["k"], record["batch"])
            if record["step"] == step and shape == (n, n, n, batch):
                return Ladder(f"the ladder of {step} at {n}", record)
        raise NotAvailable(f"the ladder holds no measurement of {step} at {n}, batch {batch}")

    def experiment_record(self, name: str, n: int = N) -> dict[str, Any]:
        """An experiment of docs/experiments, measured at n: {"experiment", "step", "question", "facts",
        "variants": [{"variant", "time_us", "tflops", "ratio", "speedup", "registers", ...}]}; speedup is
        against the first variant. From docs/evidence/<gpu>/experiments.json, which experiment.py records."""
        path = ROOT / "docs" / "experiments" / f"{name}.toml"
        if not isinstance(name, str) or not re.fullmatch(r"\w+", name) or not path.exists():
            known = ", ".join(sorted(file.stem for file in path.parent.glob("*.toml")))
            raise ValueProblem(f"there is no experiment '{name}'; there are {known}")
        all_records = self._cached(
            "experiments", lambda: _read_json(self.evidence / "experiments.json", f"the experiment {name}")
        )
        records = [
            r for r in all_records if r["experiment"] == name and (r["m"], r["n"], r["k"]) == (n, n, n)
        ]
        if not records:
            raise NotAvailable(f"the experiment {name} is not recorded at {n} yet")
        if wrong := [r["variant"] for r in records if not r["pass"]]:
            raise ValueProblem(f"the experiment {name} gave a wrong result: {wrong[0]}")
        variants = [
            {
                "variant": r["variant"],
                "time_us": r["time_us"],
                "tflops": r["tflops"],
                "ratio": r["ratio_to_cublas"],
                "speedup": r["tflops"] / records[0]["tflops"],
                **{key: value for key, value in r["machine_code"].items() if key != "sass_sha256"},
            }
            for r in records
        ]
        return {
            "experiment": name,
            "step": records[0]["step"],
            "question": tomllib.loads(path.read_text())["question"],
            "facts": {key: records[0].get(key) for key in ("device", "driver", "cuda", "date")},
            "variants": variants,
        }

    def experiment(self, name: str, variant: str, n: int = N) -> Figures:
        variants = self.experiment_record(name, n)["variants"]
        for figures in variants:
            if figures["variant"] == variant:
                return Figures(f"the experiment {name}, {variant}", figures)
        names = ", ".join(repr(figures["variant"]) for figures in variants)
        raise ValueProblem(f"the experiment {name} has no variant '{variant}'; there are {names}")

    def variant(self, name: str, values: str) -> Figures:
        """Counters of a variant that `profile.py variants` recorded in docs/evidence/<gpu>/<name>.json, e.g.
        variant('rasterisation', 'GROUP=1')."""
        if not isinstance(name, str) or not re.fullmatch(r"\w+", name):
            raise ValueProblem(f"'{name}' names no record of variants")
        path = self.evidence / f"{name}.json"
        records = self._cached(("variant", path), lambda: _read_json(path, f"the variants {name}"))
        for record in records if isinstance(records, list) else []:
            if values in (record.get("values"), record.get("variant")):
                return Figures(f"the variant {values} of {name}", record)
        raise ValueProblem(f"{path} has no variant '{values}'")

    def _kernel_path(self, step: str) -> Path:
        folder = self.step_dir if step == self.step and self.step_dir else ROOT / "steps" / step
        if step == MINE and self.mine is not None:
            folder = self.mine
        return folder / "kernel.cu"

    def _source(self, step: str) -> list[str]:
        """The lines of a step's kernel.cu; none if there is no such file."""
        path = self._kernel_path(step)
        return path.read_text().splitlines() if path.exists() else []

    def const(self, step: str, name: str) -> int:
        step = self.directory(step)
        path = self._kernel_path(step)

        def read() -> dict[str, int]:
            try:
                return constants(path.read_text())
            except OSError as error:
                raise ValueProblem(f"{path} cannot be read: {error.strerror}") from None

        found = self._cached(("const", path), read)
        if name not in found:
            raise ValueProblem(f"{step} has no constant {name}; it has {', '.join(found) or 'none'}")
        return found[name]

    def gpu(self) -> Gpu:
        def read() -> Gpu:
            record = _read_json(self.evidence / "device.json", "the GPU")
            figures = {name: figure["value"] for name, figure in record["figures"].items()}
            return Gpu(record["name"], {"name": record["name"], **figures})

        return self._cached("gpu", read)


def _first_line(text: str) -> str:
    return next((line.strip().removeprefix("error: ") for line in text.splitlines() if line.strip()), "")


# ---- Expressions -------------------------------------------------------------------------------------------

SOURCES = ("xray", "sass", "profile", "ladder", "experiment", "variant", "const")
PLAIN: dict[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "round": round,
    "sum": sum,
    "len": len,
    "all": all,
    "any": any,
}
NAMES = ("here", "before", "mine", "gpu", "steps", "N")
MINE = "mine"  # an exercise's kernel by a student, as a step's name
ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}


@dataclass(frozen=True)
class Comparison:
    """One comparison that was made: the source of its sides, their values, and whether it held."""

    left: str
    left_value: Any
    sign: str
    right: str
    right_value: Any
    holds: bool


@dataclass(frozen=True)
class Evaluation:
    value: Any
    comparisons: list[Comparison]


def parse(expression: str) -> ast.expr:
    """The syntax tree of an expression. ExpressionError if it uses anything that is not on the whitelist."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
        _check(tree, frozenset())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExpressionError(f"not an expression: {said}") from None
    return tree


def _check(node: ast.AST, bound: frozenset[str]) -> None:
    def check(*nodes: ast.AST) -> None:
        for n in nodes:
            _check(n, bound)

    match node:
        case ast.Constant(value=bool() | int() | float() | str()):
            pass
        case ast.Name(id=name):
            if name not in NAMES and name not in bound:
                raise ExpressionError(f"unknown name '{name}'; known are {', '.join(NAMES)}")
        case ast.Attribute(value=value, attr=name):
            if name.startswith("_"):
                raise ExpressionError(f"'.{name}' is not allowed: no name that begins with _")
            check(value)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            match function:
                case ast.Name(id=name) if name in SOURCES or name in PLAIN:
                    pass
                case ast.Attribute():
                    check(function)
                case _:
                    known = ", ".join((*SOURCES, *PLAIN))
                    raise ExpressionError(f"unknown function '{ast.unparse(function)}'; known are {known}")
            if any(keyword.arg is None for keyword in keywords):
                raise ExpressionError("'**' in a call is not allowed")
            check(*arguments, *(keyword.value for keyword in keywords))
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) not in ARITHMETIC:
                raise ExpressionError(f"'{ast.unparse(node)}' is not arithmetic that is allowed")
            check(left, right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
            check(operand)
        case ast.BoolOp(values=values):
            check(*values)
        case ast.Compare(left=left, ops=ops, comparators=others):
            if any(type(op) not in COMPARISONS for op in ops):
                raise ExpressionError("'is' is not allowed; use ==")
            check(left, *others)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            check(*elements)
        case (
            ast.GeneratorExp(elt=element, generators=generators)
            | ast.ListComp(elt=element, generators=generators)
        ):
            inner = bound
            for generator in generators:
                if generator.is_async or not isinstance(generator.target, ast.Name):
                    raise ExpressionError("a comprehension takes one name: ... for s in ...")
                _check(generator.iter, inner)
                inner |= {generator.target.id}
                for condition in generator.ifs:
                    _check(condition, inner)
            _check(element, inner)
        case _:
            raise ExpressionError(f"'{ast.unparse(node)}' is not allowed in an expression")


def sources(expression: str) -> list[str]:
    """Which of xray, sass, profile, ladder, experiment, const and gpu an expression uses."""
    names = {node.id for node in ast.walk(parse(expression)) if isinstance(node, ast.Name)}
    return [name for name in (*SOURCES, "gpu") if name in names]


def is_condition(expression: str) -> bool:
    """Whether an expression is true or false by its form."""

    def boolean(node: ast.AST) -> bool:
        match node:
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.BoolOp(values=values):
                return all(map(boolean, values))
            case ast.Call(func=ast.Name(id="all" | "any")):
                return True
        return False

    return boolean(parse(expression))


def evaluate(expression: str, context: Context) -> Any:
    """The value of an expression. Raises NotAvailable or ExpressionError."""
    return explain(expression, context).value


def explain(expression: str, context: Context) -> Evaluation:
    """The value of an expression and the comparisons on the way to it. Raises as evaluate() does."""
    tree = parse(expression)
    evaluator = _Evaluator(context)
    try:
        value = evaluator.value(tree, {})
    except (NotAvailable, ExpressionError):
        raise
    except ZeroDivisionError:
        raise ValueProblem(f"division by zero in '{ast.unparse(tree)}'") from None
    except (TypeError, ValueError, OverflowError, re.error) as error:
        raise ValueProblem(f"{error} in '{ast.unparse(tree)}'") from None
    return Evaluation(value, evaluator.comparisons)


class _Evaluator:
    """Walks a syntax tree that parse() has let through."""

    def __init__(self, context: Context):
        self.context = context
        self.comparisons: list[Comparison] = []

    def value(self, node: ast.AST, bound: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return bound[name] if name in bound else self.name(name)
            case ast.Attribute(value=of, attr=name):
                return self.attribute(self.value(of, bound), name)
            case ast.Call(func=function, args=arguments, keywords=keywords):
                values = [self.value(argument, bound) for argument in arguments]
                named = {str(k.arg): self.value(k.value, bound) for k in keywords}
                return self.call(node, function, values, named, bound)
            case ast.BinOp(left=left, op=op, right=right):
                return self.arithmetic(op, self.value(left, bound), self.value(right, bound))
            case ast.UnaryOp(op=op, operand=operand):
                value = self.value(operand, bound)
                if isinstance(op, ast.Not):
                    return not value
                return -number(value) if isinstance(op, ast.USub) else number(value)
            case ast.BoolOp(op=op, values=nodes):
                for n in nodes:
                    value = self.value(n, bound)
                    if bool(value) != isinstance(op, ast.And):
                        break
                return value
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self.compare(left, ops, others, bound)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return [self.value(element, bound) for element in elements]
            case (
                ast.GeneratorExp(elt=element, generators=generators)
                | ast.ListComp(elt=element, generators=generators)
            ):
                return [self.value(element, names) for names in self.bindings(generators, bound)]
        raise ExpressionError(f"'{ast.unparse(node)}' is not allowed in an expression")

    def bindings(
        self, generators: list[ast.comprehension], bound: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        if not generators:
            yield bound
            return
        first, *rest = generators
        assert isinstance(first.target, ast.Name)
        items = self.value(first.iter, bound)
        if not isinstance(items, (list, tuple)):
            raise ValueProblem(f"'{ast.unparse(first.iter)}' is no list")
        for item in items:
            names = {**bound, first.target.id: item}
            if all(self.value(condition, names) for condition in first.ifs):
                yield from self.bindings(rest, names)

    def name(self, name: str) -> Any:
        match name:
            case "here":
                return self.context.step
            case "before":
                return self.context.previous()
            case "mine":
                if self.context.mine is None:
                    raise ValueProblem("'mine' is a student's kernel: only the goals of exercises know it")
                return MINE
            case "gpu":
                return self.context.gpu()
            case "steps":
                return all_steps()
        return N

    def attribute(self, of: Any, name: str) -> Any:
        if name.startswith("_") or not is_value_object(of):
            raise ValueProblem(f"{of!r} has no .{name}")
        try:
            return getattr(of, name)
        except AttributeError:
            known = ", ".join(public_names(of))
            raise ValueProblem(f"{type(of).__name__.lower()} has no .{name}; it has {known}") from None

    def call(
        self,
        node: ast.AST,
        function: ast.AST,
        values: list[Any],
        named: dict[str, Any],
        bound: dict[str, Any],
    ) -> Any:
        if isinstance(function, ast.Name):
            target = PLAIN.get(function.id) or getattr(self.context, function.id)
        else:
            target = self.value(function, bound)
            if not is_value_object(getattr(target, "__self__", None)):
                raise ValueProblem(f"'{ast.unparse(function)}' is no function")
        try:
            return target(*values, **named)
        except sass.SassError as error:
            raise NotAvailable(str(error)) from None
        except (TypeError, AttributeError) as error:
            said = re.sub(r"^Context\.|^\w+\.(?=\w+\(\))", "", str(error))
            raise ValueProblem(f"'{ast.unparse(node)}': {said}") from None

    def arithmetic(self, op: ast.operator, left: Any, right: Any) -> Any:
        a, b = number(left), number(right)
        if isinstance(op, ast.Pow) and (abs(b) > 64 or abs(a) > 2**64):
            raise ValueProblem(f"{a} ** {b} is too large")
        return ARITHMETIC[type(op)][1](a, b)

    def compare(
        self, left: ast.AST, ops: list[ast.cmpop], others: list[ast.expr], bound: dict[str, Any]
    ) -> bool:
        value = self.value(left, bound)
        for op, other in zip(ops, others, strict=True):
            other_value = self.value(other, bound)
            sign, function = COMPARISONS[type(op)]
            holds = bool(function(value, other_value))
            # The names of a comprehension are shown by their values.
            self.comparisons.append(
                Comparison(shown(left, bound), value, sign, shown(other, bound), other_value, holds)
            )
            if not holds:
                return False
            left, value = other, other_value
        return True


def number(value: Any) -> int | float:
    if isinstance(value, (int, float)):
        return value
    raise ValueProblem(f"{value!r} is no number")


def is_value_object(value: Any) -> bool:
    """Whether expressions may look into a value: an object of a class of this module or of sass*.py."""
    return type(value).__module__.split("_")[0] in {__name__, "sass"}


def public_names(value: Any) -> list[str]:
    names = {name for name in dir(value) if not name.startswith("_")}
    return sorted(names | set(value._names() if isinstance(value, Figures) else ()))


def shown(node: ast.AST, bound: dict[str, Any]) -> str:
    """The source of an expression, with the values of a comprehension's names in their places."""

    class Fill(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.AST:
            return ast.Constant(bound[name.id]) if isinstance(bound.get(name.id), (int, str)) else name

    return (
        ast.unparse(Fill().visit(ast.parse(ast.unparse(node), mode="eval").body))
        if bound
        else ast.unparse(node)
    )
