"""What expressions know of the recorded evidence: profiles, the ladder, experiments, the GPU's figures."""

import json
import re

import pytest
from conftest import HERE, ROOT
from tools.base import EVIDENCE
from tools.claims.context import Context
from tools.claims.objects import NotAvailable, NoValue
from tools.claims.values import evaluate


@pytest.mark.parametrize(
    "expression, value",
    [
        ("profile(here).duration_us", 100),
        ("profile(here).tensor_pipe_percent", 62.5),
        ("profile(here).stall('long_scoreboard')", 25),
        ("profile(here).stall_cycles('long_scoreboard')", 0.5),
        ("profile(here).stall_cycles('dispatch')", 0.125),
        ("profile(here).executed()", 167),
        ("profile(here).executed('LDS')", 150),
        ("profile(here).executed('LDS.128')", 100),
        ("profile(here).executed('LDG.E.128')", 10),
        ("profile(here).sectors('LDG')", 160),
        ("profile(here).wavefronts('LDS')", 450),
        ("profile(here).executed('LDS', line='+= a[')", 100),
        ("profile(here).wavefronts('LDS', line='+= a[')", 400),
        ("profile(here).sectors('LDG', line='+= a[')", 0),
        ("profile(here).stall_at('long_scoreboard', 'LDS')", 75),
        ("profile(here).stall_at('wait', 'LDS')", 0),
        ("profile(here).excess('LDS')", 200),
        ("profile(here, m=256, n=256, k=128).executed('LDS')", 3),
    ],
)
def test_profile(context, expression, value):
    assert evaluate(expression, context) == value


@pytest.mark.parametrize(
    "expression, error, words",
    [
        ("profile(here).duration", NoValue, "it has cycles_per_hmma, duration_us"),
        ("profile(here).stall('boredom')", NoValue, "there are barrier"),
        ("profile(here).stall_at('barrier', 'LDS')", NoValue, "no sample of barrier"),
        ("profile(here).wavefronts('LDS', line='+= z[')", NoValue, "no line"),
        ("profile(here).lsu_pipe_percent", NotAvailable, "without lsu_pipe_percent"),
        ("profile(here).hmma_instructions", NotAvailable, "without hmma_instructions"),  # in no older record
        ("profile(here, n=17)", NotAvailable, "no run of 17 x 17 x 17"),
        ("profile(before)", NotAvailable, "04_1d_tiling is not recorded yet"),
        ("profile(here, m=256, n=256, k=128).excess('LDS')", NotAvailable, "without its instructions"),
        ("ladder(here).speed", NoValue, "it has"),
        ("experiment('none', 'x')", NoValue, "there are"),
        ("const(here, 'M')", NoValue, "there are BM"),
        ("ladder(here) + 1", NoValue, "no number"),
    ],
)
def test_what_has_no_value(context, expression, error, words):
    with pytest.raises(error, match=re.escape(words)):
        evaluate(expression, context)


def test_profile_of_another_gpu(fake_profiles):
    path = fake_profiles / f"{HERE}.json"
    path.write_text(path.read_text().replace("NVIDIA H200", "NVIDIA A10"))
    with pytest.raises(NotAvailable, match="NVIDIA A10"):
        evaluate("profile(here).duration_us", Context(None, HERE, profiles=fake_profiles))
    path.write_text("[]")
    with pytest.raises(NoValue, match="holds no profile"):
        evaluate("profile(here).duration_us", Context(None, HERE, profiles=fake_profiles))


def test_ladder_is_what_was_recorded(context):
    records = json.loads((ROOT / "docs" / "evidence" / "h200" / "ladder.json").read_text())
    wanted = next(r for r in records if r["step"] == HERE and r["m"] == 2048)
    assert evaluate("ladder(here, n=2048).ratio", context) == wanted["ratio_to_cublas"]
    assert evaluate("ladder(here, n=2048).tflops", context) == wanted["tflops"]
    of_cublas = 2 * 2048**3 / wanted["cublas_time_us"] / 1e6
    assert evaluate("ladder(here, n=2048).cublas_tflops", context) == pytest.approx(of_cublas)


def test_ladder_of_any_shape(tmp_path):
    """m and k are n where they are left out; a cube of the same n is another shape."""
    shapes = [(4096, 4096, 4096, 1), (4096, 16, 4096, 1), (16, 4096, 4096, 1)]
    shapes += [(16, 16, 16, 1), (16, 16, 16, 3), (16, 16, 8, 1)]
    keys = ("m", "n", "k", "batch")
    records = [
        {"step": HERE, "time_us": at} | dict(zip(keys, shape, strict=True)) for at, shape in enumerate(shapes)
    ]
    (tmp_path / "ladder.json").write_text(json.dumps(records))
    context = Context(None, HERE, evidence=tmp_path)
    calls = ("here", "here, 16, m=4096, k=4096", "here, m=16", "here, 16", "here, 16, 3", "here, 16, k=8")
    for wanted, arguments in enumerate(calls):
        assert evaluate(f"ladder({arguments}).time_us", context) == wanted, arguments
    for arguments, words in (
        ("here, 16, m=4096", "no measurement of 05_2d_tiling at 4096 x 16 x 16, batch 1"),
        ("here, 17", "no measurement of 05_2d_tiling at 17, batch 1"),
    ):
        with pytest.raises(NotAvailable, match=words):
            evaluate(f"ladder({arguments})", context)


def test_evidence_of_two_gpus(tmp_path):
    """Each step's evidence is of the GPU that its claims name; a page takes all of it from its own step's."""
    keys = ("step", "m", "n", "k", "batch", "time_us")
    for gpu, records in (("h200", [("01_old", 5)]), ("h100", [("01_old", 7), ("02_new", 3)])):
        folder = tmp_path / "docs" / "evidence" / gpu
        folder.mkdir(parents=True)
        rows = [dict(zip(keys, (step, 16, 16, 16, 1, time), strict=True)) for step, time in records]
        (folder / "ladder.json").write_text(json.dumps(rows))
    for step, claims in (("01_old", ""), ("02_new", 'gpu = "h100"\n')):
        (tmp_path / "steps" / step).mkdir(parents=True)
        (tmp_path / "steps" / step / "kernel.cu").write_text("")
        (tmp_path / "steps" / step / "claims.toml").write_text(claims)
    for page, step, time in (
        ("02_new", "02", 3),
        ("02_new", "01", 7),
        ("01_old", "01", 5),
        ("", "01", 5),
        ("", "02", 3),
    ):
        context = Context(None, page, root=tmp_path)
        assert evaluate(f"ladder('{step}', 16).time_us", context) == time, (page, step)
    with pytest.raises(NotAvailable, match="no measurement of 02_new"):
        evaluate("ladder('02', 16)", Context(None, "01_old", root=tmp_path))


def test_experiment(context, tmp_path):
    def record(variant, time, right=True, experiment="stages", n=4096):
        return {
            **{"experiment": experiment, "variant": variant, "step": "10_prefetch", "m": n, "n": n, "k": n},
            **{"time_us": time, "tflops": 100 / time, "ratio_to_cublas": 5 / time, "pass": right},
            **{"machine_code": {"registers": 200, "sass_sha256": "x"}, "device": "NVIDIA H200"},
        }

    def of(*records):
        (tmp_path / "experiments.json").write_text(json.dumps(records))
        return Context(None, HERE, evidence=tmp_path)

    good = of(record("2 stages", 10), record("3 stages", 5), record("x", 1, False, experiment="c_first"))
    assert evaluate("experiment('stages', '3 stages').speedup", good) == 2
    assert evaluate("experiment('stages', '3 stages').ratio", good) == 1
    assert evaluate("experiment('stages', '2 stages').registers", good) == 200
    for expression, error, words in (
        ("experiment('stages', '4 stages')", NoValue, "there are 2 stages, 3 stages"),
        ("experiment('stages', '3 stages', n=8192)", NotAvailable, "not recorded at 8192"),
        ("experiment('thread_index', 'x')", NotAvailable, "not recorded"),
        ("experiment('c_first', 'x')", NoValue, "wrong result"),
    ):
        with pytest.raises(error, match=words):
            evaluate(expression, good)


def test_register_banks(context, tmp_path):
    models = {"next 1": 2.0, "bank 2": 1.5}
    measured = [("three", 1, 2, True), ("three", 4, 1.25, True), ("wrong", 4, 1, False)]
    keys = ("pattern", "warps_per_scheduler", "cycles_per_ffma", "pass")
    record = {
        "patterns": [{"pattern": name, "models": models} for name in ("three", "wrong")],
        "measured": [dict(zip(keys, one, strict=True)) for one in measured],
    }
    (tmp_path / "register_banks.json").write_text(json.dumps(record))
    good = Context(None, HERE, evidence=tmp_path)
    for expression, value in (
        ("register_banks('three').cycles_per_ffma", 1.25),
        ("register_banks('three', warps=1).cycles_per_ffma", 2),
        ("register_banks('three', 1).predicted", 1.5),
        ("register_banks('three').off", 0.2),
        ("register_banks('three', 1).off", -0.25),
        ("register_banks('three').model('next 1')", 2),
        ("len(register_banks('three').patterns)", 2),
        ("max([register_banks(p, 1).off for p in register_banks('three', 1).patterns])", -0.25),
    ):
        assert evaluate(expression, good) == pytest.approx(value), expression
    for expression, error, words in (
        ("register_banks('four')", NoValue, "no pattern 'four' was measured; there are three, wrong"),
        ("register_banks('three', warps=2)", NoValue, "not measured with 2 warps; there are 1, 4"),
        ("register_banks('three').model('bank')", NoValue, "no model 'bank'; there are next 1, bank 2"),
        ("register_banks('wrong')", NoValue, "wrong result"),
    ):
        with pytest.raises(error, match=words):
            evaluate(expression, good)
    with pytest.raises(NotAvailable, match="not recorded yet"):
        evaluate("register_banks('three')", Context(None, HERE, evidence=tmp_path / "none"))


def test_other_ladders(tmp_path):
    """What others say of their ladders, and constants of the kernels rebuilt from them."""
    folders = tmp_path / "docs", tmp_path / "experiments" / "kernels"
    for folder in folders:
        folder.mkdir(parents=True)
    (folders[0] / "other_ladders.toml").write_text("[old]\nsource = 'a book'\npercent = 93.1\n")
    (folders[1] / "old.cu").write_text("constexpr int TILE = 32;\n")
    context = Context(None, "", root=tmp_path, evidence=tmp_path)
    assert evaluate("other('old', 'percent')", context) == 93.1
    assert evaluate("const('old.cu', 'TILE')", context) == 32
    for expression, words in (
        ("other('old', 'source')", "no source of 'old'; there are percent"),
        ("other('new', 'percent')", "no percent of 'new'; there are old"),
        ("const('old.cu', 'BK')", "old.cu has no constant BK; there are TILE"),
        ("const('new.cu', 'BK')", "cannot be read"),
    ):
        with pytest.raises(NoValue, match=words):
            evaluate(expression, context)


def test_figures_of_the_gpu_agree_with_what_it_said(context):
    record = json.loads((ROOT / "docs" / "evidence" / "h200" / "ladder.json").read_text())[0]
    assert evaluate("gpu.name", context) == record["device"]
    assert evaluate("gpu.sms", context) == record["multiprocessors"]
    assert evaluate("gpu.max_sm_clock_mhz", context) == record["max_sm_clock_mhz"]
    assert evaluate("gpu.peak_tflops", context) == pytest.approx(record["peak_tflops"])
    assert evaluate("gpu.flops_per_byte", context) == pytest.approx(66.90816 / 4.8)
    for name, figure in json.loads((EVIDENCE / "device.json").read_text())["figures"].items():
        assert figure.keys() == {"value", "unit", "source"}, name


def test_cycles_for_an_hmma_are_those_of_a_scheduler():
    """Of an SM's cycles each of its four schedulers has all, and issues a fourth of its HMMAs."""
    counters = json.loads((EVIDENCE / "24_async_stages.json").read_text())["runs"][0]["counters"]
    of_a_scheduler = counters["hmma_instructions"] / (132 * 4)
    assert of_a_scheduler == 4096**3 / (16 * 8 * 8) / (132 * 4)
    value = evaluate("profile('24').cycles_per_hmma", Context(None, HERE))
    assert value == pytest.approx(counters["sm_cycles"] / of_a_scheduler)
    with pytest.raises(NotAvailable, match="without hmma_instructions"):
        evaluate("profile('05').cycles_per_hmma", Context(None, HERE))
