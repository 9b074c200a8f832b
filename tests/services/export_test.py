"""What goes to Gradescope and to GitHub Classroom, run as these services run it."""

import json
import os
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest
import yaml
from tools.base import ROOT
from tools.grading import isolation
from tools.grading.content import code_lines, lines_to_write, read_all
from tools.grading.predict import solution_of

NAMES = "02_coalescing,two_bounds"
# Installing is what `setup.sh` finds done; of the compiler, what the project's build has compiled of the same
# files, which is nearly all but the kernels.
COMPILER = """#!/bin/sh
for word; do [ "$last" = -o ] && out=$word; last=$word; done
case $out in
  */unit.cpp.o) ;;
  common/*.o) [ -f "$BUILT/$out" ] && cp "$BUILT/$out" "$out" && exit ;;
esac
exec /usr/bin/c++ "$@"
"""

pytestmark = pytest.mark.skipif(not isolation.works(), reason="needs bubblewrap, which mounts /autograder")


@pytest.fixture(scope="module")
def build():
    return Path(os.environ["BUILD"])


@pytest.fixture(scope="module")
def exercises():
    return {exercise.name: exercise for exercise in read_all()}


class Machine:
    """Where the folder that was exported is /autograder/source, and only /autograder can be written."""

    def __init__(self, folder, build):
        self.folder, self.build = folder, build
        for name in ("source", "submission", "results", "bin"):
            (folder / name).mkdir()
        (folder / "bin" / "c++").write_text(COMPILER)
        (folder / "bin" / "c++").chmod(0o755)

    def install(self, grader):
        """As `setup.sh` does, for the project's place on that machine."""
        (venv := self.folder / grader / ".venv" / "bin").mkdir(parents=True)
        for program in ("python", "meson", "ninja"):
            (venv / program).symlink_to(ROOT / ".venv" / "bin" / program)
        stamp = f"/autograder/{grader}\n{(self.folder / grader / 'requirements.txt').read_text()}"
        (venv.parent / "setup-stamp").write_text(stamp)

    def __call__(self, command, cwd="/autograder", shared=()):
        words = ["bwrap", "--die-with-parent", "--unshare-net"]
        for name in set(os.listdir("/")) - {"autograder", "proc", "dev", "tmp"}:
            words += ["--ro-bind-try", f"/{name}", f"/{name}"]
        words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", self.folder, "/autograder"]
        for path in (ROOT, self.build):  # which may lie in /tmp
            words += ["--ro-bind", path, path]
        for place, path in shared:
            words += ["--bind", path, place]
        path = f"/autograder/bin:{os.environ['PATH']}"
        return subprocess.run(
            [*words, "--chdir", cwd, "bash", "-c", command], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, env={"PATH": path, "BUILT": str(self.build), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip


@pytest.fixture(scope="module")
def machine(build, tmp_path_factory):
    """Gradescope's, with the autograder set up."""
    machine = Machine(folder := tmp_path_factory.mktemp("autograder"), build)
    archive = folder.parent / "autograder.zip"
    exported(build, "--exercises", NAMES, "--gradescope", archive)
    with zipfile.ZipFile(archive) as files:
        for entry in files.infolist():
            made = files.extract(entry, folder / "source")
            os.chmod(made, stat.S_IMODE(entry.external_attr >> 16))
    machine.install("source/grader")
    said = machine("/autograder/source/setup.sh")
    assert said.returncode == 0, said.stdout[-2000:] + said.stderr
    (folder / "run_autograder").write_bytes((folder / "source" / "run_autograder").read_bytes())
    (folder / "run_autograder").chmod(0o755)
    return machine


def exported(build, *arguments, refused=""):
    command = [str(build / "exercises"), "export", *map(str, arguments)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == (2 if refused else 0), said.stderr
    assert refused in said.stderr
    assert said.stderr.count("\n") == bool(refused)


def wrong(source):
    assert "k < g.K;" in source
    return source.replace("k < g.K;", "k < g.K - 1;")


def handed_in(machine, files):
    """What Gradescope makes of a hand-in: the content of results.json, in the form that it asks for."""
    for path in (machine.folder / "submission").iterdir():
        path.unlink()
    for name, text in files.items():
        (machine.folder / "submission" / name).write_text(text)
    said = machine("/autograder/run_autograder")
    assert said.returncode == 0, said.stdout + said.stderr
    results = json.loads((machine.folder / "results" / "results.json").read_text())
    assert results.keys() == {"output", "stdout_visibility", "tests"}
    for test in results["tests"]:
        assert {
            key: type(value) for key, value in test.items() if key not in ("score", "max_score")
        } == dict.fromkeys(("name", "status", "output", "visibility"), str)
        assert 0 <= test["score"] <= test["max_score"]
        assert test["status"] in ("passed", "failed")
        assert test["visibility"] == "visible"
    return results


def test_gradescope(machine, exercises, build):
    right = exercises["02_coalescing"].solution
    answers = solution_of(exercises["two_bounds"], build)
    results = handed_in(
        machine, {"02_coalescing.cu": right, "two_bounds.toml": answers, "notes.txt": "hello"}
    )
    assert [test["score"] for test in results["tests"]] == [1, 1]
    assert "All lanes of a warp load the same element of A" in results["tests"][0]["output"]
    assert results["output"] == "ignored: notes.txt: it is no exercise's file"
    some = "".join(line for line in answers.splitlines(True) if "gflop" in line or "megabytes" in line)
    results = handed_in(machine, {"02_coalescing.cu": wrong(right), "two_bounds.toml": some})
    assert [test["score"] for test in results["tests"]] == [0, 0.4]
    assert "the last term is missing" in " ".join(results["tests"][0]["output"].split())
    results = handed_in(machine, {"02_coalescing.cu": exercises["02_coalescing"].starter})
    assert [test["status"] for test in results["tests"]] == ["failed", "failed"]
    assert "Right, but not there yet" in results["tests"][0]["output"]


def test_classroom(machine, exercises, build, tmp_path):
    """The workflow's commands; what was compiled for Gradescope, of the same files, is used again."""
    exercise = exercises["02_coalescing"]
    exported(build, "--exercises", "02", "--github-classroom", repository := tmp_path / "template")
    workflow = yaml.safe_load((repository / ".github/workflows/classroom.yml").read_text())
    steps = workflow["jobs"]["run-autograding-tests"]["steps"]
    commands = [step.get("run") or step.get("with", {}).get("command") for step in steps]
    setup, check = [command for command in commands if command]
    assert steps[-1]["env"] == {"E02_COALESCING_RESULTS": "${{steps.e02_coalescing.outputs.result}}"}
    grader = machine.folder / "source/grader"
    assert same(repository, grader) == same(grader, repository)
    shared = [("/autograder/source/grader", repository)]
    shared += [(f"/autograder/source/grader/{name}", grader / name) for name in (".venv", "build")]
    for name in (".venv", "build"):
        (repository / name).mkdir()
    for source, status, words in (
        (exercise.starter, 1, "Right, but not there yet"),
        (wrong(exercise.solution), 1, "the last term is missing"),
        (exercise.solution, 0, "passed"),
    ):
        (repository / exercise.file_name).write_text(source)
        said = machine(f"{setup}\n{check}", "/autograder/source/grader", shared)
        assert said.returncode == status, said.stdout + said.stderr
        assert words in " ".join(said.stdout.split())


def same(one, other):
    """The files of one that the other has, too."""
    files = {path.relative_to(one) for path in one.rglob("*") if path.is_file() and "build" not in path.parts}
    return {path: (one / path).read_bytes() for path in files if (other / path).is_file()}


@pytest.mark.parametrize("names", ["02_coalescing", "05_2d_tiling,ragged_edges"])
def test_a_template_shows_no_solution(build, exercises, tmp_path, names):
    """Not of any exercise, but for what the starters are made to show of earlier ones."""
    exported(build, "--exercises", names, "--github-classroom", repository := tmp_path / "template")
    assert not list(repository.rglob(".git"))
    assert not list(repository.rglob("solution*"))
    chosen = [exercises[name] for name in names.split(",")]
    starters = [code_lines(exercise.starter) for exercise in chosen]
    hidden = {exercise.name: lines_to_write(exercise) for exercise in chosen}
    for exercise in (e for e in exercises.values() if e.kind != "predict" and e not in chosen):
        if not any(code_lines(exercise.solution) <= starter for starter in starters):
            hidden[exercise.name] = code_lines(exercise.solution)
    assert len(hidden) > 20
    held = {p: code_lines(p.read_text(errors="replace")) for p in repository.rglob("*") if p.is_file()}
    assert [(path, name) for path in held for name, lines in hidden.items() if lines <= held[path]] == []


def test_what_cannot_be_exported(build, tmp_path):
    out = tmp_path / "out"
    for arguments, words in (
        (("--github-classroom", out, "--exercises", "01,02"), "would show the solution of 01_naive"),
        (("--github-classroom", out, "--exercises", "sectors"), "is a prediction"),
        (("--gradescope", tmp_path, "--exercises", "02"), "is there already"),
        ((), "needs --gradescope"),
    ):
        exported(build, *arguments, refused=words)
    assert not out.exists()
    assert not list(tmp_path.iterdir())
