"""ladder architectures: what it compares and refuses. That the steps compile, its --check says itself."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common"))

from tools.base import UsageError  # noqa: E402
from tools.claims.context import Context  # noqa: E402
from tools.claims.values import evaluate  # noqa: E402
from tools.kernel_build import KernelBuild  # noqa: E402
from tools.machine_code import architectures  # noqa: E402
from tools.machine_code.architectures import ARCHS, compare, differences  # noqa: E402
from tools.needs import Needs, needs_of  # noqa: E402

BUILD = Path(os.environ.get("BUILD", "."))


@pytest.fixture(scope="module")
def record():
    return json.loads(architectures.RECORD.read_text())


@pytest.fixture(scope="module")
def rows(record):
    return {(row["step"], row["arch"]): row for row in record["compiled"]}


def ladder(*arguments):
    command = [sys.executable, "-P", "-m", "tools", "architectures", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)


# ---- The record ------------------------------------------------------------------------------------------


def test_the_record_is_whole(rows):
    """Every step with a kernel of its own, for every GPU that has its instructions."""
    expected = set()
    for step in architectures.steps_with_kernels():
        needs = needs_of((ROOT / "steps" / step / "kernel.cu").read_text())
        expected |= {(step, arch) for arch in ARCHS if needs.allow(arch)}
    assert rows.keys() == expected


def test_what_every_row_says(rows):
    for (step, arch), row in rows.items():
        loop = row["loop"]
        assert sum(loop["mix"].values()) <= loop["instructions"], (step, arch)
        name, count = architectures.products(loop)
        assert sum(n for opcode, n in loop["mix"].items() if opcode.split(".")[0] == name) == count > 0
        banks = name == "FFMA" and arch not in ("sm_100", "sm_120")
        assert ("bank_conflicts" in loop) == banks, (step, arch)


def test_the_text_is_the_record(record):
    assert architectures.RECORD.read_text() == architectures.as_text(record)
    assert json.loads(architectures.as_text(record)) == record


# ---- What docs/concepts/other_gpus.md says beside its tables ----------------------------------------------


def test_86_and_89_get_the_same_code_and_no_other_neighbours_do(rows):
    for step, arch in rows:
        same = [a for a in ARCHS if (step, a) in rows]
        same = {a for a in same if rows[step, a]["code_sha256"] == rows[step, arch]["code_sha256"]}
        assert same == ({"sm_86", "sm_89"} if arch in ("sm_86", "sm_89") else {arch})


def test_the_loop_of_step_08(rows):
    of_08 = {arch: rows["08_warp_tiling", arch]["loop"] for arch in ARCHS}
    assert {loop["ffma"] for loop in of_08.values()} == {1024}
    mixes = {arch: {name.split(".")[0] for name in loop["mix"]} for arch, loop in of_08.items()}
    assert not {"LEA", "SHF", "IMAD"} & mixes["sm_120"] and {"LEA", "SHF", "IMAD"} < mixes["sm_90a"]
    assert all(0.45 < of_08[arch]["clashes"] / 1024 < 0.55 for arch in ("sm_75", "sm_80"))
    assert of_08["sm_80"]["bank_conflicts"] < of_08["sm_86"]["bank_conflicts"]


def test_names_and_copies(rows):
    assert rows["05_2d_tiling", "sm_75"]["loop"]["mix"]["LDS.U"] == 16
    copies = {
        sum(n for name, n in row["loop"]["mix"].items() if name.startswith("LDGSTS"))
        for (step, _), row in rows.items()
        if step == "10_prefetch"
    }
    assert len(copies) == 1


# ---- Comparing -------------------------------------------------------------------------------------------


def test_differences_are_named(rows):
    row = rows["08_warp_tiling", "sm_86"]
    assert differences(row, deepcopy(row)) == []
    other = deepcopy(row)
    other["registers"] += 1
    other["loop"]["mix"]["FFMA"] -= 1
    said = differences(row, other)
    assert len(said) == 2 and all(line.startswith("08_warp_tiling for sm_86: ") for line in said)
    assert f"registers was {row['registers']} and is {row['registers'] + 1}" in said[0]
    assert "loop.mix was" in said[1]


def test_another_compiler_is_not_compared(record, rows, capsys):
    row = deepcopy(rows["08_warp_tiling", "sm_86"])
    row["registers"] += 1
    assert compare([row], "99.0.1") == 0
    assert f"not compared: the record is of nvcc {record['nvcc']}, this is 99.0.1" in capsys.readouterr().out
    assert compare([row], record["nvcc"]) == 1
    assert "registers was" in capsys.readouterr().out
    row["arch"] = "sm_87"
    assert compare([row], record["nvcc"]) == 1
    assert "08_warp_tiling for sm_87 is not recorded" in capsys.readouterr().out


@pytest.fixture
def commands(request, record):
    """Of a step, if this build has the compiler of the record."""
    commands = KernelBuild(BUILD, request.param)
    if "gpu" not in commands.units:
        pytest.skip("the build has no CUDA")
    version, _ = architectures.find_compiler(commands.units["gpu"])
    if version != record["nvcc"]:
        pytest.skip(f"the record is of nvcc {record['nvcc']}, this is {version}")
    return commands


@pytest.mark.parametrize("commands", ["05_2d_tiling"], indirect=True)
def test_what_was_recorded_from_this_source_is_not_compiled_again(commands, tmp_path):
    """Comments make no other source; code and options do."""
    kernel = ROOT / "steps" / "05_2d_tiling" / "kernel.cu"
    recorded = commands.cubin_source("sm_86", kernel)
    copy = tmp_path / "kernel.cu"
    copy.write_text("// A comment.\n\n" + kernel.read_text())
    assert commands.cubin_source("sm_86", copy) == recorded
    copy.write_text(kernel.read_text() + "__device__ int other;\n")
    assert commands.cubin_source("sm_86", copy) != recorded
    assert commands.cubin_source("sm_89", kernel) != recorded
    commands.units["gpu"].append("-maxrregcount=64")
    assert commands.cubin_source("sm_86", kernel) != recorded


def test_a_figure_changed_by_hand_breaks_its_seal(rows):
    row = rows["05_2d_tiling", "sm_86"]
    source = "as it was"
    sealed = row | {"seal": architectures.seal(row, source)}
    assert architectures.seal(sealed, source) == sealed["seal"]
    assert architectures.seal(sealed | {"registers": row["registers"] + 1}, source) != sealed["seal"]


@pytest.mark.parametrize("commands", ["08_warp_tiling", "25_ldmatrix"], indirect=True)
def test_the_tool_describes_code_as_it_did_when_it_recorded(commands, rows, request):
    step = request.node.callspec.params["commands"]
    assert differences(rows[step, "sm_86"], architectures.compiled(commands, step, "sm_86")) == []


def test_a_kernel_is_compiled_for_no_older_gpu():
    commands = KernelBuild(BUILD, "13_bulk_copy")
    assert commands.needs == Needs("sm_90+")
    assert [arch for arch in ARCHS if commands.needs.allow(arch)] == ["sm_90a", "sm_100", "sm_120"]


# ---- The command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["99"], ["'99' names no step", "01_naive"]),
        (["00"], ["'00' names no step"]),
        (["08", "--out", "x.json"], ["of all steps"]),
        (["08", "--build", "nowhere"], ["nowhere cannot build 08_warp_tiling", "setup.sh"]),
    ],
)
def test_mistakes(arguments, words):
    result = ladder(*arguments)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert all(word in result.stderr for word in words), result.stderr


def test_a_step_that_does_not_compile_is_named(tmp_path):
    commands = KernelBuild(BUILD, "05_2d_tiling")
    if "gpu" not in commands.units:
        pytest.skip("the build has no CUDA")
    commands.units["gpu"].append("-Dsgemm=int")
    with pytest.raises(UsageError, match=r"05_2d_tiling does not compile for sm_86: .*error") as raised:
        architectures.compile_for(commands, "05_2d_tiling", "sm_86", tmp_path / "k.cubin")
    assert raised.value.status == 1 and "\n" not in str(raised.value)


# ---- For pages -------------------------------------------------------------------------------------------


def test_expressions_read_the_record(rows):
    context = Context(None, "")
    row = rows["08_warp_tiling", "sm_86"]
    for expression, value in {
        "architecture('08', 'sm_86').registers": row["registers"],
        "architecture('08', 'sm_86').ffma": row["loop"]["ffma"],
        "architecture('08', 'sm_86').others": row["loop"]["instructions"] - row["loop"]["ffma"],
        "architecture('08', 'sm_86').count('LDS.128')": row["loop"]["mix"]["LDS.128"],
        "architecture('08', 'sm_86').count('LDG')": sum(
            n for name, n in row["loop"]["mix"].items() if name.startswith("LDG.")
        ),
    }.items():
        assert evaluate(expression, context) == value, expression
    for wrong in ("architecture('08', 'sm_61').ffma", "architecture('09', 'sm_75').ffma"):
        with pytest.raises(UsageError, match="sm_"):
            evaluate(wrong, context)
