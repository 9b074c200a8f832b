"""What expressions know of the build: its X-rays and its machine code."""

import json
import os
import re

import pytest
from conftest import HERE, XRAY, FakeBuild
from tools.claims.context import Context
from tools.claims.objects import ExpressionError, NotAvailable, NoValue
from tools.claims.values import evaluate

# ---- X-ray -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression, value",
    [
        ("xray(here).load('A').requests", 10),
        ("xray(here).load('A').sectors_per_request", 4),
        ("xray(here).load('A').bytes_per_sector", 32),
        ("xray(here).load().requests", 25),
        ("xray(here).load(space='global').sectors", 360),
        ("xray(here).load('A', line='b = B').requests", 0),
        ("xray(here).load('C').requests", 0),
        ("xray(here).load().sectors_per_request", 18),
        ("xray(here).load().wavefronts_per_request", 2),
        ("xray(here).store('C').width", 16),
        ("xray(here).load('As').wavefronts_per_request", 2),
        ("xray(here).copy('Bs').excess", 15),
        ("xray(here).copy('Bs').conflicts", 0),
        ("xray(here).access('As').rows", 1),
        ("xray(here).conflicts", 5),
        ("xray(here).shared_wavefronts", 30),
        ("xray(here).sectors", 368),
        ("xray(here).bytes_used", 2624),
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
        ("xray(here).load('As').sectors == 0", "has no sectors"),
        ("xray(here).load().width == 4 == xray(here).access().width", "no one width"),
        ("xray(here).loads('A')", "it has access"),
        ("xray('5')", "names no step"),
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
    with pytest.raises(NoValue, match="it has"):
        evaluate("sass(here).loop.nothing", context)
    with pytest.raises(ExpressionError):
        evaluate("sass(here).loop.__class__", context)


def test_sass_of_a_loop_on_tensor_cores(build):
    context = Context(build, "25_ldmatrix")
    if not (archs := context.architectures("25_ldmatrix")):
        pytest.skip("the build holds no machine code")
    for arch in archs:
        here = context.at("25_ldmatrix", arch=arch)
        slots = evaluate("sass(here).loop.instructions_per_hmma", here)
        assert slots == evaluate("len(sass(here).loop.instructions) / sass(here).loop.hmma", here) > 4
        # What has no answer is an error, not something that may be skipped.
        for expression, words in (
            ("sass(here).loop.bank_conflicts", "loops of FFMAs, not HMMAs"),
            ("sass('05').loop.per_hmma('LDS')", "division by zero"),
            ("sass(here).loop.lead('STL')", "nothing that STL loads"),
        ):
            with pytest.raises(NoValue, match=words):
                evaluate(expression, here)
        if arch != "sm_90a":  # no claim about another GPU's tensor cores fails for what nobody measured
            with pytest.raises(NotAvailable, match=f"takes on {arch} was not measured"):
                evaluate("sass(here).loop.issue_bound", here)


def test_a_program_without_machine_code(tmp_path):
    fake = FakeBuild(tmp_path)
    with pytest.raises(NotAvailable):
        evaluate("sass(here).registers", Context(fake.path, HERE))


# ---- Arithmetic ------------------------------------------------------------------------------------------


def test_error(tmp_path):
    rows = [("x", 16, "", 3), ("x", 64, "", 4), ("x", 64, "worse", 5)]
    found = [{"matrix": m, "k": k, "change": change, "ours": ours} for m, k, change, ours in rows]
    program = tmp_path / "common" / "tools" / "emulation_errors"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{json.dumps(found)}'\n")
    program.chmod(0o755)
    context = Context(tmp_path, HERE)
    assert evaluate("error('x').ours", context) == 3
    assert evaluate("error('x', 64).ours", context) == 4
    assert evaluate("error('x', 64, 'worse').ours", context) == 5
    with pytest.raises(NoValue, match="no error of 'x', 'worse' at K = 16"):
        evaluate("error('x', 16, 'worse').ours", context)
    with pytest.raises(NotAvailable, match="emulation_errors is not built"):
        evaluate("error('x').ours", Context(tmp_path / "common", HERE))
