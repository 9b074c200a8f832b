"""What pages say of PTX and machine code of variants that the record of an experiment does not hold. Needs
nvcc, of the version that the record is of, and no GPU."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from tools.kernel_build import KernelBuild
from tools.machine_code import sass
from tools.machine_code.identity import sass_sha256
from tools.measuring import experiment

ARCH = "sm_90a"


def recorded(name):
    """The records of an experiment by variant."""
    records = json.loads((ROOT / "docs" / "evidence" / "h200" / "experiments.json").read_text())
    return {record["variant"]: record for record in records if record["experiment"] == name}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """compiled(experiment, variant, "ptx" or "cubin"): the file that nvcc makes."""
    if "BUILD" not in os.environ:
        pytest.skip("BUILD names no build directory")
    build, kept = Path(os.environ["BUILD"]), tmp_path_factory.mktemp("variants")

    def compile_variant(name, variant_name, what):
        [read] = experiment.choose([name])
        [variant] = [v for v in read.variants if v.name == variant_name]
        commands = KernelBuild(build, read.program(variant))
        if "gpu" not in commands.units or shutil.which(commands.units["gpu"][0]) is None:
            pytest.skip("needs nvcc")
        nvcc = commands.units["gpu"][0]
        version = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
        if f"release {(cuda := recorded(name)[variant_name]['cuda'])}," not in version:
            pytest.skip(f"the record is of nvcc {cuda}: another one may do otherwise")
        folder = kept / what / name / re.sub(r"\W", "_", variant_name)
        folder.mkdir(parents=True, exist_ok=True)
        source, out = folder / "kernel.cu", folder / f"kernel.{what}"
        if out.exists():
            return out
        source.write_text(variant.source())
        # Lines of the source stand in PTX, and are no difference.
        left_out = ("-c", *(["-lineinfo"] if what == "ptx" else []))
        words = [w for w in commands.units["gpu"] if not w.startswith("-gencode") and w not in left_out]
        code = f"compute_{ARCH[3:]}" if what == "ptx" else ARCH
        words += [f"-gencode=arch=compute_{ARCH[3:]},code={code}", f"-{what}"]
        result = commands.compile([*words, *variant.compiler], source, out)
        assert result.returncode == 0, result.stdout
        return out

    return compile_variant


def ptx_of(path):
    """The text, without comments and the number in names of what only its file knows."""
    lines = (re.sub(r"//.*", "", line).strip() for line in path.read_text().splitlines())
    return [re.sub(r"_GLOBAL__N__[0-9a-f]+|_INTERNAL_[0-9a-f]+", "_", line) for line in lines if line]


def main_kernel(path):
    return sass.main_kernel(sass.kernels(path, ARCH))


def rows_of_page():
    """Of the table in the page of step 26: what becomes of the PTX, by variant."""
    page = (ROOT / "docs" / "steps" / "26_warp_tiles.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| (another|the same|) *\| .*same_machine_code.*$", page, re.MULTILINE)
    return dict(rows)


def test_what_the_second_compiler_undoes(compiled):
    """The table of page 26: which changes are others in PTX. The machine code is the one recorded."""
    says, records = rows_of_page(), recorded("same_machine_code")
    assert says.keys() == records.keys()
    [itself] = [name for name, ptx in says.items() if not ptx]
    timed = {name: record["machine_code"]["sass_sha256"] for name, record in records.items()}
    cubins = {name: compiled("same_machine_code", name, "cubin") for name in records}
    assert timed == {name: sass_sha256(main_kernel(cubin).instructions) for name, cubin in cubins.items()}
    ptx = {name: ptx_of(compiled("same_machine_code", name, "ptx")) for name in records}
    assert any("mma.sync" in line for line in ptx[itself])
    for name in records.keys() - {itself}:
        assert (ptx[name] == ptx[itself]) == (says[name] == "the same"), name


def test_loads_stand_further_ahead_of_to_tf32(compiled):
    """Page 24: the nearest load, more than twice as far ahead of its use; with as many instructions that
    round, and more in all."""
    files = [
        compiled("tf32_rounding", name, "cubin") for name in ("half a unit added to the number", "to_tf32()")
    ]
    half_up, to_tf32 = (main_kernel(path).loop for path in files)
    assert min(to_tf32.leads("LDS")) > 2 * min(half_up.leads("LDS"))
    assert half_up.count("FFMA") == to_tf32.count("FSETP") == 96
    assert to_tf32.count("LOP3") < half_up.count("LOP3") - 64  # bits are not cleared
    assert len(to_tf32.instructions) > len(half_up.instructions)


def differences(compiled, experiment_name, first, second):
    """The instructions that differ between two variants of an experiment, and how many there are in all."""
    pair = [main_kernel(compiled(experiment_name, name, "cubin")).instructions for name in (first, second)]
    assert len(pair[0]) == len(pair[1])
    texts = [(a.text, b.text) for a, b in zip(*pair, strict=True)]
    return [(a, b) for a, b in texts if a != b], len(texts)


def test_unused_static_shared_memory_changes_an_address(compiled):
    """Concept page on five ladders: a larger last array changes nothing, a larger first one only the
    instructions that say where the next one begins: one, or three in the kernel of ladder D."""
    for name in "unused_static_2d_tiling", "unused_static_warp_tiling":
        found, _ = differences(compiled, name, "none unused", "Bs twice as large")
        assert not found, name
    pairs = {
        ("unused_static_2d_tiling", "none unused", "both twice as large"): 1,
        ("unused_static_warp_tiling", "none unused", "both twice as large"): 1,
        ("ada_ladder", "float4 from both", "both, arrays twice as large, half of them unused"): 3,
    }
    for pair, expected in pairs.items():
        found, count = differences(compiled, *pair)
        assert len(found) == expected and count > 500, pair
        for texts in found:
            old, new = (re.sub("0x[0-9a-f]+", "", text) for text in texts)
            assert old == new and "ADD" in old, pair


def test_the_thread_index_in_variables(compiled):
    """Concept page on five ladders: the same machine code, or three other instructions before the loop."""
    found, _ = differences(
        compiled,
        "turing_ladder",
        "kernel 2: 32 lanes load from one bank",
        "kernel 2, row and column in variables",
    )
    assert not found
    found, _ = differences(
        compiled,
        "turing_ladder",
        "kernel 3: 1024 threads in one dimension, row and column in variables",
        "kernel 3, row and column computed where they are needed",
    )
    assert len(found) == 3


K3 = "kernel 3: 1024 threads in one dimension, row and column in variables"
# What a warp's accesses take for a pair of tiles, by kind of instruction: how many of these there are, by the
# machine code, and the wavefronts of each. 32 lanes in one bank take 32, a broadcast of 16 bytes takes 2,
# everything else here 1.
LOADS = {
    "kernel 1: no shared memory": {"LDG.E": (64, [1] * 64)},
    K3: {
        "LDS.128": (16, [32] * 8 + [2] * 8)
    },  # of one tile each with all lanes in one bank, of the other not
    "kernel 4: 32 lanes store to one bank": {"LDS": (64, [1] * 64)},
    "no bank conflict": {"LDS.128": (8, [2] * 8), "LDS": (32, [1] * 32)},
}
STORES = {K3: 32 + 1, "kernel 4: 32 lanes store to one bank": 32 + 1, "no bank conflict": 1 + 1}


def stated_sums():
    """Of the table of wavefronts in the concept page on five ladders: variant, what its cells say of loads
    and of stores, and the two numbers with their sum."""
    page = (ROOT / "docs" / "concepts" / "five_ladders.md").read_text()
    rows = re.findall(
        r"^\| (?:kernel|a reader).*?\| ([^|]*)\| ([^|]*)\| (\d+) \+ (\d+) = (\d+) \|", page, re.M
    )
    return zip(LOADS, rows, strict=True)


def test_wavefronts_of_the_turing_ladder_as_counted():
    """The page's sums against Nsight Compute's counters, which hold up to one more of stores."""
    text = (ROOT / "docs" / "evidence" / "h200" / "turing_ladder.json").read_text()
    counters = {record["variant"]: record for record in json.loads(text)}
    for variant, (*_, loads, stores, total) in stated_sums():
        shared = "shared_load_wavefronts" if variant in STORES else "lsu_wavefronts"
        counted = [
            counters[variant][name] / ((4096 // 32) ** 3 * 32) for name in (shared, "shared_store_wavefronts")
        ]
        assert counted[0] == pytest.approx(int(loads), rel=0.002), variant
        assert int(stores) <= counted[1] < int(stores) + 1, variant
        assert sum(counted) == pytest.approx(int(total), rel=0.01), variant


def test_wavefronts_of_the_turing_ladder(compiled):
    """Its sums follow from the instructions that nvcc makes, not from the source, which loads one float at a
    time; and no kernel is faster than its wavefronts allow."""
    records = recorded("turing_ladder")
    for variant, row in stated_sums():
        loads = LOADS[variant]
        loop = main_kernel(compiled("turing_ladder", variant, "cubin")).loop
        opcodes = [i.text.split()[i.text.startswith("@")] for i in loop.instructions]
        terms = opcodes.count("FFMA")  # of one element, so as many as k has in a round of the loop
        for opcode in ("LDS", "LDS.64", "LDS.128"):
            assert opcodes.count(opcode) * 32 == loads.get(opcode, (0,))[0] * terms, (variant, opcode)
        if variant not in STORES:  # no tiles
            assert opcodes.count("LDG.E") * 32 == loads["LDG.E"][0] * terms
        assert opcodes.count("STS") == (2 if variant in STORES else 0)
        by_loads = sum(sum(each) for _, each in loads.values())
        by_stores = STORES.get(variant, 0)
        assert [int(number) for number in row[2:]] == [by_loads, by_stores, by_loads + by_stores]
        assert f"= {by_loads}" in row[0] and (not by_stores or f"= {by_stores}" in row[1])
        record = records[variant]
        tiles = (4096 // 32) ** 3 * 32  # a pair for each of 32 warps
        at_least = tiles * (by_loads + by_stores) / (record["multiprocessors"] * record["sm_clock_mhz"])  # us
        assert at_least < record["time_us"] < 1.4 * at_least, variant
