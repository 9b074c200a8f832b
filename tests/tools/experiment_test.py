"""Every experiment fits the kernels as they are; what it says of mistakes; variants whose main loop
experiments/machine_code writes. Only these need nvcc."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from tools.base import UsageError, read_toml
from tools.machine_code import sass
from tools.machine_code.binary import find_tool
from tools.machine_code.listing import SassError
from tools.measuring import experiment

sys.path.insert(0, str(experiment.MACHINE_CODE.parent))
from machine_code.cubin import find_cubins
from machine_code.plan import Plan
from machine_code.rewrite import Refused, check_origin

NAMES = sorted(path.stem for path in experiment.FOLDER.glob("*.toml"))


@pytest.mark.parametrize("name", NAMES)
def test_variants_fit_the_kernel(name):
    [read] = experiment.choose([name])
    assert read.question.endswith("?")
    assert len(read.variants) >= 2
    plans = [v.plan if v.plan is None else replace(Plan(), **v.plan) for v in read.variants]
    distinct = {
        (v.source(), tuple(v.options), tuple(v.compiler), plan)
        for v, plan in zip(read.variants, plans, strict=True)
    }
    assert len(distinct) == len(read.variants)  # no variant is another one under a second name
    # One variant is the step itself, or with the main loop that the tool writes if it is not told otherwise:
    # under this name the pages compare.
    kernel = experiment.kernel_of(read.step)
    own = [variant for variant in read.variants if variant.kernel == read.step]
    assert any(variant.source() == kernel and not variant.plan for variant in own)


@pytest.mark.parametrize("name", NAMES)
def test_variants_are_recorded(name):
    """The record is of this file's variants, all right, on one machine, with figures of the same run."""
    records = json.loads((ROOT / "docs" / "evidence" / "h200" / "experiments.json").read_text())
    [read] = experiment.choose([name])
    if any(variant.wrong_at for variant in read.variants):
        pytest.skip("wrong results are shown on the CPU device, not timed")
    mine = [record for record in records if record["experiment"] == name]
    rows = [size if isinstance(size, int) else int(re.findall(r"--m (\d+)", size)[0]) for size in read.sizes]
    expected = {(variant.name, m, tuple(variant.options)) for variant in read.variants for m in rows}
    assert {(r["variant"], r["m"], tuple(r["options"])) for r in mine} == expected
    # What a variant leaves out on purpose is not verified: how fast it would be without.
    assert all(r["pass"] and r["verified"] == ("--no-verify" not in r["options"]) for r in mine)
    programs = {variant.name: read.program(variant) for variant in read.variants}
    assert all(r["step"] == programs[r["variant"]] for r in mine)
    assert len({(r["device"], r["driver"]) for r in records}) == 1


def test_a_variant_of_another_kernel(tmp_path):
    path = tmp_path / "x.toml"
    head = 'step = "08_warp_tiling"\nquestion = "Why?"\nvariant = [{ name = "a" },\n'
    path.write_text(
        head
        + """
  { name = "b", kernel = "07_bank_conflicts", adds = "lanes", compiler = ["-v"], constants = { PAD = 0 } },
  { name = "c", like = "b", lacks = "all" },
  { name = "d", kernel = "turing_tiles.cu" },
]
"""
    )
    read = experiment.read(path)
    kernels = ["08_warp_tiling", *["07_bank_conflicts"] * 2, "turing_tiles.cu"]
    assert [variant.kernel for variant in read.variants] == kernels
    assert [read.program(variant) for variant in read.variants] == [*kernels[:3], "08_warp_tiling"]
    assert [variant.compiler for variant in read.variants] == [[], ["-v"], ["-v"], []]
    assert [variant.adds for variant in read.variants] == ["", "lanes", "", ""]  # like: changes only
    assert "sgemm_turing_tiles" in read.variants[3].source()
    for name in "06_nothing", "nothing.cu":
        path.write_text(f'{head}{{ name = "b", kernel = "{name}" }}]')
        with pytest.raises(UsageError, match="there is no .*" + name):
            experiment.read(path)


def test_five_ladders():
    """Every ladder of docs/other_ladders.toml names its experiments, which together are `five_ladders`."""
    ladders = read_toml(ROOT / "docs" / "other_ladders.toml").values()
    names = [name for ladder in ladders for name in ladder["experiments"]]
    assert len(ladders) == 5
    assert [e.name for e in experiment.choose(["five_ladders"])] == names


def checked(name):
    """What `ladder experiment check NAME` prints, all variants being as they should."""
    if "BUILD" not in os.environ:
        pytest.skip("BUILD names no build directory")
    command = [sys.executable, "-m", "tools", "experiment", "check", name, "--build", os.environ["BUILD"]]
    env = os.environ | {"PYTHONPATH": str(ROOT / "common")}
    result = subprocess.run(command, capture_output=True, text=True, env=env)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_five_ladders_on_the_cpu_device():
    """Every kernel that is timed passes the check for bounds, races and barriers."""
    lines = checked("five_ladders").splitlines()
    assert len(lines) == sum(len(e.variants) for e in experiment.choose(["five_ladders"]))
    assert all(line.endswith(": right") for line in lines)


def test_wrong_results_of_other_ladders():
    """What `ladder experiment check wrong_results` shows, as the page on the five ladders tells it: the kind
    of mistake, and where."""
    shown = checked("wrong_results")
    parts = [part for part in re.split(r"^wrong_results, ", shown, flags=re.MULTILINE) if part]
    said = {name: text for name, _, text in (part.partition(": run ") for part in parts)}
    kernels = {
        name: experiment.kernel_of(name).splitlines() for name in ("thread_tiles.cu", "turing_tiles.cu")
    }

    def lines(name, kind, kernel):
        found = re.findall(rf"{kind}: kernel\.cu:(\d+): .*", said[name])
        return {kernels[kernel][int(number) - 1].strip() for number in found}

    page = (ROOT / "docs" / "concepts" / "five_ladders.md").read_text()
    quoted = set(re.findall(r"`([^`]*)` \|$", page, re.MULTILINE))
    stray, race = "out-of-bounds access to global memory", "data race on global memory"
    turing = "Turing ladder, kernel 4: no edges"
    assert lines(turing, stray, "turing_tiles.cu") & quoted and lines(turing, race, "turing_tiles.cu")
    assert "misaligned access" in said["Turing ladder, kernel 11: no edges"]
    batched = "batched ladder, float4: stores beyond a row's end"
    for kind in stray, race:
        assert lines(batched, kind, "thread_tiles.cu") & quoted, kind
    assert "C[1][0] of matrix 0" in said[batched]
    a10 = "A10 ladder: the last rows and columns have no block"
    assert "first C[0][4064]" in said[a10] and "never written" in said[a10]
    [changed] = [v for v in experiment.choose(["wrong_results"])[0].variants if v.name == a10]
    assert any("ceil" in line and line in changed.source() for line in quoted)


def test_list(tool):
    result = tool("experiment", "list")
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == len(NAMES)


def test_mistakes(refused, tmp_path, monkeypatch):
    refused("experiment", "list", "nope", words=["no experiment 'nope'", NAMES[0]])
    refused("experiment", "build", NAMES[0], words=["--keep"])
    refused("experiment", "run", tmp_path, words=["--out"])
    refused(
        "experiment", "run", "five_ladders", "--build", tmp_path, words=["03_shared_memory", "build it first"]
    )
    run = ["experiment", "run", tmp_path, "--out", "o.json"]
    refused(*run, words=[f"nothing in {tmp_path} could be measured"], after_progress=True)
    build = ["experiment", "build", NAMES[0], "--keep", "kept", "--build", tmp_path]
    refused(*build, words=["setup.sh"])
    assert list(tmp_path.iterdir()) == []
    whole = "step = '01_naive'\nquestion = '?'\n"
    for text, said in (
        ("step", "cannot be read"),
        ("step = '01_naive'", "has no question"),
        ("step = '99'\nquestion = '?'\nvariant = []", "no kernel '99'"),
        (f"{whole}[[variant]]\nname = 'a'\n[[variant]]\nname = 'a'", "the same name"),
        (f"{whole}[[variant]]\nname = 'a'\nreplace = [{{ new = 'x' }}]", "variant 1: replace 1 is not"),
        (f"{whole}[[variant]]\nname = 'a'\nconstant = {{ A = 1 }}", "unknown key 'constant'"),
    ):
        path = tmp_path / "broken.toml"
        path.write_text(text)
        with pytest.raises(UsageError, match=rf"broken\.toml.*{said}"):
            experiment.read(path)


def kept(folder, passed, **about):
    """A folder as `build` leaves it, whose program measures one problem."""
    folder.mkdir(parents=True)
    record = {"m": 8, "pass": passed, "ratio_to_cublas": 0.5, "time_us": 2.0, "device": "a card"}
    script = f"import sys\nopen(sys.argv[-1], 'w').write({json.dumps([record])!r})\nsys.exit({not passed:d})"
    (folder / "run").write_text(f"#!{sys.executable}\n{script}")
    (folder / "run").chmod(0o755)
    about = {"step": "01_naive", "options": [], "sizes": [8], "machine_code": {"registers": 7}} | about
    (folder / "about.json").write_text(json.dumps(about))


def test_run_reports_wrong_variants(tool, tmp_path):
    for number, passed in enumerate([True, False]):
        folder = tmp_path / "kept" / "thing" / f"{number:02}"
        kept(folder, passed, experiment="thing", variant=f"v{number}")
    result = tool("experiment", "run", "kept", "--out", "out.json")
    assert result.returncode == 1
    assert "0.500 of cuBLAS" in result.stdout
    assert "wrong" in result.stdout
    assert len(json.loads((tmp_path / "out.json").read_text())) == 2


def test_run_by_name_shows_what_is_recorded(tmp_path, monkeypatch, capsys):
    """A figure of the card at hand, and beside it the recorded one of the same variant and size, if any."""
    recorded = {"experiment": "thing", "variant": "v0", "m": 8, "ratio_to_cublas": 0.25, "device": "H200"}
    (tmp_path / "experiments.json").write_text(json.dumps([recorded]))
    monkeypatch.setattr(experiment, "EVIDENCE", tmp_path)

    def build_all(experiments, build, out):
        for number in range(2):
            kept(out / f"{number}", True, experiment="thing", variant=f"v{number}")

    monkeypatch.setattr(experiment, "build_all", build_all)
    _, fine = experiment.run_here([], tmp_path)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("thing")]
    assert fine
    assert [line[-3:] for line in lines] == [["0.250", "on", "H200"], ["7", "registers", "-"]]


def test_new_records_replace_those_of_the_same_experiment():
    old = [{"experiment": "a", "m": 8}, {"experiment": "b", "m": 8}]
    new = [{"experiment": "a", "m": 16}]
    assert experiment.merge(old, new) == [{"experiment": "a", "m": 16}, {"experiment": "b", "m": 8}]


# ---- Variants with a plan --------------------------------------------------------------------------------

STEP = "14_stream_k"


@pytest.fixture(scope="module")
def build():
    """The build directory, if it has a program whose main loop can be written anew."""
    folder = Path(os.environ.get("BUILD", "."))
    try:
        find_tool("nvcc")
        find_tool("nvdisasm")
        for cubin in find_cubins((folder / "steps" / STEP / "run").read_bytes())[-1:]:
            check_origin(cubin)
            return folder
    except (SassError, Refused, OSError) as missing:
        pytest.skip(str(missing))
    pytest.skip("the build has no CUDA")


def of_step(*variants):
    return experiment.Experiment("planned", STEP, "What is it for?", [*variants])


def crowds(program):
    """In how many terms of the main loop all six loads of fragments stand with one FFMA between them."""
    loop = sass.main_kernel(sass.kernels(program, sass.archs(program)[-1])).loop
    letters = {"FFMA": ".", "LDS": "L"}
    return "".join(letters.get(i.mnemonic, "x") for i in loop.instructions).count("L.L.L.L.L.L")


def test_a_plan_writes_the_main_loop_anew(build, tmp_path):
    """The plan asks for another place of the loads than the tool would give them."""
    variant = experiment.Variant(name="all loads side by side", plan={"spacing": 1})
    experiment.build_all([of_step(variant)], build, tmp_path)
    [folder] = (tmp_path / "planned").iterdir()
    assert {path.name for path in folder.iterdir()} == {"kernel.cu", "run", "about.json"}
    source = build / "steps" / STEP / "run"
    assert (folder / "kernel.cu").read_text() == (ROOT / "steps" / STEP / "kernel.cu").read_text()
    assert os.access(folder / "run", os.X_OK)
    before = experiment.machine_code(source)
    after = json.loads((folder / "about.json").read_text())["machine_code"]
    assert after["sass_sha256"] != before["sass_sha256"]
    assert after["loop_ffma"] == before["loop_ffma"] > 0
    assert crowds(folder / "run") > 6 > crowds(source) == 0  # of 8 terms


def test_like(tmp_path):
    path = tmp_path / "chain.toml"
    head = "step = '01_naive'\nquestion = '?'\nvariant = [{ name = 'as it is' },\n"
    path.write_text(
        head
        + """
  { name = 'a', replace = [{ old = 'one', new = 'two, three' }], constants = { BK = 16, BM = 64 } },
  { name = 'b', like = 'a', replace = [{ old = 'three', new = 'four' }], constants = { BK = 32 } },
  { name = 'c', like = 'b' },
]
"""
    )
    kernel = "constexpr int BM = 1, BK = 1;\n// one\n"
    sources = [variant.text(kernel) for variant in experiment.read(path).variants]
    chained = "constexpr int BM = 64, BK = 32;\n// two, four\n"  # b's change finds what a's has made
    assert sources == [kernel, "constexpr int BM = 64, BK = 16;\n// two, three\n", chained, chained]

    for like, rest in (("nobody", ""), ("a", ""), ("b", "{ name = 'b' }")):  # none, itself, one after it
        path.write_text(f"{head}{{ name = 'a', like = '{like}' }}, {rest}]")
        with pytest.raises(UsageError, match=rf"chain\.toml.*'a' is like '{like}', none before it"):
            experiment.read(path)
