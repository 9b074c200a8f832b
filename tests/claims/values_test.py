"""values.py: what expressions can say, and that they can say nothing else."""

import itertools
import json
import os
import re

import pytest
from conftest import ROOT, XRAY, FakeBuild
from tools.base import EVIDENCE
from tools.claims import values
from tools.claims.context import Context, all_steps, constants
from tools.claims.objects import ExpressionError, NotAvailable, NoValue
from tools.claims.values import evaluate, explain

HERE = "05_2d_tiling"


@pytest.fixture
def context(fake_build, fake_profiles):
    return Context(fake_build.path, HERE, profiles=fake_profiles)


@pytest.mark.parametrize(
    "expression, value",
    [
        ("1 + 2 * 3 - 4 / 8", 6.5),
        ("-7 // 2 % 5 + 2**3", 9),
        ("1 < 2 <= 2 != 3", True),
        ("1 < 2 > 3", False),
        ("1 == 1.0 and not 2 == 3", True),
        ("1 == 2 or 'a' in ['a', 'b']", True),
        ("min(3, 1, 2) + max([1, 5]) + abs(-2) + round(2.6) + len([0, 0])", 13),
        ("sum(n * m for n in [1, 2] for m in [10, 20] if n != 2)", 30),
        ("all([s == s for s in steps]) and any(s == here for s in steps)", True),
        ("N", 4096),
        ("here", HERE),
        ("before", "04_1d_tiling"),
    ],
)
def test_expressions(context, expression, value):
    assert evaluate(expression, context) == value


# Each would reach beyond the values if it were let through.
FORBIDDEN = [
    "__import__('os').system('true')",
    "open('/etc/passwd')",
    "eval('1')",
    "exec('1')",
    "getattr(gpu, 'name')",
    "type(gpu)",
    "vars()",
    "globals()",
    "print(1)",
    "sass.kernels",
    "values",
    "ast",
    "gpu.__class__",
    "gpu._figures",
    "gpu.__class__.__bases__[0].__subclasses__()",
    "const.__globals__",
    "ladder(here).__dict__",
    "xray(here)._rows",
    "xray(here).load.__func__",
    "xray(here).load.__self__",
    "(lambda: 1)()",
    "[].__class__",
    "''.join(['a'])",
    "'{0.__class__}'.format(gpu)",
    "f'{gpu}'",
    "[1, 2][0]",
    "{1: 2}",
    "{1, 2}",
    "{s: 1 for s in steps}",
    "(x := 5)",
    "1 if True else 2",
    "max(*[1, 2])",
    "ladder(**here)",
    "ladder(here)(1)",
    "(ladder)(here).ratio",
    "gpu.sms & 1",
    "1 << 3",
    "1 is 1",
    "None",
    "...",
    "b'a'",
    "await gpu",
    "yield",
    "import os",
    "x = 1",
    "1; 2",
    "",
    "1 +",
    "nothing",
    "here.upper()",
    "'a' * 9",
    "'a' + 'b'",
    "'%s' % here",
    "[1] * 9",
    "9**9**9",
    "sum(n for n, m in [[1, 2]])",
    "gpu.name.upper()",
    "gpu.sms.real",
    "xray(here).load('A').rows.bit_length()",
    "steps.append('x')",
    "explain('1', here)",
    "program(here)",
    "-" * 5000 + "1",
    "(" * 500 + "1" + ")" * 500,
]


# Calling what is known by its name in brackets is the same as calling it.
@pytest.mark.parametrize("expression", [e for e in FORBIDDEN if e != "(ladder)(here).ratio"])
def test_everything_else_is_refused_in_one_line(context, expression):
    with pytest.raises(ExpressionError) as error:
        evaluate(expression, context)
    assert str(error.value).strip()
    assert "\n" not in str(error.value)


def test_what_is_refused_is_not_executed(context, tmp_path):
    trace = tmp_path / "trace"
    for expression in (
        f"__import__('pathlib').Path({str(trace)!r}).touch()",
        f"[open({str(trace)!r}, 'w') for s in steps]",
        f"1 == 2 and open({str(trace)!r}, 'w')",
    ):
        with pytest.raises(ExpressionError):
            evaluate(expression, context)
    assert not trace.exists()


def test_a_refusal_does_not_depend_on_values(context):
    """What is not allowed is found where it is not reached, too: a file can be judged without a build."""
    for expression in ("1 == 2 and unknown(here)", "gpu.sms > 0 or gpu._figures"):
        with pytest.raises(ExpressionError) as error:
            values.parse(expression)
        assert not isinstance(error.value, NoValue)


def test_comparisons_are_kept_with_both_sides(context):
    evaluation = explain("1 < const(here, 'BK') < 3 and 1 == 1", context)
    assert evaluation.value is False
    assert [(c.left, c.left_value, c.sign, c.right_value, c.holds) for c in evaluation.comparisons] == [
        ("1", 1, "<", 8, True),
        ("const(here, 'BK')", 8, "<", 3, False),
    ]
    inner = explain("all(const(s, 'BK') == 16 for s in [before, here])", context)
    assert [(c.left, c.holds) for c in inner.comparisons] == [
        ("const('04_1d_tiling', 'BK')", True),
        ("const('05_2d_tiling', 'BK')", False),
    ]


def test_sources():
    assert values.sources("xray(here).faults + const(here, 'BK') < gpu.sms") == ["xray", "const", "gpu"]
    assert values.sources("1 < 2") == []


# ---- X-ray -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression, value",
    [
        ("xray(here).load('A').requests", 10),
        ("xray(here).load('A').lanes", 320),
        ("xray(here).load('A').sectors_per_request", 4),
        ("xray(here).load('A').bytes_per_sector", 32),
        ("xray(here).load('B').bytes_per_sector", 4),
        ("xray(here).load().requests", 25),
        ("xray(here).load(space='global').sectors", 360),
        ("xray(here).load(line='b = B').sectors", 320),
        ("xray(here).load('A', line='b = B').requests", 0),
        ("xray(here).load('C').requests", 0),
        ("xray(here).load('C').sectors", 0),
        ("xray(here).load().sectors_per_request", 18),
        ("xray(here).load().wavefronts_per_request", 2),
        ("xray(here).store('C').width", 16),
        ("xray(here).load('As').wavefronts_per_request", 2),
        ("xray(here).load('As').ideal", 5),
        ("xray(here).copy('Bs').excess", 15),
        ("xray(here).copy('Bs').conflicts", 0),
        ("xray(here).access('As').rows", 1),
        ("xray(here).excess", 20),
        ("xray(here).conflicts", 5),
        ("xray(here).shared_requests", 10),
        ("xray(here).shared_wavefronts", 30),
        ("xray(here).global_requests", 22),
        ("xray(here).global_sectors", 368),
        ("xray(here).global_bytes", 368 * 32),
        ("xray(here).global_bytes_used", 2624),
        ("xray(here).faults", 0),
        ("xray(here).blocks", 4),
        ("xray(here).threads_per_block", 256),
        ("xray('05').load('A').requests", 10),
    ],
)
def test_xray(context, expression, value):
    assert evaluate(expression, context) == value


@pytest.mark.parametrize(
    "expression, words",
    [
        ("xray(here).load('AS').excess == 0", "no array 'AS'"),
        ("xray(here).load('A', line='nowhere').requests == 0", "no access"),
        ("xray(here).load('C').sectors_per_request == 0", "no load of C"),
        ("xray(here).load('A').excess == 0", "no load of A in 05_2d_tiling of shared memory"),
        ("xray(here).store('As').conflicts == 0", "no store of As in 05_2d_tiling of shared memory"),
        ("xray(here).load('As').sectors == 0", "has no sectors"),
        ("xray(here).load().width == 4 == xray(here).access().width", "no one width"),
        ("xray(here).loads('A')", "it has access"),
        ("xray('5')", "names no step"),
        ("xray(5)", "no step"),
        ("xray(here, 3, 4, 5, 6)", "argument"),
    ],
)
def test_xray_without_a_value(context, expression, words):
    with pytest.raises(NoValue, match=re.escape(words)):
        evaluate(expression, context)


def test_xray_is_taken_once_for_a_program(fake_build):
    def requests(**shape):
        options = "".join(f", {name}={value}" for name, value in shape.items())
        return evaluate(f"xray(here{options}).load('A').requests", Context(fake_build.path, HERE))

    assert requests() == requests() == 10
    assert len(fake_build.calls) == 1
    assert fake_build.calls[0].startswith("--xray --m 256 --n 256 --k 128 --json ")
    assert requests(k=16) == 10
    assert "--k 16 " in fake_build.calls[1]
    # Another program of the same size, as a rebuild might leave it, is asked again.
    changed = json.loads(json.dumps(XRAY))
    changed["xray"]["kernels"][0]["accesses"][0]["requests"] = 11
    fake_build.answer(changed)
    assert requests() == 10
    status = fake_build.program.stat()
    os.utime(fake_build.program, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert requests() == 11
    assert len(fake_build.calls) == 3
    kept = [path.name for path in (fake_build.path / "xray-cache").iterdir()]
    assert len(kept) == 2  # of the old program, this problem's is gone
    assert not [name for name in kept if name.endswith(".tmp")]


def test_a_broken_cache_is_made_again(fake_build):
    evaluate("xray(here).faults", Context(fake_build.path, HERE))
    for path in (fake_build.path / "xray-cache").iterdir():
        path.write_text("{")
    assert evaluate("xray(here).faults", Context(fake_build.path, HERE)) == 0
    assert len(fake_build.calls) == 2


def test_a_program_that_fails(fake_build):
    def of(record):
        fake_build.answer(record)
        return Context(fake_build.path, HERE)

    with pytest.raises(NoValue, match="exit status 1: race at line 3"):
        evaluate("xray(here).faults", of({"status": 1, "says": "error: race at line 3"}))
    with pytest.raises(NotAvailable, match="was built without"):
        evaluate("xray(here).faults", of({"status": 3, "says": "error: it was built without GCC"}))
    assert not (fake_build.path / "xray-cache").exists()
    assert evaluate("xray(here).faults", of({**XRAY, "complaints": ["race", "stray"]})) == 2
    fake_build.program.chmod(0o644)
    with pytest.raises(NoValue, match="cannot be run"):
        evaluate("xray(here, k=1).faults", Context(fake_build.path, HERE))


def test_without_a_build(fake_build):
    for expression in ("xray(here).faults", "sass(here).registers"):
        with pytest.raises(NotAvailable, match="no build directory"):
            evaluate(expression, Context(None, HERE))
        with pytest.raises(NotAvailable, match="is not built"):
            evaluate(expression.replace("here", "before"), Context(fake_build.path, HERE))


# ---- What was recorded -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression, value",
    [
        ("profile(here).duration_us", 100),
        ("profile(here).stall('long_scoreboard')", 25),
        ("profile(here).stall('barrier')", 0),
        ("profile(here).stall_cycles('long_scoreboard')", 0.5),
        ("profile(here).stall_cycles('dispatch')", 0.125),
        ("profile(here).stall_cycles('barrier')", 0),
        ("profile(here).executed()", 167),
        ("profile(here).executed('LDS')", 150),
        ("profile(here).executed('LDS.128')", 100),
        ("profile(here).executed('LDS.32')", 50),
        ("profile(here).executed('LDG.E.128')", 10),
        ("profile(here).executed('LDG.128')", 10),
        ("profile(here).executed('FFMA')", 0),
        ("profile(here).sectors('LDG')", 160),
        ("profile(here).wavefronts('LDS')", 450),
        ("profile(here).executed('LDS', line='+= a[')", 100),
        ("profile(here).wavefronts('LDS', line='+= a[')", 400),
        ("profile(here).sectors('LDG', line='+= a[')", 0),
        ("profile(here).stall_at('long_scoreboard', 'LDS')", 75),
        ("profile(here).stall_at('wait', 'LDS')", 0),
        ("profile(here).excess('LDS')", 200),
        ("profile(here).excess('LDS.32')", 0),
        ("profile(here, m=256, n=256, k=128).executed('LDS')", 3),
    ],
)
def test_profile(context, expression, value):
    assert evaluate(expression, context) == value


@pytest.mark.parametrize(
    "expression, error, words",
    [
        ("profile(here).duration", NoValue, "it has duration_us"),
        ("profile(here).stall('boredom')", NoValue, "there are barrier"),
        ("profile(here).stall_cycles('boredom')", NoValue, "there are barrier"),
        ("profile(here).stall_at('boredom', 'LDS')", NoValue, "there are barrier"),
        ("profile(here).stall_at('barrier', 'LDS')", NoValue, "no sample of barrier"),
        ("profile(here).wavefronts('LDS', line='+= z[')", NoValue, "no line"),
        ("profile(here).lsu_pipe_percent", NotAvailable, "without lsu_pipe_percent"),
        ("profile(here, n=17)", NotAvailable, "no run of 17 x 17 x 17"),
        ("profile(before)", NotAvailable, "04_1d_tiling is not recorded yet"),
        ("profile(here, m=256, n=256, k=128).excess('LDS')", NotAvailable, "without its instructions"),
        ("ladder(here, n=17)", NotAvailable, "no measurement"),
        ("ladder(here).speed", NoValue, "it has"),
        ("experiment('none', 'x')", NoValue, "there are"),
        ("experiment('../ladder', 'x')", NoValue, "there are"),
        ("const(here, 'M')", NoValue, "it has BM"),
        ("const('../..', 'M')", NoValue, "names no step"),
        ("gpu.clock", NoValue, "it has"),
        ("1 / (const(here, 'BK') - 8)", NoValue, "division by zero"),
        ("const(here, 'BK') < here", NoValue, "not supported"),
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
        ("experiment('stages', '4 stages')", NoValue, "there are '2 stages', '3 stages'"),
        ("experiment('stages', '3 stages', n=8192)", NotAvailable, "not recorded at 8192"),
        ("experiment('thread_index', 'x')", NotAvailable, "not recorded"),
        ("experiment('c_first', 'x')", NoValue, "wrong result"),
    ):
        with pytest.raises(error, match=words):
            evaluate(expression, good)


def test_figures_of_the_gpu_agree_with_what_it_said(context):
    record = json.loads((ROOT / "docs" / "evidence" / "h200" / "ladder.json").read_text())[0]
    assert evaluate("gpu.name", context) == record["device"]
    assert evaluate("gpu.sms", context) == record["multiprocessors"]
    assert evaluate("gpu.max_sm_clock_mhz", context) == record["max_sm_clock_mhz"]
    assert evaluate("gpu.peak_tflops", context) == pytest.approx(record["peak_tflops"])
    assert evaluate("gpu.flops_per_byte", context) == pytest.approx(66.90816 / 4.8)
    for name, figure in json.loads((EVIDENCE / "device.json").read_text())["figures"].items():
        assert figure.keys() == {"value", "unit", "source"}, name


# ---- Constants -------------------------------------------------------------------------------------------


def test_constants():
    source = """// constexpr int NO = 1;
/* constexpr int NEITHER = 2; */
constexpr int BM = 128, BN = 64;  // a comment, with = and ,
constexpr int LM = 8, LN = 4, WM = LM * BM, WN = (LN + 1) * 2;
constexpr int HALF = -7 / 2, REST = -7 % 4;
constexpr int LONG =
    BM + BN;
constexpr int UNKNOWN = SOMETHING * 2;
constexpr int CALLED = f(BM, 3);
constexpr float X = 1;
  constexpr int INNER = 3;
"""
    assert constants(source) == {
        "BM": 128,
        "BN": 64,
        "LM": 8,
        "LN": 4,
        "WM": 1024,
        "WN": 10,
        "HALF": -3,
        "REST": -3,
        "LONG": 192,
        "INNER": 3,
    }


def test_constants_in_any_form():
    source = """namespace {
  constexpr int BM = 128, BN = 64;
  static constexpr unsigned STAGES{2u};
const int BK = BM / 8;
#define TM 8
#define TN (TM / 2)  // half
#define CALL(x) f(x)
enum { LM = 4, LN = 8 };
enum class Kind : int { FIRST = 1 };
inline constexpr std::size_t LONG = 3ul;
void f() { const float x = 1; }
"""
    found = constants(source)
    assert found.items() >= {"BM": 128, "BN": 64, "STAGES": 2, "BK": 16, "TM": 8, "TN": 4, "LM": 4}.items()
    assert found.items() >= {"LN": 8, "LONG": 3}.items()
    assert not found.keys() & {"CALL", "x"}


def test_constants_are_those_of_the_copy(fake_build, tmp_path):
    copy = tmp_path / "steps" / HERE
    copy.mkdir(parents=True)
    (copy / "kernel.cu").write_text("constexpr int BK = 99;")
    assert evaluate("const(here, 'BK')", Context(fake_build.path, HERE, step_dir=copy)) == 99
    assert evaluate("const(before, 'BK')", Context(fake_build.path, HERE, step_dir=copy)) == 16


def test_every_step_but_the_first_has_one_before(tmp_path):
    steps = all_steps()
    assert len(steps) >= 16
    for previous, step in itertools.pairwise(steps):
        assert evaluate("before", Context(None, step)) == previous
    with pytest.raises(NoValue, match="no step comes before"):
        evaluate("before", Context(None, steps[0]))


# ---- Machine code, of the build --------------------------------------------------------------------------


def test_sass(build, tmp_path):
    context = Context(build, HERE)
    archs = context.architectures(HERE)
    if not archs:
        pytest.skip("the build holds no machine code")
    arch = archs[0]
    assert evaluate(f"sass(here, arch='{arch}').name", context) == "sgemm_2d_tiling"
    assert evaluate("sass('06').name", context.at(HERE, arch=arch)) == "sgemm_vectorization<true>"
    assert evaluate("sass('06', kernel='false').name", context) == "sgemm_vectorization<false>"
    assert evaluate("sass(here).loop.ffma", context) >= 64
    assert evaluate("any(i.opcode == 'FFMA' for i in sass(here).loop.instructions)", context)
    with pytest.raises(NotAvailable, match=f"holds code for {archs[0]}"):
        evaluate("sass(here, arch='sm_10')", context)
    with pytest.raises(NoValue, match="0 kernels 'naive', not one; there are sgemm_2d_tiling"):
        evaluate("sass(here, kernel='naive')", context)
    with pytest.raises(NoValue, match="2 kernels"):
        evaluate("sass('06', kernel='sgemm')", context)
    with pytest.raises(NoValue, match="it has"):
        evaluate("sass(here).loop.nothing", context)
    with pytest.raises(ExpressionError):
        evaluate("sass(here).loop.__class__", context)


def test_a_program_without_machine_code(tmp_path):
    fake = FakeBuild(tmp_path)
    with pytest.raises(NotAvailable):
        evaluate("sass(here).registers", Context(fake.path, HERE))
