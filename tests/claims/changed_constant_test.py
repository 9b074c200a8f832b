"""A kernel with another constant no longer does what its page says: at least one claim fails.

Each kernel is compiled as the build compiles it and checked by the claims of its step. So is an unchanged
copy, which passes. Without machine code, too, there must be a claim that fails."""

import re
import shlex
import subprocess

import claims
import pytest
import sweep
import values
from conftest import ROOT

STEPS = values.all_steps()


def build_commands(build, step):
    """By the library that they make, the commands that compile a step's kernel; and the one that links."""
    target = f"steps/{step}/run"
    text = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True, check=True
    ).stdout
    units, link = {}, None
    for line in text.splitlines():
        words = shlex.split(line)
        if f"-o {target} " in line:
            link = words
        elif " -c " in line and (match := re.search(rf"steps/lib(\w+)_{step}\.a\.p/", line)):
            units[f"steps/lib{match[1]}_{step}.a"] = words
    return units, link


def with_options(words, **options):
    words = list(words)
    for option, value in options.items():
        words[words.index(f"-{option}") + 1] = str(value)
    return words


def build_changed(build, step, folder, constants):
    """A copy of the step with other constants, and a build directory that holds its program besides those of
    the other steps."""
    source = folder / "steps" / step
    source.mkdir(parents=True)
    for name in ("kernel.cu", "claims.toml"):
        (source / name).write_text((ROOT / "steps" / step / name).read_text())
    kernel = source / "kernel.cu"
    kernel.write_text(sweep.with_constants(kernel.read_text(), constants))
    programs = folder / "build" / "steps"
    for other in STEPS:
        (programs / other).mkdir(parents=True)
        if other != step:
            (programs / other / "run").symlink_to(build / "steps" / other / "run")
    units, link = build_commands(build, step)
    # What computes on the CPU without being observed plays no part in the claims.
    changed = {library: words for library, words in units.items() if not library.startswith("steps/libcpu_")}
    for number, (library, words) in enumerate(changed.items()):
        unit = folder / f"unit{number}.o"
        words = with_options(words, o=unit, MF=folder / "unit.d")
        words = [f'-DSTEP_SOURCE="{kernel}"' if w.startswith("-DSTEP_SOURCE=") else w for w in words]
        subprocess.run(words, cwd=build, check=True, capture_output=True)
        link = [str(unit) if word == library else word for word in link]
    subprocess.run(with_options(link, o=programs / step / "run"), cwd=build, check=True, capture_output=True)
    return source, folder / "build"


def check(build, step, folder, constants):
    """The results of the step's claims, by id."""
    source, changed_build = build_changed(build, step, folder, constants)
    context = values.Context(changed_build, step, step_dir=source)
    return {
        claim.id: (claim, claims.check(claim, context)) for claim in claims.load(source / "claims.toml")
    }, (source, changed_build)


@pytest.fixture
def observed(build):
    """Skips where the kernels are not compiled for the X-ray."""
    if not (build / "steps" / f"libobserved_{STEPS[1]}.a").exists():
        pytest.skip("the build has no observed kernels: it needs GCC")


@pytest.mark.usefixtures("observed")
@pytest.mark.parametrize(
    "step, constant, value",
    [
        ("01_naive", "TILE", 16),
        ("03_shared_memory", "BK", 64),
        ("05_2d_tiling", "BK", 16),
        ("07_bank_conflicts", "PAD", 0),
        ("08_warp_tiling", "BK", 8),
        ("10_prefetch", "BK", 16),
    ],
)
def test_another_constant_fails_a_claim(build, tmp_path, claims_py, monkeypatch, step, constant, value):
    results, (source, changed_build) = check(build, step, tmp_path, {constant: str(value)})
    failed = {name: claim for name, (claim, result) in results.items() if result.status == "FAILED"}
    assert failed, results
    print(f"{step} with {constant} = {value}: {', '.join(failed)}")
    result = claims_py("check", source, "--build", changed_build)
    assert result.returncode == 1
    for name in failed:
        assert f"FAILED   {step}/{name} " in result.stdout
    monkeypatch.setattr(values.Context, "architectures", lambda self, step: [])
    without = values.Context(changed_build, step, step_dir=source)
    assert any(claims.check(claim, without).status == "FAILED" for claim in failed.values())


@pytest.mark.usefixtures("observed")
def test_an_unchanged_copy_fails_none(build, tmp_path):
    step = "05_2d_tiling"
    results, _ = check(build, step, tmp_path, {})
    wrong = {name: result.detail for name, (_, result) in results.items() if result.status == "FAILED"}
    assert not wrong
    assert sum(result.status == "ok" for _, result in results.values()) >= claims.FEWEST // 2
