"""Where an expression's values (see values.py) come from: the build's programs, and what was recorded."""

import ast
import json
import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.base import EVIDENCE, ROOT
from tools.claims.objects import (
    ExpressionError,
    Figures,
    Gpu,
    Ladder,
    NotAvailable,
    Profile,
    ValueProblem,
    Xray,
)
from tools.machine_code import sass

N = 4096  # the size that measurements are quoted for
STANDARD_PROBLEM = (256, 256, 128)  # m, n, k of the X-ray
DEFAULT_ARCH = "sm_90a"
MINE = "mine"  # an exercise's kernel by a student, as a step's name


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


# How people define constants: indented or not, as static constexpr, const, in an enum or as a macro.
ANY_CONSTANT = re.compile(
    r"^[ \t]*(?:(?:static|inline)\s+)*(?:constexpr|const)\s+(?:(?:static|inline)\s+)*"
    r"(?:unsigned(?:\s+int)?|int|auto|(?:std::)?size_t)\s+([^;()]+);"
    r"|\benum\b[^;{}]*\{([^{}]*)\}"
    r"|^[ \t]*#[ \t]*define[ \t]+(\w+[ \t]+[^\n]+)",
    re.MULTILINE,
)


def constants(source: str, any_form: bool = False) -> dict[str, int]:
    """The `constexpr int` constants of a kernel's source, outside functions: {'BM': 128, 'WM': 64, ...}. With
    any_form also those that are written in another way, as students' are."""
    found: dict[str, int] = {}
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    pattern = ANY_CONSTANT if any_form else re.compile(r"^constexpr int ([^;]+);", re.MULTILINE)
    for match in pattern.finditer(text):
        definition = next(group for group in match.groups() if group is not None)
        if any_form and match[3]:  # a macro: its name and its value
            definition = re.sub(r"\s+", " = ", definition.strip(), count=1)
        for item in definition.split(","):
            item = re.sub(r"^\s*(\w+)\s*\{([^{}]*)\}", r"\1 = \2", item) if any_form else item
            name, equals, expression = (part.strip() for part in item.partition("="))
            if any_form:
                expression = re.sub(r"(?<=\d)[uUlLzZ]+\b", "", expression)
            value = _integer(expression, found) if equals else None
            if value is not None:
                found.setdefault(name, value)
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
        """The kernels of a step's program for an architecture, as ladder sass reads them."""
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
        against the first variant. From docs/evidence/<gpu>/experiments.json."""
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
        """Counters of a variant that `ladder profile variants` put in docs/evidence/<gpu>/<name>.json, as in
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
                return constants(path.read_text(), any_form=step == MINE)
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
