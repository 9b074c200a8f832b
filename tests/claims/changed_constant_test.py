"""A kernel with another constant no longer does what its page says: at least one claim fails.

Each kernel is compiled as the build compiles it and checked by the claims of its step. So is an unchanged
copy, which passes. Without machine code, too, there must be a claim that fails; to save time, most are not
compiled for the GPU."""

import pytest
from conftest import ROOT
from tools.claims import claims
from tools.claims.context import Context, all_steps
from tools.edits import with_constants
from tools.kernel_build import KernelBuild

STEPS = all_steps()


def build_changed(build, step, folder, constants, machine_code):
    """A copy of the step with other constants, and a build directory that holds its program besides those of
    the other steps."""
    source = folder / "steps" / step
    source.mkdir(parents=True)
    for name in ("kernel.cu", "claims.toml"):
        (source / name).write_text((ROOT / "steps" / step / name).read_text())
    kernel = source / "kernel.cu"
    kernel.write_text(with_constants(kernel.read_text(), constants))
    programs = folder / "build" / "steps"
    for other in STEPS:
        (programs / other).mkdir(parents=True)
        if other != step:
            (programs / other / "run").symlink_to(build / "steps" / other / "run")
    commands = KernelBuild(build, step)
    # What computes on the CPU without being observed plays no part in the claims.
    kinds = {"observed", "gpu"} if machine_code else {"observed"}
    units = {kind: folder / f"{kind}.o" for kind in kinds & commands.units.keys()}
    for kind, unit in units.items():
        result = commands.compile(commands.units[kind], kernel, unit)
        assert result.returncode == 0, result.stdout
    result = commands.link_program(programs / step / "run", **units)
    assert result.returncode == 0, result.stdout
    return source, folder / "build"


def check(changed_build, step, source):
    """The results of the step's claims, by id."""
    context = Context(changed_build, step, step_dir=source)
    return {claim.id: claims.check(claim, context) for claim in claims.load(source / "claims.toml")}


@pytest.fixture
def observed(build):
    """Skips where the kernels are not compiled for the X-ray."""
    if "observed" not in KernelBuild(build, STEPS[1]).units:
        pytest.skip("the build has no observed kernels: it needs GCC")


@pytest.mark.usefixtures("observed")
@pytest.mark.parametrize(
    "step, constant, value, machine_code",
    [
        ("01_naive", "TILE", 16, False),
        ("03_shared_memory", "BK", 64, True),
        ("05_2d_tiling", "BK", 16, True),
        ("07_bank_conflicts", "PAD", 0, False),
        ("08_warp_tiling", "BK", 8, False),
        ("10_prefetch", "BK", 8, False),
        ("12_larger_tiles", "BM", 64, False),
        ("22_shared_fragments", "BK", 16, False),
        ("26_warp_tiles", "WN", 32, False),
        ("29_persistent", "BN", 128, False),
    ],
)
def test_another_constant_fails_a_claim(
    build, tmp_path, claims_py, monkeypatch, step, constant, value, machine_code
):
    source, changed_build = build_changed(build, step, tmp_path, {constant: str(value)}, machine_code)
    if machine_code and Context(changed_build, step).architectures(step):
        result = claims_py("check", source, "--build", changed_build)
        assert result.returncode == 1, result.stdout + result.stderr
        assert f"FAILED   {step}/" in result.stdout
    monkeypatch.setattr(Context, "architectures", lambda self, step: [])
    before = check(build, step, ROOT / "steps" / step)
    results = check(changed_build, step, source)
    failed = [name for name, r in results.items() if r.status == "FAILED" and before[name].status != "FAILED"]
    assert failed, results
    print(f"{step} with {constant} = {value}: {', '.join(failed)}")


@pytest.mark.usefixtures("observed")
def test_an_unchanged_copy_fails_none(build, tmp_path):
    step = "05_2d_tiling"
    source, changed_build = build_changed(build, step, tmp_path, {}, machine_code=True)
    results = check(changed_build, step, source)
    assert not {name: r.detail for name, r in results.items() if r.status == "FAILED"}
    assert sum(result.status == "ok" for result in results.values()) >= claims.FEWEST // 2
