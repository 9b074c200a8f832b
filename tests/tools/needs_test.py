"""What a kernel says that it needs of a GPU, and what becomes of it."""

import subprocess
import sys

import pytest
from tools.needs import Needs, needs_of

ARCHS = ["75", "80", "86", "90", "90a", "100", "100a", "120a"]


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("", ARCHS),
        ("sm_80+", ARCHS[1:]),
        ("sm_90+", ARCHS[3:]),
        ("sm_90a", ["90a"]),
        ("sm_90a, sm_100a", ["90a", "100a"]),
        ("sm_90a, sm_100+", ["90a", "100", "100a", "120a"]),
    ],
)
def test_what_is_allowed(text, allowed):
    needs = Needs(text)
    assert [arch for arch in ARCHS if needs.allow(arch)] == allowed
    assert [arch for arch in ARCHS if needs.allow(f"sm_{arch}")] == allowed


def code(arch, kind="sm"):
    return f"-gencode=arch=compute_{arch},code={kind}_{arch}"


def test_machine_code_comes_last_and_ptx_is_never_older_than_what_is_needed():
    assert Needs().options(["80", "90a"], ["80"]) == [code("80", "compute"), code("80"), code("90a")]
    assert Needs("sm_90+").options(["80", "90a"], ["80"]) == [code("90", "compute"), code("90a")]
    assert Needs("sm_80+").options(["75"], []) == []


def test_no_ptx_of_exact_targets():
    """That of compute_90a runs on no other GPU, for which machine code is there."""
    assert Needs("sm_90a").options(["80", "90a", "100a"], ["80"]) == [code("90a")]
    assert Needs("sm_90a").options(["90", "120a"], ["80"]) == []


def test_the_header_says_it():
    assert needs_of("// Step 1\n//\n// Needs     sm_90a: wgmma, setmaxnreg\n\nint a;\n") == Needs("sm_90a")
    assert needs_of("// Step 1\n\n// Needs     sm_90a: not in the header\n") == Needs()


@pytest.mark.parametrize(
    "line", ["// Needs Hopper", "// Needs     sm_90x: a", "// Needs sm_80+: a\n// Needs sm_90+: b"]
)
def test_a_line_that_says_nothing(line):
    with pytest.raises(ValueError, match=r"Needs|target"):
        needs_of(line + "\n")


def test_what_meson_gets():
    command = [sys.executable, "-P", "-m", "tools.needs", "80,90a", "80"]
    files = ["steps/05_2d_tiling/kernel.cu", "steps/13_bulk_copy/kernel.cu"]
    edited = "tests/planted_bugs/tensor_map_without_swizzle.toml"  # of step 27
    said = subprocess.run([*command, *files, edited], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == [
        f"{files[0]};;{code('80', 'compute')} {code('80')} {code('90a')}",
        f"{files[1]};sm_90+;{code('90', 'compute')} {code('90a')}",
        f"{edited};sm_90+;{code('90', 'compute')} {code('90a')}",
    ]
