"""values.py: what expressions can say, and that they can say nothing else; the constants that they know."""

import itertools

import pytest
from conftest import HERE
from tools.claims import values
from tools.claims.constants import constants
from tools.claims.context import Context, all_steps
from tools.claims.objects import ExpressionError, NoValue
from tools.claims.values import evaluate, explain


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
    "getattr(gpu, 'name')",
    "type(gpu)",
    "sass.kernels",
    "gpu._figures",
    "gpu.__class__.__bases__[0].__subclasses__()",
    "xray(here)._rows",
    "xray(here).load.__self__",
    "(lambda: 1)()",
    "[].__class__",
    "'{0.__class__}'.format(gpu)",
    "f'{gpu}'",
    "[1, 2][0]",
    "{1: 2}",
    "1 if True else 2",
    "max(*[1, 2])",
    "ladder(**here)",
    "ladder(here)(1)",
    "gpu.sms & 1",
    "1 is 1",
    "None",
    "await gpu",
    "import os",
    "",
    "nothing",
    "here.upper()",
    "'a' * 9",
    "'%s' % here",
    "9**9**9",
    "sum(n for n, m in [[1, 2]])",
    "gpu.name.upper()",
    "xray(here).load('A').rows.bit_length()",
    "explain('1', here)",
    "program(here)",
    "-" * 5000 + "1",
    "(" * 500 + "1" + ")" * 500,
]


@pytest.mark.parametrize("expression", FORBIDDEN)
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


# ---- Constants -------------------------------------------------------------------------------------------


def test_constants():
    """In any form in which people write them; what is no constant is left out."""
    source = """// constexpr int NO = 1;
/* constexpr int NEITHER = 2; */
constexpr int BM = 128, BN = 64;  // a comment, with = and ,
constexpr int LM = 8, LN = 4, WM = LM * BM, WN = (LN + 1) * 2;
constexpr int HALF = -7 / 2, REST = -7 % 4;
constexpr int LONG =
    BM + BN;
constexpr int UNKNOWN = SOMETHING * 2, CALLED = f(BM, 3);
constexpr float X = 1;
  static constexpr unsigned STAGES{2u};
const int BK = BM / 8;
#define TM 8
#define TN (TM / 2)  // half
#define CALL(x) f(x)
enum { TA = 4, TB = 8 };
inline constexpr std::size_t SIZE = 3ul;
"""
    usual = {"BM": 128, "BN": 64, "LM": 8, "LN": 4, "WM": 1024, "WN": 10, "HALF": -3, "REST": -3, "LONG": 192}
    others = {"STAGES": 2, "BK": 16, "TM": 8, "TN": 4, "TA": 4, "TB": 8, "SIZE": 3}
    assert constants(source) == usual | others


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
