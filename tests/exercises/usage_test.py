"""The program where something is wrong: bad usage, files that are not as they should be."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from tools.grading.predict import solution_of
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
    student.refused("dance", words=["dance"])
    student.refused("check", "02", "--device", "abacus", words=["abacus"])
    student.refused("check", "02", "--seed", "x", words=["seed"])
    student.refused("--nonsense", words=["--nonsense"])
    student.refused("--build", "/nonexistent", "check", "02", words=["/nonexistent"])


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
        '{"format": 1, "exercises": {"02_coalescing": {"attempts": %s}}}' % ("9" * 5000),
    ],
)
def test_spoilt_state(student, text):
    student.workspace.mkdir()
    path = student.workspace / "state.json"
    path.write_text(text)
    for command in ((), ("hint", "02_coalescing")):
        student.refused(*command, words=["state.json"])
    assert path.read_text() == text


def test_files_that_cannot_be_read_leave_the_others_alone(student, exercises, numbers):
    """As a teacher grades a hand-in. Each costs one line."""
    student.writes(numbers, solution_of(numbers, student.build))
    kinds = {
        "01_naive": (lambda path: path.write_bytes(b"// f\xfcr mich\n"), "is not text"),
        "02_coalescing": (lambda path: path.mkdir(), "is a folder"),
        "03_shared_memory": (os.mkfifo, "is no regular file"),
        "04_1d_tiling": (lambda path: path.write_text(" " * 300_000), "has more than 262,144 bytes"),
        "05_2d_tiling": (lambda path: path.symlink_to("nowhere"), "is a link"),
        "06_vectorization": (lambda path: path.symlink_to("/dev/zero"), "is a link"),
        "07_bank_conflicts": (lambda path: path.symlink_to("/etc/passwd"), "is a link"),
    }
    paths = {name: student.workspace / exercises[name].file_name for name in kinds}
    for name, (make, _) in kinds.items():
        make(paths[name])
    result = student("check", *kinds, numbers.name)
    assert result.returncode == 1
    said = " ".join(result.stdout.split())
    for name, (_, words) in kinds.items():
        assert f"{name}: not yet" in said
        assert f"{paths[name]}: {words}." in said
    assert "root:" not in said
    assert f"{numbers.name}: passed" in said
    assert result.stdout.splitlines()[-1] == "1 of 8 passed"
    # And each can be begun again.
    for exercise in (exercises[name] for name in kinds):
        old = Workspace(student.workspace).reset(exercise)
        assert paths[exercise.name].read_text() == exercise.starter
        assert os.path.lexists(old)


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
        ["exercises"],
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
    command = f"{student.command[0]} --workspace {student.workspace} >&- 2>&-"
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
