"""Where an expression's values (see values.py) come from: the build's programs, and what was recorded."""

import dataclasses
import functools
import json
import re
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.base import (
    EMULATOR,
    EVIDENCE,
    ROOT,
    UsageError,
    chosen,
    is_library,
    read_text,
    read_toml,
    write_whole,
)
from tools.claims import recording
from tools.claims.constants import constants
from tools.claims.objects import (
    Architecture,
    Figures,
    Gpu,
    Ladder,
    NotAvailable,
    NoValue,
    Profile,
    RegisterBanks,
    Xray,
    pick,
)
from tools.claims.recording import Recording
from tools.machine_code import sass

N = 4096  # the size that measurements are quoted for
STANDARD_PROBLEM = (256, 256, 128)  # m, n, k of the X-ray
MINE = "mine"  # an exercise's kernel by a student, as a step's name


def all_steps(root: Path = ROOT) -> list[str]:
    """The directories of the steps, in order."""
    return sorted(path.parent.name for path in (root / "steps").glob("[0-9][0-9]_*/kernel.cu"))


def evidence_of(step: str, root: Path = ROOT) -> Path:
    """The directory of what was recorded of a step: docs/evidence/h200, unless its claims.toml names another
    GPU (gpu = "h100"). What a page compares comes from one directory, that of the page's step."""
    file = root / "steps" / step / "claims.toml"
    gpu = read_toml(file).get("gpu") if step and file.exists() else None
    return root / "docs" / "evidence" / str(gpu or EVIDENCE.name)


def once(method: Callable[..., Any]) -> Callable[..., Any]:
    """Calls a method once for the same arguments, whatever the step."""

    @functools.wraps(method)
    def kept(self: "Context", *arguments: Any) -> Any:
        key = (method.__name__, *arguments)
        if key not in self._cache:
            self._cache[key] = method(self, *arguments)
        return self._cache[key]

    return kept


@dataclasses.dataclass
class Context:
    """What an expression is evaluated in. build: the build directory, if there is one; step: the directory
    name of the step that the expression belongs to; arch: whose machine code sass() reads by default;
    step_dir: where that step's kernel.cu lies, if not in steps/; profiles: a directory with other profiles
    than the recorded ones; root: the project; evidence: the directory of all that was recorded, if it is not
    evidence_of() a step; mine: the directory of a student's kernel: kernel.cu, the program run and, where
    there is nvcc, kernel.cubin."""

    build: Path | None
    step: str
    arch: str | None = None
    step_dir: Path | None = None
    profiles: Path | None = None
    root: Path = ROOT
    evidence: Path | None = None
    mine: Path | None = None
    _cache: dict[Any, Any] = dataclasses.field(default_factory=dict, repr=False)

    def at(self, step: str, step_dir: Path | None = None, arch: str | None = None) -> "Context":
        """The same for another step or architecture; what has been read is shared."""
        return dataclasses.replace(self, step=step, step_dir=step_dir, arch=arch)

    # ---- Steps and their files

    @once
    def steps(self) -> list[str]:
        return all_steps(self.root)

    def directory(self, step: str) -> str:
        """The full directory name of a step that may be cut short."""
        if not isinstance(step, str):
            raise NoValue(f"{step!r} is no step")
        if step == MINE and self.mine is not None:
            return MINE
        names = sorted({*self.steps(), self.step} - {""})
        try:
            return chosen([step], names, "step")[0]
        except UsageError as error:
            raise NoValue(str(error)) from None

    def previous(self) -> str:
        names = self.steps()
        if self.step not in names[1:]:
            raise NoValue(f"no step comes before {self.step}")
        return names[names.index(self.step) - 1]

    def kernel(self, step: str) -> Path:
        """A step's kernel.cu."""
        folder = self.step_dir if step == self.step and self.step_dir else self.root / "steps" / step
        return (self.mine if step == MINE and self.mine else folder) / "kernel.cu"

    def program(self, step: str) -> Path:
        """The built program of a step."""
        if step == MINE and self.mine is not None:
            return self.mine / "run"
        return self._built(f"steps/{self.directory(step)}/run")

    def _built(self, name: str) -> Path:
        if self.build is None:
            raise NotAvailable("no build directory was given")
        path = self.build / name
        if not path.exists():
            raise NotAvailable(f"{path} is not built")
        return path

    def machine_code(self, step: str) -> Path:
        """The file with a step's machine code."""
        if step != MINE or self.mine is None:
            return self.program(step)
        path = self.mine / "kernel.cubin"
        if not path.exists():
            raise NotAvailable("there is no machine code without nvcc")
        return path

    @once
    def _json(self, path: Path, what: str) -> Any:
        """A recorded file. NotAvailable if it is not there."""
        shown = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        try:
            return json.loads(path.read_text())
        except FileNotFoundError:
            raise NotAvailable(f"{what} is not recorded yet ({shown})") from None
        except (OSError, ValueError) as error:
            raise NoValue(f"{shown} cannot be read: {error}") from None

    # ---- What an expression may call, and what that reads

    def recorded(self, step: str = "") -> Path:
        """The directory of what was recorded for this context's step; without one, of the given step."""
        return self.evidence or self._evidence_of(self.step or step)

    @once
    def _evidence_of(self, step: str) -> Path:
        return evidence_of(step, self.root)

    def of_any_gpu(self, file: str, what: str) -> list[tuple[str, dict[str, Any]]]:
        """The records of a file that is not of one step, each with the name of its GPU's directory: this
        context's first."""
        own = self.recorded()
        others = sorted(path for path in own.parent.glob(f"*/{file}") if path.parent != own)
        paths = [path for path in (own / file, *others) if path.exists()] or [own / file]
        return [(path.parent.name, record) for path in paths for record in self._json(path, what)]

    def gpu(self) -> Gpu:
        record = self._json(self.recorded() / "device.json", "the GPU")
        figures = {name: figure["value"] for name, figure in record["figures"].items()}
        return Gpu(record["name"], {"name": record["name"], **figures})

    def xray(self, step: str, m: int = 256, n: int = 256, k: int = 128) -> Xray:
        return Xray(self.directory(step), self.xray_record(step, m, n, k))

    @once
    def xray_record(self, step: str, m: int, n: int, k: int) -> dict[str, Any]:
        """The JSON record of `run --xray`; kept in <build>/xray-cache for as long as the program stays the
        same."""
        step = self.directory(step)
        return self._kept(step, f"{step}-{m}x{n}x{k}-", lambda program: recording.run(step, program, m, n, k))

    def remember_xray(self, step: str, record: dict[str, Any]) -> None:
        """Takes a record of `run --xray` as the step's, instead of running it."""
        self._cache["xray_record", step, record["m"], record["n"], record["k"]] = record

    @once
    def recording(self, step: str, m: int, n: int, k: int) -> Recording:
        """What the step's first block does, request by request; kept like the record of an X-ray."""
        step = self.directory(step)
        prefix = f"{step}-tile-{m}x{n}x{k}-"
        made = self._kept(step, prefix, lambda program: recording.record(step, program, m, n, k))
        return recording.from_record(step, made)

    def _kept(self, step: str, prefix: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """What `make` makes with the step's program, kept in <build>/xray-cache for as long as that stays the
        same."""
        program = self.program(step).resolve()
        status = program.stat()
        cache = (program.parents[2] if step != MINE else program.parent) / "xray-cache"
        kept = cache / f"{prefix}{status.st_mtime_ns:x}-{status.st_size:x}.json"
        with suppress(OSError, ValueError):
            return json.loads(kept.read_text())
        record = make(program)
        with suppress(OSError, UsageError):  # a build directory that cannot be written to costs time only
            cache.mkdir(exist_ok=True)
            write_whole(kept, json.dumps(record))
            for old in cache.glob(f"{prefix}*.json"):
                if old != kept:
                    old.unlink(missing_ok=True)
        return record

    def fragment_maps(self) -> dict[str, Any]:
        """Which lane holds which element of a fragment."""
        return self.drawn("fragment_maps")

    def error(self, matrix: str, k: int | None = None, change: str = "") -> Figures:
        """How far step 47, or step 47 with a change, is from the exact product of matrices that the model of
        tests/accuracy multiplies. Without k: the first such matrix."""
        rows = [row for row in self.drawn("emulation_errors") if k in (None, row["k"])]
        known = {(row["matrix"], row["change"]): row for row in reversed(rows)}
        at = "" if k is None else f" at K = {k}"
        found = pick(known, (matrix, change), f"no error of '{matrix}', '{change}'{at}")
        return Figures(f"the error on '{matrix}'{at}", found)

    @once
    def drawn(self, name: str, *arguments: object) -> Any:
        """What a program of common/tools/drawing prints, such as fragment_maps."""
        program = self._built(f"common/tools/{name}")
        return json.loads(subprocess.check_output([*EMULATOR, program.resolve(), *map(str, arguments)]))

    @once
    def architectures(self, step: str) -> list[str]:
        """For what a step's program holds its machine code: ['sm_80', 'sm_90a']. Empty without CUDA, and
        if the build is for older GPUs than the step needs."""
        try:
            return sass.archs(self.machine_code(step))
        except sass.SassError as error:
            raise NotAvailable(str(error)) from None

    def sass(self, step: str, arch: str | None = None, kernel: str | None = None) -> Any:
        step = self.directory(step)
        program = self.machine_code(step)
        if is_library(step):
            raise NoValue(f"{step} has no kernel")
        built = self.architectures(step)
        arch = arch or self.arch or sass.default_arch(built)
        if arch not in built:
            has = f"code for {', '.join(built)} only" if built else "no GPU code"
            raise NotAvailable(f"{program} holds {has}")
        found = sass.kernels(program, arch)
        if not found:
            raise NoValue(f"{step} has no kernel")
        if kernel is None:
            return sass.main_kernel(found)
        fits = [k for k in found if re.search(kernel, k.name)]
        if len(fits) != 1:
            names = ", ".join(k.name for k in found)
            raise NoValue(f"{step} has {len(fits)} kernels '{kernel}', not one; there are {names}")
        return fits[0]

    def profile_record(self, step: str) -> dict[str, Any]:
        """docs/evidence/<gpu>/<step>.json, or its fresh counterpart."""
        step = self.directory(step)
        path = (self.profiles or self.recorded(step)) / f"{step}.json"
        record = self._json(path, f"the profile of {step}")
        if not isinstance(record, dict) or not isinstance(record.get("runs"), list):
            raise NoValue(f"{path} holds no profile; record it with `ladder profile record`")
        device = (record.get("facts") or {}).get("device")
        if self.profiles is not None and device != self.gpu().name:
            raise NotAvailable(f"{path} is of {device}; what is claimed is claimed of {self.gpu().name}")
        return record

    def profile_run(self, step: str, n: int = N, m: int | None = None, k: int | None = None) -> Any:
        """What the profile of a step recorded at m x n x k."""
        shape = (m or n, n, k or n)
        for run in self.profile_record(step)["runs"]:
            if (run["m"], run["n"], run["k"]) == shape:
                return run
        size = " x ".join(map(str, shape))
        raise NotAvailable(f"the profile of {self.directory(step)} has no run of {size}")

    def profile(self, step: str, n: int = N, m: int | None = None, k: int | None = None) -> Profile:
        step = self.directory(step)
        run = self.profile_run(step, n, m, k)
        source = self.kernel(step)
        lines = source.read_text().splitlines() if source.exists() else []
        return Profile(
            f"the profile of {step} at {run['m']} x {run['n']} x {run['k']}", run, lines, self.gpu().sms
        )

    def ladder(self, step: str, n: int = N, batch: int = 1, m: int = 0, k: int = 0) -> Ladder:
        """m and k are n if left out."""
        wanted = (self.directory(step), m or n, n, k or n, batch)
        shape = " x ".join(map(str, wanted[1:4])) if m or k else n
        if record := self._ladder(self.recorded(wanted[0])).get(wanted):
            return Ladder(f"the ladder of {wanted[0]} at {shape}", record)
        raise NotAvailable(f"the ladder holds no measurement of {wanted[0]} at {shape}, batch {batch}")

    @once
    def _ladder(self, recorded: Path) -> dict[tuple[Any, ...], dict[str, Any]]:
        """By step, m, n, k and batch; of several records the first."""
        records = self._json(recorded / "ladder.json", "the ladder")
        return {tuple(r[key] for key in ("step", "m", "n", "k", "batch")): r for r in reversed(records)}

    def ladder_records(self, step: str = "") -> list[dict[str, Any]]:
        return self._json(self.recorded(step) / "ladder.json", "the ladder")

    def experiment_records(
        self, name: str, n: int = N, m: int | None = None, k: int | None = None
    ) -> list[dict[str, Any]]:
        """An experiment's variants, measured at n, or at m x n x k, each with what is known of its machine
        code and its speedup against the first."""
        shape = (n if m is None else m, n, n if k is None else k)
        return self._experiment_records(self.recorded(self._step_of_experiment(name)), name, shape)

    @once
    def _step_of_experiment(self, name: str) -> str:
        files = {file.stem: file for file in sorted((self.root / "docs" / "experiments").glob("*.toml"))}
        return str(read_toml(pick(files, name, f"there is no experiment '{name}'")).get("step", ""))

    @once
    def _experiment_records(
        self, recorded: Path, name: str, shape: tuple[int, int, int]
    ) -> list[dict[str, Any]]:
        every = self._json(recorded / "experiments.json", f"the experiment {name}")
        records = [r for r in every if (r["experiment"], r["m"], r["n"], r["k"]) == (name, *shape)]
        if not records:
            at = shape[0] if len(set(shape)) == 1 else " x ".join(map(str, shape))
            raise NotAvailable(f"the experiment {name} is not recorded at {at} yet")
        if wrong := [r["variant"] for r in records if not r["pass"]]:
            raise NoValue(f"the experiment {name} gave a wrong result: {wrong[0]}")
        first = records[0]["tflops"]
        return [{**r, **r["machine_code"], "speedup": r["tflops"] / first} for r in records]

    def experiment(
        self, name: str, variant: str, n: int = N, m: int | None = None, k: int | None = None
    ) -> Ladder:
        variants = {record["variant"]: record for record in self.experiment_records(name, n, m, k)}
        found = pick(variants, variant, f"the experiment {name} has no variant '{variant}'")
        return Ladder(f"the experiment {name}, {variant}", found)

    def variant(self, name: str, values: str) -> Figures:
        """Counters of a variant that `ladder profile variants` put in docs/evidence/<gpu>/<name>.json, as in
        variant('bands', 'tiles in bands of 4 rows'). A folder of variants is profiled on one GPU."""
        records = [record for _, record in self.of_any_gpu(f"{name}.json", f"the variants {name}")]
        known = {record["variant"]: record for record in records}
        return Figures(
            f"the variant {values} of {name}", pick(known, values, f"{name} has no variant '{values}'")
        )

    def register_banks(self, pattern: str, warps: int = 4) -> RegisterBanks:
        """A pattern of experiments/register_banks as it was measured, with so many warps to a scheduler."""
        record = self._json(self.recorded() / "register_banks.json", "experiments/register_banks")
        models = {row["pattern"]: row["models"] for row in record["patterns"]}
        of_pattern = pick(models, pattern, f"no pattern '{pattern}' was measured")
        found = {r["warps_per_scheduler"]: r for r in record["measured"] if r["pattern"] == pattern}
        measured = pick(found, warps, f"{pattern} was not measured with {warps} warps")
        if not measured["pass"]:
            raise NoValue(f"{pattern} gave a wrong result")
        ran = {r["pattern"] for r in record["measured"] if r["warps_per_scheduler"] == warps}
        figures = {**measured, "patterns": [name for name in models if name in ran]}
        return RegisterBanks(f"the pattern {pattern} with {warps} warps", figures, of_pattern)

    def other(self, ladder: str, figure: str) -> float:
        """What the author of another ladder says of it."""
        ladders = read_toml(self.root / "docs" / "other_ladders.toml")
        known = {name: value for name, value in ladders.get(ladder, {}).items() if not isinstance(value, str)}
        pick(known or ladders, figure if known else "", f"no {figure} of '{ladder}'")
        return known[figure]

    def architecture_record(self) -> dict[str, Any]:
        """What `ladder architectures --out` recorded."""
        path = self.root / "docs" / "evidence" / "architectures.json"
        return self._json(path, "the machine code for other GPUs")

    def architecture(self, step: str, arch: str) -> Architecture:
        step, record = self.directory(step), self.architecture_record()
        rows = {row["arch"]: row for row in record["compiled"] if row["step"] == step}
        return Architecture(f"{step} for {arch}", pick(rows, arch, f"{step} is not compiled for {arch}"))

    def const(self, step: str, name: str) -> int:
        """Of a step, or of a file of experiments/kernels."""
        of_file = step.endswith(".cu")
        step = step if of_file else self.directory(step)
        path = self.root / "experiments" / "kernels" / step if of_file else self.kernel(step)
        try:
            found = constants(read_text(path))
        except UsageError as error:
            raise NoValue(str(error)) from None
        return pick(found, name, f"{step} has no constant {name}")
