"""Wrong claims are rejected, each kind of them; malformed files are named; the rest is skipped."""

import re

import pytest
from conftest import ROOT, XRAY, claims_text
from tools.base import UsageError
from tools.claims import claims
from tools.claims.context import Context, all_steps

STEPS = [ROOT / "steps" / step for step in all_steps()]
SPEED = "ladder('05', n=2048).ratio"


def lines(result, status):
    return [line for line in result.stdout.splitlines() if line.startswith(status)]


# ---- What holds, what does not ---------------------------------------------------------------------------


def test_claims_that_hold(claims_py, step_dir, fake_build, fake_profiles):
    folder = step_dir(
        claims_text(
            "xray(here).load('A').sectors_per_request == 4",
            "profile(here).excess('LDS') == 200",
            f"0.5 < {SPEED} < 0.7",
            "const(here, 'BM') == const(here, 'TM') * 16",
        )
    )
    options = ["--build", fake_build.path, "--fresh-profile", fake_profiles]
    result = claims_py("check", folder, *options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(lines(result, "ok ")) == 8
    assert "ok       05_2d_tiling/claim-1 (xray)\n" in result.stdout
    assert result.stdout.splitlines()[-1] == "8 claims hold, 0 failed, 0 skipped"


@pytest.mark.parametrize(
    "check, said",
    [
        # xray
        (
            "xray(here).load('A').sectors_per_request == 5",
            "xray(here).load('A').sectors_per_request [= 4] == 5",
        ),
        (
            "xray(here).load('As').conflicts == xray(here).load('B').requests",
            "xray(here).load('As').conflicts [= 5] == xray(here).load('B').requests [= 10]",
        ),
        ("xray(here).load('A').excess == 0", "of shared memory"),
        # profile
        ("profile(here).fma_pipe_percent > 50", "profile(here).fma_pipe_percent [= 50] > 50"),
        # ladder
        (f"not 0.5 < {SPEED} < 0.7", "0.5 < ladder"),
        ("all(ladder(s).ratio < 1 for s in steps)", "ladder('12_larger_tiles').ratio [= 1.0"),
        # const
        ("const(here, 'BK') == const(before, 'BK')", "[= 8] == const(before, 'BK') [= 16]"),
        # gpu
        ("gpu.sms == 108", "gpu.sms [= 132] == 108"),
        # a long value is cut short
        ("steps == [gpu.name]", "steps [= ['00_cublas', '01_naive', "),
        # no value at all
        ("const(here, 'BK') / (gpu.sms - 132) > 1", "division by zero"),
    ],
)
def test_wrong_claims_are_rejected(claims_py, step_dir, fake_build, fake_profiles, check, said):
    folder = step_dir(claims_text(check))
    options = ["--build", fake_build.path, "--fresh-profile", fake_profiles]
    result = claims_py("check", folder, *options)
    assert result.returncode == 1, result.stdout + result.stderr
    failed = lines(result, "FAILED")
    assert len(failed) == 1
    assert failed[0].startswith("FAILED   05_2d_tiling/claim-1 (")
    assert said in failed[0]
    assert failed[0].endswith(" -- Sentence 1.")
    assert len(lines(result, "ok ")) == 7


@pytest.mark.parametrize(
    "check, said",
    [
        ("sass(here).loop.count('LDS') == 1", "sass(here).loop.count('LDS') [= 16] == 1"),
        ("sass(here).nothing > 0", "kernel has no .nothing"),
    ],
)
def test_wrong_claims_about_machine_code_are_rejected(claims_py, step_dir, build, check, said):
    archs = Context(build, "05_2d_tiling").architectures("05_2d_tiling")
    if not archs:
        pytest.skip("the build holds no machine code")
    result = claims_py("check", step_dir(claims_text(check)), "--build", build)
    assert result.returncode == 1, result.stdout + result.stderr
    (failed,) = lines(result, "FAILED")
    assert f"on {archs[0]}: " in failed
    assert said in failed


def test_a_claim_about_machine_code_holds_for_each_architecture(claims_py, step_dir, build):
    archs = Context(build, "05_2d_tiling").architectures("05_2d_tiling")
    if len(archs) < 2:
        pytest.skip("the build is for one architecture only")
    only_last = f"sass(here).arch == '{archs[-1]}'"
    result = claims_py("check", step_dir(claims_text(only_last)), "--build", build)
    assert result.returncode == 1
    assert f"on {archs[0]}: sass(here).arch [= '{archs[0]}']" in lines(result, "FAILED")[0]
    limited = claims_text(only_last, arch=f'["{archs[-1]}"]')
    assert claims_py("check", step_dir(limited), "--build", build).returncode == 0
    other = claims_text(only_last, arch='["sm_10"]')
    result = claims_py("check", step_dir(other), "--build", build)
    assert result.returncode == 0
    assert f"holds code for {', '.join(archs)} only" in lines(result, "skipped")[0]


def test_a_faulty_kernel_fails_its_claims(claims_py, step_dir, fake_build):
    folder = step_dir(claims_text("xray(here).load('A').sectors_per_request == 4"))
    fake_build.answer({"status": 1, "says": "error: race at line 3"})
    result = claims_py("check", folder, "--build", fake_build.path)
    assert result.returncode == 1
    assert "race at line 3" in lines(result, "FAILED")[0]
    fake_build.answer({**XRAY, "xray": {"blocks": 1, "kernels": []}})
    assert claims_py("check", folder, "--build", fake_build.path).returncode == 1


# ---- What cannot be checked ------------------------------------------------------------------------------


def test_skipped_with_the_reason(claims_py, step_dir, fake_build, tmp_path):
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    checks = [
        "profile(here).duration_us > 0",
        "xray(before).faults == 0",
        "ladder(here, n=17).ratio > 0",
        "sass(here).registers > 0",
    ]
    options = ["--build", fake_build.path, "--fresh-profile", nothing]
    result = claims_py("check", step_dir(claims_text(*checks, fewest=9)), *options)
    assert result.returncode == 0
    skipped = lines(result, "skipped")
    assert len(skipped) == 4
    assert "is not recorded yet" in skipped[0]
    assert "is not built" in skipped[1]
    assert "no measurement" in skipped[2]
    assert all(": " in line for line in skipped)
    assert result.stdout.splitlines()[-1] == "5 claims hold, 0 failed, 4 skipped"
    # One that fails is not hidden by those that are skipped, and a wrong half is wrong without the other one.
    failing = step_dir(claims_text(*checks, f"const(here, 'BK') == 9 and {checks[0]}"))
    assert claims_py("check", failing, *options).returncode == 1
    # If every one is skipped, so is the test.
    result = claims_py("check", step_dir(claims_text(*checks * 2)), *options)
    assert result.returncode == 77
    assert result.stdout.splitlines()[-1] == "0 claims hold, 0 failed, 8 skipped"


# ---- Malformed files -------------------------------------------------------------------------------------

GOOD = claims_text()


@pytest.mark.parametrize(
    "text, words",
    [
        (claims_text(fewest=7), ["7 claims", "at least 8"]),
        ("[[claim]", ["cannot be read"]),
        ("claim = 3", ["should be tables, [[claim]]"]),
        ("title = 'x'\n" + GOOD, ["unknown key 'title'"]),
        (GOOD.replace("claim-2", "claim-1"), ["claim claim-1", "another claim"]),
        (GOOD.replace('id = "claim-2"\n', ""), ["claim 2", "no id"]),
        (GOOD.replace('"claim-2"', "2"), ["claim 2", "id is 2, and should be a text"]),
        (GOOD.replace("claim-2", "Claim 2"), ["claim Claim 2", "like 'four-sectors'"]),
        (GOOD.replace("Sentence 2.", "  "), ["claim claim-2", "no says"]),
        (claims_text(kind='"sass"'), ["claim claim-1", "unknown key 'kind'", "arch, check, id, says"]),
        (claims_text("__import__('os').system('true') == 0"), ["claim claim-1", "__import__"]),
        (claims_text("const(here, 'BK') ="), ["claim claim-1", "not an expression"]),
        (claims_text("const(here, 'BK')"), ["claim claim-1", "no condition"]),
        (claims_text("1 + 1 == 2"), ["claim claim-1", "cannot fail"]),
        (claims_text(arch='["sm_90a"]'), ["claim claim-1", "arch is for"]),
        (claims_text("sass(here).registers > 0", arch='["90"]'), ["claim claim-1", "arch is to be like"]),
    ],
)
def test_malformed_files(step_dir, text, words):
    file = step_dir(text) / "claims.toml"
    with pytest.raises(UsageError) as error:
        claims.load(file)
    assert str(error.value).startswith(f"{file}: ") and "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_nothing_is_checked_where_a_file_is_malformed(claims_py, step_dir, fake_build):
    folder = step_dir(claims_text(fewest=7))
    result = claims_py("check", folder, "--build", fake_build.path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {folder}/claims.toml: has 7 claims")
    assert fake_build.calls == []


def test_bad_usage(claims_py, step_dir, fake_build, tmp_path):
    folder = step_dir(GOOD)
    for arguments, word in (
        (["check", tmp_path], "claims.toml: cannot be read: No such file"),
        (["check", folder, "--build", tmp_path / "none"], "is no directory"),
        (
            ["check", folder, "--build", fake_build.path, "--fresh-profile", tmp_path / "none"],
            "is no directory",
        ),
        (["check"], "STEP_DIR"),
    ):
        result = claims_py(*arguments)
        assert result.returncode == 2, arguments
        assert len(result.stderr.splitlines()) == 1
        assert result.stderr.startswith("error: ") and word in result.stderr


# ---- The steps' own claims -------------------------------------------------------------------------------


def test_every_step_makes_claims_in_sentences():
    for folder in STEPS:
        for claim in claims.load(folder / "claims.toml"):
            assert re.match(r"[A-Z0-9]|cuBLAS", claim.says) and claim.says.endswith("."), claim.id
