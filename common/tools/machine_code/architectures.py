"""What the compiler makes of the steps for other GPUs: compiled anew, described, recorded, compared.

  ladder architectures 08                     the main loop of step 08, GPU by GPU
  ladder architectures --check 08             compiles it, and compares it with the record
  ladder architectures --out docs/evidence/architectures.json    records every step

A step is compiled for each architecture below that nvcc knows and that has the instructions the step needs:
machine code only, by the build's command. --check leaves out those that the build itself is for, and what the
record's nvcc has compiled already from the same preprocessed text with the same options. Where nvcc is of
another version than the record's, it compiles and compares nothing. Needs nvcc, and no GPU.

Exit status: 0 well; 1 a step does not compile, or --check found a difference; 2 bad usage, or something is
missing.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tools.base import (
    BUILD,
    ROOT,
    Parser,
    UsageError,
    aligned,
    chosen,
    is_library,
    progress,
    read_json,
    write_whole,
)
from tools.claims.context import all_steps
from tools.kernel_build import KernelBuild, first_error
from tools.machine_code import binary, sass
from tools.machine_code.loops import PRODUCTS, Loop, compute_capability

RECORD = ROOT / "docs" / "evidence" / "architectures.json"
# By name, a GPU that is one. 9.0 has no row without `a`: nothing but Hopper is 9.0.
ARCHS = {
    "sm_75": "T4",
    "sm_80": "A100",
    "sm_86": "RTX 3090",
    "sm_89": "RTX 4090",
    "sm_90a": "H200",
    "sm_100": "B200",
    "sm_120": "RTX 5090",
}
# Up to here the rule of the register banks is taken to hold: measured on 9.0, found by others on 7.0.
NEWEST_WITH_BANKS = 90


# ---- Compiling -------------------------------------------------------------------------------------------


def find_compiler(command: list[str]) -> tuple[str, list[str]]:
    """Of the nvcc of a build's command, the version and those of ARCHS that it knows. UsageError if it is
    gone."""
    path = shutil.which(command[0])
    if path is None:
        raise UsageError(f"{command[0]} is gone; run ./setup.sh again")
    version, known = (
        subprocess.run([path, option], capture_output=True, text=True, check=True).stdout
        for option in ("--version", "--list-gpu-code")
    )
    found = re.search(r"\bV(\d+\.\d+\.\d+)", version)
    archs = [arch for arch in ARCHS if {arch, arch.rstrip("af")} & {*known.split()}]
    return found[1] if found else "unknown", archs


def steps_with_kernels() -> list[str]:
    """The steps that have a kernel of their own."""
    return [step for step in all_steps() if not is_library(step)]


def compile_for(commands: KernelBuild, step: str, arch: str, out: Path) -> None:
    """Makes a cubin. UsageError, of status 1, if the step does not compile."""
    result = commands.compile(commands.cubin_command(arch), ROOT / "steps" / step / "kernel.cu", out)
    if result.returncode:
        raise UsageError(f"{step} does not compile for {arch}: {first_error(result)}", status=1)


def source_sha256(commands: KernelBuild, step: str, arch: str) -> str:
    """Of what nvcc compiles: the same text with the same options comes out the same."""
    text = commands.cubin_source(arch, ROOT / "steps" / step / "kernel.cu")
    return hashlib.sha256(text.encode()).hexdigest()


# ---- What has been compiled ------------------------------------------------------------------------------


def code_sha256(cubin: Path) -> str:
    """Of the bytes of all of a step's kernels, in the order of their names: with what an instruction's text
    does not show, the bits that tell the scheduler when it may start."""
    listing = binary.run_tool("nvdisasm", "--print-instruction-encoding", cubin)
    named = {}
    for section in re.split(r"\n\s*\.section\s+", listing):
        if symbol := re.match(r"\.text\.([^,\s]+)", section):
            words = re.findall(r"/\* 0x([0-9a-f]{16}) \*/", section)
            named[binary.demangle(symbol[1])] = b"".join(bytes.fromhex(word)[::-1] for word in words)
    return hashlib.sha256(b"".join(named[name] for name in sorted(named))).hexdigest()


def describe_loop(loop: Loop) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "instructions": len(loop.instructions),
        "ffma": loop.ffma,
        "hmma": loop.hmma,
        **({"hgmma": loop.hgmma} if loop.hgmma else {}),
        "mix": loop.mix,
    }
    if loop.on_tensor_cores:
        return figures
    marks = (operand.endswith(".reuse") for i in loop.instructions for operand in i.operands)
    figures["reuse_marks"] = sum(marks)
    if compute_capability(loop.arch) <= NEWEST_WITH_BANKS:
        figures["clashes"] = sum(max(reads) > 1 for reads in loop.registers_read.from_banks)
        figures["bank_conflicts"] = loop.bank_conflicts
    return figures


def products(loop: dict[str, Any]) -> tuple[str, int]:
    """What multiplies in a recorded loop, and how many there are of it."""
    return next((name, count) for name in PRODUCTS if (count := loop.get(name.lower())))


def describe(step: str, arch: str, cubin: Path) -> dict[str, Any]:
    """The kernel for aligned shapes; and of all kernels, whether they are the same."""
    kernel = sass.main_kernel(sass.kernels(cubin, arch))
    if kernel.loop is None:
        raise UsageError(f"{step} has no main loop for {arch}", status=1)
    return {
        "step": step,
        "arch": arch,
        "kernel": kernel.name,
        "registers": kernel.registers,
        "shared_bytes": kernel.shared_bytes,
        "instructions": len(kernel.instructions),
        "spills": kernel.count("STL") + kernel.count("LDL"),
        "code_sha256": code_sha256(cubin),
        "loop": describe_loop(kernel.loop),
    }


def seal(row: dict[str, Any], source: str) -> str:
    """Of the row's figures and the source that they came from: neither can change without the other."""
    figures = json.dumps({key: value for key, value in row.items() if key != "seal"}, sort_keys=True)
    return hashlib.sha256((source + figures).encode()).hexdigest()


def compiled(commands: KernelBuild, step: str, arch: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        compile_for(commands, step, arch, cubin)
        row = describe(step, arch, cubin)
        return row | {"seal": seal(row, source_sha256(commands, step, arch))}


# ---- The record ------------------------------------------------------------------------------------------


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What the record says otherwise, a line for each figure."""
    flat_old, flat_new = ({**r, **{f"loop.{k}": v for k, v in r["loop"].items()}} for r in (old, new))
    where = f"{new['step']} for {new['arch']}"
    return [
        f"{where}: {key} was {flat_old.get(key)} and is {value}"
        for key, value in flat_new.items()
        if key not in ("loop", "seal") and flat_old.get(key) != value
    ]


def as_text(record: dict[str, Any]) -> str:
    """JSON, a line for each kernel: a change shows where it is."""
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in record["compiled"])
    head = json.dumps({key: value for key, value in record.items() if key != "compiled"}, indent=1)
    return f'{head[:-2]},\n "compiled": [\n{lines}\n ]\n}}\n'


def table(rows: list[dict[str, Any]]) -> str:
    head = ["step", "for", "registers", "loop", "products", "others", "bank conflicts", "code"]
    lines = [head]
    for row in rows:
        loop = row["loop"]
        name, count = products(loop)
        others = loop["instructions"] - count
        counts = [loop["instructions"], f"{count} {name}", others, loop.get("bank_conflicts", "-")]
        cells = row["step"], row["arch"], row["registers"], *counts, row["code_sha256"][:8]
        lines.append([*map(str, cells)])
    return aligned(lines, left=2)


# ---- The command -----------------------------------------------------------------------------------------


def main() -> int:
    parser = Parser(__doc__)
    parser.add_argument("steps", nargs="*", help="may be cut short: 08 [all]")
    parser.add_argument("--build", type=Path, default=BUILD, help="the build directory [build]")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--out", type=Path, metavar="FILE", help="record there")
    what.add_argument("--check", action="store_true", help="compare with docs/evidence/architectures.json")
    args = parser.parse_args()
    every = steps_with_kernels()
    steps = chosen(args.steps, every, "step with a kernel of its own") or every
    if args.out and args.steps:
        raise UsageError("a record is of all steps; leave out their names")
    commands = {step: KernelBuild(args.build, step) for step in steps}
    if without := [step for step in steps if "gpu" not in commands[step].units]:
        raise UsageError(f"{args.build} does not compile {without[0]} for a GPU; see ./setup.sh --help")
    version, archs = find_compiler(commands[steps[0]].units["gpu"])
    built = re.findall(r"code=(sm_\w+)", " ".join(commands[steps[0]].units["gpu"])) if args.check else []
    todo = [
        (step, arch)
        for step in steps
        for arch in archs
        if arch not in built and commands[step].needs.allow(arch)
    ]
    kept = {}
    if (args.check or args.out) and version == (record := read_json(RECORD))["nvcc"]:
        recorded = {(row["step"], row["arch"]): row for row in record["compiled"]}
        for pair in todo:
            row = recorded.get(pair)
            if row and row.get("seal") == seal(row, source_sha256(commands[pair[0]], *pair)):
                kept[pair] = row
        print(f"{len(kept)} of {len(todo)} have been recorded from this source")
    left = [pair for pair in todo if pair not in kept]
    rows = []
    with ThreadPoolExecutor(max_workers=1 if args.check else os.cpu_count() or 1) as pool:
        made = pool.map(lambda pair: compiled(commands[pair[0]], *pair), left)
        for row in made:
            rows.append(row)
            if args.out:
                progress(len(rows), len(left), f"{row['step']} {row['arch']}")
    if args.out:
        unknown = [arch for arch in ARCHS if arch not in archs]
        if unknown:
            raise UsageError(f"nvcc {version} does not know {', '.join(unknown)}")
        kept |= {(row["step"], row["arch"]): row for row in rows}
        record = {"nvcc": version, "archs": ARCHS, "compiled": [kept[pair] for pair in todo]}
        write_whole(args.out, as_text(record))
        return 0
    print(table(rows) if rows else "nothing to compile")
    return compare(rows, version) if args.check else 0


def compare(rows: list[dict[str, Any]], version: str) -> int:
    record = read_json(RECORD)
    if record["nvcc"] != version:
        print(f"not compared: the record is of nvcc {record['nvcc']}, this is {version}")
        return 0
    recorded = {(row["step"], row["arch"]): row for row in record["compiled"]}
    found = []
    for row in rows:
        old = recorded.get((row["step"], row["arch"]))
        found += differences(old, row) if old else [f"{row['step']} for {row['arch']} is not recorded"]
    print("\n".join(found) if found else "as recorded")
    return 1 if found else 0
