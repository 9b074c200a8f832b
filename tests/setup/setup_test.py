"""setup.sh without root and with another GPU, in a folder of its own, with programs that stand in for
apt-get, Meson and Python."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = (
    *("libboost-context-dev", "libcli11-dev", "libfmt-dev"),
    *("libgmock-dev", "libgtest-dev", "nlohmann-json3-dev"),
)
# `installed` names what the system has; each call of apt-get is kept.
DPKG_QUERY = """case " $(cat {folder}/installed) " in *" ${{!#}} "*) echo "ii " ;; *) exit 1 ;; esac"""
APT_GET = """
echo "$*" >>{folder}/apt-calls
case " $* " in
  *" install "*)
    echo "Inst libc6 [2.36-1] (2.36-2 Debian:12 [amd64])"
    echo "Inst libfmt9 (9.1.0 Debian:12 [amd64])"
    for name; do case $name in lib*-dev | nlohmann*) echo "Inst $name (1 Debian:12 [amd64])" ;; esac; done ;;
  *" download "*)
    while [[ $1 != download ]]; do shift; done
    shift
    for name; do cp {folder}/library.deb "$name.deb"; done ;;
esac
"""
STAND_INS = {
    "dpkg-query": DPKG_QUERY,
    "apt-get": APT_GET,
    "sudo": "exit 1",
    "nvcc": "exit 1",
    "nvidia-smi": "exit 1",
}
PC = "prefix=/usr\nlibdir=${prefix}/lib\nCflags: -I/usr/include/fmt\n"


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def project(tmp_path):
    """A folder with setup.sh, in which Meson is there and does nothing."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb here")
    root = tmp_path / "project"
    root.mkdir()
    shutil.copy(ROOT / "setup.sh", root)
    (root / "requirements.txt").write_text("meson==1\n")
    (root / ".venv").mkdir()
    (root / ".venv" / "setup-stamp").write_text(f"{root}\nmeson==1\n")
    program(root / ".venv/bin/meson", f'echo "$*" >>{tmp_path}/meson-calls; mkdir -p build')
    program(root / ".venv/bin/ninja", "echo 1")
    for name, text in STAND_INS.items():
        program(tmp_path / "bin" / name, text.format(folder=tmp_path))
    (tmp_path / "installed").write_text("binutils bubblewrap ca-certificates g++ git python3 libgtest-dev")
    library = tmp_path / "library"
    (library / "DEBIAN").mkdir(parents=True)
    (library / "DEBIAN/control").write_text(
        "Package: library\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@a.org>\nDescription: d\n"
    )
    (library / "usr/lib/pkgconfig").mkdir(parents=True)
    (library / "usr/lib/pkgconfig/fmt.pc").write_text(PC)
    subprocess.run(
        ["dpkg-deb", "--build", library, tmp_path / "library.deb"], check=True, capture_output=True
    )
    return root


def setup(project, *arguments, **options):
    path = f"{project.parent / 'bin'}:{os.environ['PATH']}"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CUDA")}
    return subprocess.run(
        [project / "setup.sh", *arguments],
        env=environment | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )


def calls(project, name="apt-calls"):
    path = project.parent / name
    return path.read_text().splitlines() if path.exists() else []


def test_libraries_are_unpacked_here(project):
    result = setup(project, "--no-root", "-Dcuda=disabled")
    assert result.returncode == 0, result.stdout + result.stderr
    missing = [name for name in LIBRARIES if name != "libgtest-dev"]
    assert f"unpacking into .packages: {' '.join(missing)}\n" in result.stdout
    packages = project / ".packages"
    assert sorted(path.name for path in (packages / "complete").iterdir()) == sorted(missing)
    # What is an upgrade is left alone.
    assert [call.split(" download ")[1].split() for call in calls(project) if " download " in call] == [
        ["libfmt9", *missing]
    ]
    # Nothing of the system's is touched.
    assert all(f"Dir::State::Lists={packages}" in call for call in calls(project))
    assert all("--simulate" in call for call in calls(project) if " install " in call)
    assert (packages / "usr/lib/pkgconfig/fmt.pc").read_text() == (
        f"prefix={packages}/usr\nlibdir=${{prefix}}/lib\nCflags: -I{packages}/usr/include/fmt\n"
    )
    native = (project / ".venv/native.ini").read_text()
    assert f"boost_includedir = '{packages}/usr/include'" in native
    assert f"'{packages}/usr/share/pkgconfig'" in native
    assert any(
        call.startswith("setup build --native-file .venv/native.ini")
        for call in calls(project, "meson-calls")
    )


def test_a_second_run_finds_them(project):
    assert setup(project, "--no-root").returncode == 0
    before = calls(project)
    for arguments in (["--no-root"], []):
        result = setup(project, *arguments)
        assert result.returncode == 0 and "packages: all installed" in result.stdout
    assert calls(project) == before
    assert "boost_includedir" in (project / ".venv/native.ini").read_text()


def test_a_compiler_cannot_be_unpacked(project):
    (project.parent / "installed").write_text("binutils ca-certificates git")
    result = setup(project, "--no-root")
    assert result.returncode == 1
    assert "only libraries can be unpacked without root; run: sudo apt-get install g++" in result.stderr
    assert not (project / ".packages").exists()


def as_nobody(project):
    """For setup(): root becomes another user, who may write in the project's folder."""
    if os.geteuid():
        return {}
    subprocess.run(["chown", "-R", "65534:65534", project.parent], check=True)
    for folder in [project.parent, *project.parent.parents][:3]:
        folder.chmod(0o755)
    return {"user": 65534, "group": 65534, "extra_groups": []}


def test_without_root_and_sudo_libraries_are_unpacked(project):
    """bubblewrap, which is missing, too, the grader can do without."""
    (project.parent / "installed").write_text("binutils ca-certificates g++ git python3")
    result = setup(project, **as_nobody(project))
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"no root, unpacking into .packages: {' '.join(LIBRARIES)}\n" in result.stdout
    assert (project / ".packages/usr/lib/pkgconfig/fmt.pc").exists()


def test_without_root_and_sudo_the_line_names_what_is_missing(project):
    (project.parent / "installed").write_text("binutils ca-certificates git python3")
    result = setup(project, **as_nobody(project))
    assert result.returncode == 1 and calls(project) == []
    assert result.stderr.splitlines() == [
        "setup: missing, and only libraries can be unpacked without root; run: sudo apt-get install g++"
    ]


@pytest.mark.parametrize("before, now, again", [("9.0", "7.5", True), ("", "7.5", True), ("7.5", "", False)])
def test_another_gpu_is_compiled_for(project, before, now, again):
    """One that is gone changes nothing: a cluster's other machines may have it."""
    (project.parent / "installed").write_text(
        " ".join(["binutils bubblewrap ca-certificates g++ git", *LIBRARIES])
    )
    folder = project / "build"
    (folder / "meson-private").mkdir(parents=True)
    (folder / "meson-info").mkdir()
    for name in ("build.ninja", "meson-private/coredata.dat"):
        (folder / name).touch()
    info = {"directories": {"source": str(project), "build": str(folder)}, "meson_version": {"full": "1"}}
    (folder / "meson-info/meson-info.json").write_text(json.dumps(info))
    (folder / "setup-gpu").write_text(f"{before}\n")
    (project / ".venv/bin/python").symlink_to(sys.executable)
    program(
        project / ".venv/bin/meson",
        f'[[ $1 != --version ]] || echo 1; echo "$*" >>{project.parent}/meson-calls',
    )
    program(project.parent / "bin/nvcc", '[[ $1 != --version ]] || echo "release 13.0"')
    program(project.parent / "bin/nvidia-smi", f"echo {now}")
    result = setup(project)
    assert result.returncode == 0, result.stderr
    assert ("setup --reconfigure build" in calls(project, "meson-calls")) == again, result.stdout
    assert (folder / "setup-gpu").read_text().strip() == (now or before)


def test_without_the_option_nothing_is_unpacked(project):
    (project.parent / "installed").write_text(
        " ".join(["binutils bubblewrap ca-certificates g++ git", *LIBRARIES])
    )
    result = setup(project)
    assert result.returncode == 0, result.stderr
    assert not (project / ".packages").exists() and calls(project) == []
    assert "boost" not in (project / ".venv/native.ini").read_text()
