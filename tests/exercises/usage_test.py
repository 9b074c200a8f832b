"""The program where something is wrong: bad usage, files that are not as they should be."""

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from tools.base import UsageError, write_whole
from tools.grading.program import solution_of
from tools.grading.state import Workspace

# ---- Bad usage ----


def test_bad_usage(student):
    student.refused("check", words=["name"])
    student.refused("check", "99_nothing", words=["99_nothing", "01_naive"])
    student.refused("check", "0", words=["names no exercise", "01_naive"])
    student.refused("check", "", words=["'' names no exercise"])
    student.refused("check", "--all", words=["begun"])
    student.refused("check", "--all", "02", words=["--all"])
    student.refused("hint", words=["NAME"])
    student.refused("hint", "nothing", words=["nothing"])
    student.refused("watch", "nothing", words=["nothing"])
    student.refused("solution", "nothing", words=["nothing"])
    student.refused("reset", "nothing", words=["nothing"])
    student.refused("dance", words=["dance"])
    student.refused("check", "02", "--device", "abacus", words=["abacus"])
    student.refused("check", "02", "--seed", "x", words=["seed"])
    student.refused("--nonsense", words=["--nonsense"])
    student.refused("report", "--json", "no/such/folder/r.json", words=["no/such/folder"])
    student.refused("--build", "/nonexistent", "check", "02", words=["/nonexistent"])
    assert not (student.folder / "no").exists()


def test_workspace_is_a_file(student):
    student.workspace.write_text("")
    student.refused(words=["no directory"])


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '"x"',
        "{}",
        '{"format": 99, "exercises": {}}',
        '{"format": 1, "exercises": []}',
        '{"format": 1, "exercises": {"02_coalescing": {"attempts": "many"}}}',
        '{"format": 1, "exercises": {"02_coalescing": {"attempts": %s}}}' % ("9" * 4000),
    ],
)
def test_spoilt_state(student, text):
    student.workspace.mkdir()
    path = student.workspace / "state.json"
    path.write_text(text)
    for command in ((), ("report",), ("hint", "02_coalescing")):
        student.refused(*command, words=["state.json"])
    assert path.read_text() == text


def test_file_that_is_no_text(student, exercises):
    student.workspace.mkdir()
    (student.workspace / "02_coalescing.cu").write_bytes(b"\xff\xfe\x00")
    result = student("check", "02_coalescing")
    assert result.returncode == 1
    assert result.stderr == ""
    assert "02_coalescing: not yet" in result.stdout
    assert "02_coalescing.cu: is not text" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("latin-1", "is not text"),
        ("directory", "is a folder"),
        ("pipe", "is no regular file"),
        ("large", "has more than 262,144 bytes"),
        ("nowhere", "is a link"),
        ("/dev/zero", "is a link"),
        ("/etc/passwd", "is a link"),
    ],
)
def test_a_file_that_cannot_be_read_leaves_the_others_alone(student, exercises, numbers, how, words):
    """As a teacher grades a hand-in."""
    path = student.workspace / exercises["01_naive"].file_name
    student.writes(numbers, solution_of(numbers, student.build))
    if how == "latin-1":
        path.write_bytes(b"// f\xfcr mich\n")
    elif how == "directory":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "large":
        path.write_text(" " * 300_000)
    else:
        path.symlink_to(how)
    names = ["--all"] if path.exists() else ["01_naive", numbers.name]
    result = student("check", *names)
    assert result.returncode == 1
    assert "01_naive: not yet" in result.stdout
    assert words in " ".join(result.stdout.split())
    assert "root:" not in result.stdout
    assert f"{numbers.name}: passed" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 of 2 passed"
    assert student("report", "--json", "r.json").returncode == 0
    report = json.loads((student.folder / "r.json").read_text())
    assert [e["exercise"] for e in report["exercises"] if e["points"]] == [numbers.name]
    # And it can be begun again.
    if path.exists():
        assert student("reset", "01_naive").returncode == 0
        assert path.read_text() == exercises["01_naive"].starter
        assert path.with_name(path.name + ".old").exists()


def test_what_cannot_be_graded_here_leaves_the_others_alone(student, exercises, numbers, tmp_path):
    student.writes(numbers, solution_of(numbers, student.build))
    student.writes(exercises["01_naive"], exercises["01_naive"].starter)
    build = tmp_path / "build"
    build.mkdir()
    for name in ("steps", "common"):
        (build / name).symlink_to(student.build / name)
    result = student("--build", build, "check", "--all")
    assert result.returncode == 2
    assert "01_naive: not graded" in result.stdout
    assert f"{numbers.name}: passed" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 of 2 passed"


@pytest.mark.parametrize(
    "command",
    [
        ["exercises", "--help"],
        ["exercises", "report"],
        ["exercises", "check", "--all"],
        ["claims", "--help"],
        ["pages", "--help"],
    ],
    ids=" ".join,
)
def test_nobody_reads_what_it_says(student, numbers, command):
    """As with `| head`, which may have seen enough before the program begins."""
    student.writes(numbers, numbers.starter)
    program, *arguments = command
    if program == "exercises":
        arguments = ["--build", str(student.build), "--workspace", str(student.workspace), *arguments]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [sys.executable, "-m", "tools", program, *arguments],
            stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert result.stderr == ""
    assert result.returncode == 141 or "--help" in arguments  # argparse itself lets that go


def test_a_closed_output_is_no_matter(student):
    command = f"{student.command[0]} --workspace {student.workspace} report >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], timeout=60, check=False).returncode == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_workspace_that_cannot_be_written(student):
    student.workspace.mkdir()
    student.workspace.chmod(stat.S_IRUSR | stat.S_IXUSR)
    student.refused(words=["Permission denied"])


# ---- The state, from inside ----


def test_state_of_several_at_once(tmp_path, exercises):
    exercise = exercises["01_naive"]

    def add(_):
        with Workspace(tmp_path).update(exercise) as progress:
            progress.attempts += 1

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(add, range(40)))
    assert Workspace(tmp_path).load()["01_naive"].attempts == 40
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_several_write_the_same_file(tmp_path):
    """As threads do that grade the same exercise."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda n: write_whole(tmp_path / "x.json", f"{n}" * 9999), range(200)))
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        write_whole(tmp_path / "missing" / "x.json", "{}")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError):
        write_whole(tmp_path / "folder", "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
