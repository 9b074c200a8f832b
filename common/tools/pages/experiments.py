"""The generated blocks of experiments: variants of a step, and what each part of its change is worth."""

from collections.abc import Callable
from typing import Any

from tools.base import UsageError, markdown, plural, read_toml
from tools.claims.context import N, NotAvailable
from tools.drawing import launches
from tools.pages.blocks import Record, Request, block, facts_line, number, percent, time


def any_cell(value: Any) -> str:
    return number(value) if isinstance(value, (int, float)) else str(value)


MEASURED = ("time_us", "tflops", "ratio_to_cublas", "speedup")
# What is called otherwise than by ladder experiment, with the underscores taken out.
COLUMNS_OF_EXPERIMENT: dict[str, tuple[str, Callable[[Any], str]]] = {
    "time_us": ("time", time),
    "tflops": ("TFLOP/s", "{:.2f}".format),
    "ratio_to_cublas": ("of cuBLAS", lambda v: percent(100 * v)),
    "speedup": ("speed against the first", "{:.3f}".format),
    "registers": ("registers a thread", any_cell),
    "shared_bytes": ("shared bytes a block", any_cell),
    "loop_instructions": ("instructions in the loop", any_cell),
    "loop_ffma": ("FFMAs in it", any_cell),
    "loop_hmma": ("HMMAs in it", any_cell),
    "loop_hgmma": ("HGMMAs in it", any_cell),
    "loop_bank_conflicts": ("register-bank conflicts in it", any_cell),
    "predicted_fraction": ("of the peak, by the model", any_cell),
}


def experiment_file(request: Request, name: str) -> dict[str, Any]:
    file = request.context.root / "docs" / "experiments" / f"{name}.toml"
    if not file.exists():
        raise UsageError(f"there is no experiment '{name}'")
    return read_toml(file)


def shown_size(read: Record) -> int:
    sizes = read.get("sizes", [N])
    return N if N in sizes else sizes[-1]


@block()
def make_experiment(request: Request) -> str:
    [name] = request.words("experiment NAME")
    read = experiment_file(request, name)
    n = shown_size(read)
    variants = request.context.experiment_records(name, n)
    keys = dict.fromkeys([*MEASURED, *(key for variant in variants for key in variant["machine_code"])])
    keys.pop("sass_sha256", None)
    columns = {key: COLUMNS_OF_EXPERIMENT.get(key, (key.replace("_", " "), any_cell)) for key in keys}
    known = [key for key in keys if any(variant.get(key) is not None for variant in variants)]
    # What does not differ takes a line, not a column; zeros say nothing then.
    alike = [key for key in known if key not in MEASURED and len({v.get(key) for v in variants}) == 1]
    shown = [key for key in known if key not in alike]
    rows = [
        [v["variant"], *("–" if v.get(key) is None else columns[key][1](v[key]) for key in shown)]
        for v in variants
    ]
    text = markdown(["variant", *(columns[key][0] for key in shown)], rows, left=1)
    same = ", ".join(f"{columns[k][0]} {any_cell(variants[0][k])}" for k in alike if variants[0][k])
    same = f"Alike in all: {same}. " if same and len(variants) > 1 else ""
    batch = f", {plural(count, 'product')}" if (count := variants[0].get("batch", 1)) > 1 else ""
    at = f"`{variants[0]['step']}` at M = N = K = {n}{batch}."
    return f"{text}\n\n{same}{at} {facts_line(variants[0])}"


@block("step")
def make_launches(request: Request) -> str:
    """An experiment's first variant, whose launches overlap, beside the one that lacks that."""
    words = request.words("launches NAME N")
    if len(words) != 2 or not words[1].isdigit():
        raise UsageError("write `launches NAME N`, with an experiment and a size")
    name, n = words[0], int(words[1])
    lacking = [v["name"] for v in experiment_file(request, name)["variant"] if "lacks" in v]
    if len(lacking) != 1:
        raise UsageError(f"{name} has no one variant that lacks something")
    first, *others = request.context.experiment_records(name, n)
    [apart] = (record for record in others if record["variant"] == lacking[0])
    drawn = n, apart["time_us"], first["time_us"]
    return request.figure([request.step, "launches"], launches.picture(*drawn), launches.describe(*drawn))


@block()
def make_attribution(request: Request) -> str:
    """What each part of a step's change is worth: added alone to the step before, and left out of the step.
    The variants say it by `adds` and `lacks`; the two steps are the variants without a change."""
    [name] = request.words("attribution NAME")
    read = experiment_file(request, name)
    step, n = read["step"], shown_size(read)
    [before] = request.context.steps()[request.context.steps().index(step) - 1 :][:1]
    records = {r["variant"]: r for r in request.context.experiment_records(name, n)}

    def record(variant: str) -> Record:
        if variant not in records:
            raise NotAvailable(f"the experiment {name}: '{variant}' is not recorded yet")
        return records[variant]

    def unchanged(kernel: str) -> Record | None:
        alike = (v for v in read["variant"] if v.get("kernel", step) == kernel)
        return next((record(v["name"]) for v in alike if set(v) <= {"name", "kernel"}), None)

    ends = {"adds": unchanged(before), "lacks": unchanged(step)}
    parts = dict.fromkeys(v[key] for v in read["variant"] for key in ends if key in v)
    if not parts or ends["lacks"] is None:
        raise UsageError(f"{name}: no variant has `adds` or `lacks`, or none is the step itself")

    def cell(part: str, key: str) -> str:
        variant = next((v["name"] for v in read["variant"] if v.get(key) == part), None)
        end = ends[key]
        if variant is None:
            return "–"
        if end is None:
            raise UsageError(f"{name}: '{variant}' adds to {before}, which is no variant")
        mine = record(variant)
        same = mine["machine_code"].get("sass_sha256") == end["machine_code"].get("sass_sha256")
        return f"{mine['tflops'] / end['tflops']:.3f}{', the same machine code' if same else ''}"

    of_cublas = [
        percent(100 * end["ratio_to_cublas"]) + " of cuBLAS" if end else "–" for end in ends.values()
    ]
    rows = [["none", *of_cublas], *([part, *(cell(part, key) for key in ends)] for part in parts)]
    head = ["part of the change", f"step {before[:2]} with it alone", f"step {step[:2]} without it"]
    facts = facts_line(next(iter(records.values())))
    note = (
        f"Speed at M = N = K = {n}, against the step in the first row; – where the part cannot stand alone."
    )
    return f"{markdown(head, rows, left=1)}\n\n{note} {facts}"
