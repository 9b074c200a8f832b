"""What keeps students' programs in: walls where bubblewrap runs, and limits everywhere."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools.grading import isolation
from tools.grading.build import Built
from tools.grading.content import entry_of_step
from tools.grading.isolation import Limits, run_confined
from tools.grading.run import Problem, run

ENDLESS = "import time\nwhile True: time.sleep(1)"
LEAVES = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({path!r}, "w").write(str(os.getpid()))
        time.sleep(600)
time.sleep({stays})
"""


def python(text, *, limits=None, readable=(), **options):
    readable = [*readable, Path(sys.base_prefix)]
    words = [os.path.realpath(sys.executable), "-c", text]
    return run_confined(words, limits or Limits(wall_s=20), readable=readable, **options)


@pytest.fixture(params=["walls", "limits"])
def kind(request, monkeypatch):
    """With bubblewrap, where it runs, and without it."""
    isolation.works.cache_clear()
    if request.param == "limits":
        monkeypatch.setenv("EXERCISES_ISOLATION", "limits")
    elif not isolation.works():
        pytest.skip("bubblewrap cannot run here")
    yield request.param
    isolation.works.cache_clear()


@pytest.fixture
def walls(kind):
    if kind == "limits":
        pytest.skip("limits alone keep nobody in")


def test_writes_nowhere_but_where_it_may(walls, tmp_path):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    text = f"open('{mine}/a', 'w').write('x'); open('{other}/a', 'w').write('x')"
    ended = python(text, writable=[mine], readable=[other])
    assert ended.status != 0
    assert "Read-only" in ended.said
    assert (mine / "a").exists()
    assert not (other / "a").exists()


def test_does_not_see_what_is_not_its_own(walls):
    assert python(f"open({__file__!r})").status != 0
    assert (
        "'HOME' in os.environ: False"
        in python("import os; print(\"'HOME' in os.environ:\", 'HOME' in os.environ)").said
    )


def test_a_kernel_knows_nothing_of_the_environment(build, tmp_path, monkeypatch):
    """What the judge starts does not: a stand-in for the worker says what it got."""
    monkeypatch.setenv("TOKEN", "secret")
    worker = tmp_path / "worker"
    worker.write_text('#!/bin/sh\necho "error: it got $TOKEN-" >&2\n')
    worker.chmod(0o755)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    built = Built(tmp_path, entry_of_step("02_coalescing"), build.absolute() / "common/judge/judge")
    assert run(built, [Problem("--size 8")]).crash == "it got -"


def test_without_walls_it_is_another_user(monkeypatch, tmp_path):
    monkeypatch.setattr(isolation, "works", lambda: False)
    if not isolation.nobody():
        assert "your files" in isolation.weakness()
        pytest.skip("this user cannot become another")
    assert "user without rights" in isolation.weakness()
    ended = run_confined(["sh", "-c", f"id -u; echo > {tmp_path}/a"], Limits())
    assert ended.said.startswith(f"{isolation.NOBODY}\n")
    assert not (tmp_path / "a").exists()


def test_exercises_run_is_confined(student, exercises):
    """Its results come out all the same."""
    student.solves(exercises["01_naive"])
    result = student("run", "01_naive", "--size", "8", "--check", "--json", "out.json", "--out=c.npy")
    assert result.returncode == 0, result.stdout
    assert json.loads((student.folder / "out.json").read_text())[0]["pass"]
    assert (student.folder / "c.npy").stat().st_size > 256


def test_has_no_network(walls):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert python(f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)").status != 0


@pytest.mark.parametrize(
    ("text", "limits"), [("while True: pass", Limits(cpu_s=1)), (ENDLESS, Limits(wall_s=1))]
)
def test_time_is_bounded(kind, text, limits):
    began = time.monotonic()
    assert python(text, limits=limits).endless
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("x = bytearray(1 << 30)", Limits(memory=512 << 20)),
        ("open('big', 'wb').write(b'x' * (2 << 20))", Limits(file=1 << 20)),
        (
            "[open('/dev/null') for _ in range(100)]; import os; [os.dup(1) for _ in range(100)]",
            Limits(descriptors=64),
        ),
    ],
)
def test_other_limits(kind, tmp_path, text, limits):
    assert python(text, limits=limits, writable=[tmp_path], cwd=tmp_path).status != 0
    assert python("print('well')", limits=limits).said == "well\n"


def test_much_output_is_not_kept(kind):
    ended = python("print('x' * (60 << 20))")
    assert ended.status == 0
    assert len(ended.said) <= isolation.MOST_SAID


@pytest.mark.parametrize("stays", [0, 600])
def test_children_that_leave_the_session_end_with_it(walls, tmp_path, stays):
    """By their command line, as their numbers are others within the walls."""
    path = tmp_path / "leaver"
    python(LEAVES.format(path=str(path), stays=stays), limits=Limits(wall_s=2), writable=[tmp_path])
    assert path.exists()
    time.sleep(0.2)
    running = subprocess.run(["pgrep", "-f", str(path)], capture_output=True, text=True, check=False).stdout
    assert str(os.getpid()) not in running
    assert running == ""


def test_the_judge_without_walls(kind, build, exercises):
    """A right kernel is right either way."""
    from tools.grading.build import Toolchain
    from tools.grading.source import read

    source = exercises["02_coalescing"].solution
    built = Toolchain(build, "02_coalescing").compile(read(source, source), source)
    outcome = run(built, [Problem("--size 8 --seed 1")], "--check")
    assert outcome.crash == ""
    assert outcome.records[0]["pass"]
