"""Whatever a user may get wrong ends in exit status 2, one line that says what, and no file left behind."""

import os
import shlex
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import LIMIT_S, PROGRAMS, STEP, expect_refusal

# Each row: the arguments, and words that the message must hold.
SIZES = [
    ("--m -5 --n 2 --k 2", "--m", "-5", "negative"),
    ("--m 2 --n 2 --k -9223372036854775808", "--k", "negative"),
    ("--size -3", "--size is -3", "negative"),
    ("--m 2147483648 --n 1 --k 1", "--m", "2147483648", "too large"),
    (f"--m 1 --n 1 --k {10**30}", "--k is 2^63 - 1 or more", "too large"),
    (f"--size -{10**30}", "--size is -2^63 or less", "negative"),
    (f"--size 2 --ldc {10**30}", "--ldc", "2^63 - 1 or more", "address space"),
    ("--m 1073741824 --n 1 --k 1073741824", "address space"),
    ("--m 1000000 --n 1 --k 1000000 --batch 1048576", "address space", "1048576"),
    ("--size 2 --ldb 9223372036854775807", "--ldb", "address space"),
    ("--m 1000000 --n 1000000 --k 1000000", "GiB", "smaller"),
    ("--sweep 2,1000000", "GiB", "smaller"),
    ("--size 5 --lda 4", "--lda", "4", "at least 5"),
    ("--size 5 --ldb 1", "--ldb", "1", "at least 5"),
    ("--m 3 --n 6 --k 2 --ldc 5", "--ldc", "5", "at least 6"),
    ("--m 6 --n 3 --k 2 --ldc 5 --layout col", "--ldc", "5", "at least 6"),
    ("--size 5 --lda -5", "--lda", "-5", "negative"),
    ("--size 5 --batch 2 --stride-a -1", "--stride-a is -1", "negative"),
    ("--size 5 --batch 2 --stride-a 24", "--stride-a is 24", "overlap", "at least 25, or 0"),
    ("--size 5 --batch 2 --ldb 7 --stride-b 32", "--stride-b is 32", "overlap", "at least 33"),
    ("--size 5 --batch 2 --stride-c 0", "--stride-c is 0", "overlap", "at least 25"),
    ("--m 3 --n 6 --k 2 --batch 2 --ldc 9 --layout col --stride-c 47", "--stride-c is 47", "at least 48"),
    (f"--size 5 --batch 2 --stride-a {2**61}", "--stride-a", "address space"),
    ("--size 5 --offset-a -1", "--offset-a is -1", "negative"),
    ("--size 5 --offset-c 4096", "--offset-c is 4096", "the limit is 4095"),
    ("--m 5", "--n", "--k"),
    ("--size 5 --m 5", "--size", "--m"),
    ("--size 5 --batch -1", "--batch", "-1", "negative"),
    ("--size 5 --batch 1048577", "--batch", "1048577", "too large"),
]
VALUES = [
    ("--size x", "--size", "x"),
    ("--size 12abc", "--size", "12abc"),
    ("--size ''", "--size", "empty"),
    ("--size", "--size"),
    ("--size 2 --size 3", "--size"),
    ("--alpha nan", "--alpha", "finite"),
    ("--beta -inf", "--beta", "finite"),
    ("--seed -1", "--seed"),
    ("--repeat -1", "--repeat", "-1"),
    ("--repeat 100001", "--repeat", "100001"),
    ("--layout diagonal", "layout", "diagonal", "row", "col"),
    ("--cache lukewarm", "--cache", "lukewarm", "cold", "hot"),
    ("--protocol paired", "--protocol 'paired'", "auto", "in-turn", "rested"),
    ("--nonsense", "--nonsense"),
    ("nonsense", "nonsense"),
]
FILES = [
    ("--a a.npy", "--a", "--b"),
    ("--b b.npy", "--a", "--b"),
    ("--c c.npy", "--c", "--a"),
    ("--a missing.npy --b b.npy", "missing.npy", "No such file"),
    ("--a a.npy --b b.npy --c missing.npy --beta 1", "missing.npy", "No such file"),
    ("--a directory --b b.npy", "directory", "is a directory"),
    ("--a unreadable.npy --b b.npy", "unreadable.npy", "Permission denied"),
    ("--a empty.npy --b b.npy", "empty.npy", "not a .npy file"),
    ("--a text.npy --b b.npy", "text.npy", "not a .npy file"),
    ("--a archive.npz --b b.npy", "archive.npz", ".npz"),
    ("--a truncated.npy --b b.npy", "truncated.npy", "truncated"),
    ("--a longer.npy --b b.npy", "longer.npy", "too long"),
    ("--a float64.npy --b b.npy", "float64.npy", "float64", "float32"),
    ("--a a.npy --b int32.npy", "int32.npy", "int32", "float32"),
    ("--a big_endian.npy --b b.npy", "big_endian.npy", "big-endian", "float32"),
    ("--a objects.npy --b b.npy", "objects.npy", "float32"),
    ("--a fortran.npy --b b.npy", "fortran.npy", "Fortran", "--layout col"),
    ("--a a.npy --b b.npy --layout col", "a.npy", "C order", "--layout row"),
    ("--a 0d.npy --b b.npy", "0d.npy", "0 dimensions"),
    ("--a 4d.npy --b b.npy", "4d.npy", "4 dimensions"),
    ("--a b.npy --b a.npy", "3 x 5", "4 x 3", "columns", "rows"),
    ("--a batch2_a.npy --b b.npy", "batch2_a.npy", "2 matrices", "b.npy", "1"),
    ("--a batch2_a.npy --b batch2_b.npy --batch 3", "--batch", "3", "2"),
    ("--a a.npy --b b.npy --batch 2", "--batch", "2", "1"),
    ("--a batch2_a.npy --b batch2_b.npy --stride-b 0", "--stride-b is 0", "hold 2", "leave it out"),
    ("--a batch2_a.npy --b batch2_b.npy --layout col", "column-major", "--layout row"),
    ("--a a.npy --b b.npy --c b.npy --beta 1", "b.npy", "3 x 5", "4 x 5"),
    ("--a a.npy --b b.npy --c batch2_c.npy --beta 1", "batch2_c.npy", "4 x 5"),
    ("--a a.npy --b b.npy --beta 1", "--beta", "--c"),
    ("--a a.npy --b b.npy --m 5", "--m", "5", "a.npy", "4"),
    ("--a a.npy --b b.npy --n 4", "--n", "4", "b.npy", "5"),
    ("--a a.npy --b b.npy --k 4", "--k", "4", "a.npy", "3"),
    ("--a a.npy --b b.npy --size 4", "--size is 4", "3"),
    ("--a a.npy --b b.npy --c c.npy", "--c", "beta is 0"),
    ("--a 'two\nlines\x1b.npy' --b b.npy", r"two\nlines\x1b.npy", "No such file"),
    ("--size 4 --json 'missing\n/r.json'", r"missing\n/r.json", "No such file"),
    ("--a a.npy --b b.npy --lda 2", "--lda", "2", "at least 3"),
    ("--size 4 --out missing/c.npy", "missing/c.npy", "No such file"),
    ("--size 4 --out directory", "directory", "Is a directory"),
    ("--size 4 --out ''", "--out", "empty"),
    ("--size 4 --out a.npy/c.npy", "a.npy/c.npy", "Not a directory"),
    ("--size 4 --out dangling_link", "dangling_link", "symbolic link"),
    ("--size 4 --out /dev/full", "/dev/full", "No space left"),
    ("--size 4 --json missing/r.json", "missing/r.json", "No such file"),
    ("--size 4 --json directory", "directory", "Is a directory"),
    ("--size 4 --json ''", "--json", "empty"),
    ("--size 4 --json /dev/full", "/dev/full", "No space left"),
    ("--size 4 --json same --out same", "--json", "--out", "same"),
    # What goes wrong after the file was opened must not leave half of it, or spoil what was there.
    ("--size 1000000 --json new.json --out new.npy", "GiB"),
    ("--size 1000000 --json old.json --out c.npy", "GiB"),
]
SEVERAL = [
    ("--sweep 2,x", "--sweep", "x"),
    ("--sweep 2,-4", "--sweep is -4", "negative"),
    ("--sweep -4", "--sweep is -4", "negative"),
    ("--sweep 2 --size 2", "--sweep", "--size"),
    ("--sweep 2 --cases good.txt", "--sweep", "--cases"),
    ("--sweep 2 --a a.npy --b b.npy", "--sweep", "--a"),
    ("--sweep 2 --out new.npy", "--sweep", "--out"),
    ("--sweep 8 --lda 4", "--lda", "4", "at least 8"),
    ("--cases missing.txt", "missing.txt", "cannot be read"),
    ("--cases unreadable.npy", "unreadable.npy", "cannot be read"),
    ("--cases empty.txt", "empty.txt", "no problem"),
    ("--cases comments.txt", "comments.txt", "no problem"),
    ("--cases unknown_option.txt", "unknown_option.txt:4:", "--nonsense"),
    ("--cases not_a_number.txt", "not_a_number.txt:2:", "x"),
    ("--cases stray_word.txt", "stray_word.txt:1:", "stray"),
    ("--cases run_option.txt", "run_option.txt:3:", "--device"),
    ("--cases infinite_alpha.txt", "infinite_alpha.txt:1:", "--alpha", "finite"),
    ("--cases negative_size.txt", "negative_size.txt:3:", "--n", "-7", "negative"),
    ("--cases half_a_shape.txt", "half_a_shape.txt:2:", "--m", "--n", "--k"),
    ("--cases small_lda.txt", "small_lda.txt:1:", "--lda", "at least 9"),
    ("--cases good.txt --size 5", "--cases", "--size"),
    ("--cases good.txt --out new.npy", "--cases", "--out"),
    ("--cases huge.txt --json new.json", "GiB"),
]
DEVICES = [
    ("--device tpu", "tpu", "auto", "gpu", "cpu"),
    ("--device", "--device"),
    ("--check --device gpu", "--check", "CPU device", "compute-sanitizer"),
    ("--xray --device gpu", "--xray", "CPU device", "Nsight Compute"),
]

CASES = {
    "good": "--size 2\n",
    "empty": "",
    "comments": "# nothing\n\n   # but comments\n",
    "unknown_option": "# three good lines\n--size 2\n--size 3\n--nonsense 5\n",
    "not_a_number": "--size 2\n--size x\n",
    "stray_word": "stray\n",
    "run_option": "\n\n--size 2 --device cpu\n",
    "infinite_alpha": "--size 2 --alpha inf",
    "negative_size": "--size 2\n# comment\n--m 5 --n -7 --k 3\n",
    "half_a_shape": "--size 2\n--m 2 --n 2\n",
    "small_lda": "--size 9 --lda 8\n",
    "huge": "--size 2\n--size 1000000\n",
}


@pytest.fixture(scope="session")
def inputs(tmp_path_factory) -> Path:
    """A directory with good and bad inputs, for all rows: none may change anything in it."""
    directory = tmp_path_factory.mktemp("inputs")

    def save(name, array):
        np.save(directory / name, array, allow_pickle=True)

    def ones(*shape):
        return np.ones(shape, np.float32)

    save("a.npy", ones(4, 3))
    save("b.npy", ones(3, 5))
    save("c.npy", ones(4, 5))
    for batch, name, shape in (2, "a", (4, 3)), (2, "b", (3, 5)), (2, "c", (4, 5)):
        save(f"batch{batch}_{name}.npy", ones(batch, *shape))
    for name, dtype in ("float64", "<f8"), ("int32", "<i4"), ("big_endian", ">f4"):
        save(f"{name}.npy", np.ones((4, 3), dtype))
    save("objects.npy", np.full((4, 3), None))
    save("fortran.npy", np.asfortranarray(ones(4, 3)))
    save("0d.npy", np.float32(1))
    save("4d.npy", ones(1, 1, 4, 3))
    np.savez(directory / "archive.npz", ones(4, 3))

    good = (directory / "a.npy").read_bytes()
    for name, content in {
        "empty.npy": b"",
        "text.npy": b"1 2 3\n4 5 6\n",
        "truncated.npy": good[:-1],
        "longer.npy": good + b"\0",
        "unreadable.npy": good,
        "old.json": b"old\n",
    }.items():
        (directory / name).write_bytes(content)
    (directory / "unreadable.npy").chmod(0)
    (directory / "directory").mkdir()
    (directory / "dangling_link").symlink_to("nowhere")
    for name, text in CASES.items():
        (directory / f"{name}.txt").write_text(text)
    return directory


def snapshot(directory: Path) -> dict:
    """All that is in a directory and below, with contents."""

    def content(path):
        return path.read_bytes() if path.is_file() and os.access(path, os.R_OK) else os.lstat(path).st_mode

    return {str(path): content(path) for path in sorted(directory.rglob("*"))}


@pytest.mark.parametrize("row", SIZES + VALUES + FILES + SEVERAL, ids=lambda row: row[0])
def test_refuses(row, run, inputs):
    arguments, *words = row
    if "unreadable" in arguments and os.access(inputs / "unreadable.npy", os.R_OK):
        pytest.skip("this user may read every file")
    before = snapshot(inputs)
    result = run(*shlex.split(arguments), cwd=inputs)
    expect_refusal(result, words)
    assert snapshot(inputs) == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize(
    "arguments", ["--size 4", "--sweep 2,4", "--help", "--size 4 --json new.json", "--size -1"]
)
def test_standard_output_that_is_full(arguments, inputs):
    before = snapshot(inputs)
    with open("/dev/full", "w") as full:
        command = [PROGRAMS[STEP], *shlex.split(arguments), "--device", "cpu"]
        result = subprocess.run(
            command, cwd=inputs, stdout=full, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False
        )
    result.stdout = ""
    expect_refusal(result, ["negative"] if "-1" in arguments else ["standard output", "No space left"])
    assert snapshot(inputs) == before


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_by_a_signal(end, tmp_path):
    arguments = ["--sweep", "64,1000,2000", "--json", "r.json", "--device", "cpu", "--repeat", "1000"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}

    def listen():  # whoever runs the tests with nohup or in the background has it ignored
        signal.signal(end, signal.SIG_DFL)

    with subprocess.Popen(
        [PROGRAMS[STEP], *arguments], cwd=tmp_path, preexec_fn=listen, **streams
    ) as process:
        try:
            process.stdout.readline()  # which step, which device; the table's head and the first row follow
            process.stdout.readline()
            process.stdout.readline()
            assert len(list(tmp_path.iterdir())) == 1
            process.send_signal(end)
            assert process.wait(LIMIT_S) == -end
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("row", DEVICES, ids=lambda row: row[0])
def test_refuses_device(row, run, inputs):
    arguments, *words = row
    before = snapshot(inputs)
    result = run("--size", 4, *shlex.split(arguments), cwd=inputs, device=None)
    expect_refusal(result, words)
    assert snapshot(inputs) == before


@pytest.mark.parametrize("check", [False, True])
def test_without_a_gpu(run, check):
    """Exit status 3, where one was asked for; the CPU device, where none was."""
    without = {"env": {**os.environ, "CUDA_VISIBLE_DEVICES": ""}}
    if check:
        result = run("--size", 4, "--check", device="auto", **without)
        assert (result.returncode, result.stderr) == (0, "")
        return
    result = run("--size", 4, device="gpu", **without)
    assert result.returncode == 3
    assert result.stderr.startswith("error: no GPU: ")
    assert result.stderr.count("\n") == 1
    assert "--device cpu" in result.stderr
    result = run("--size", 4, device="auto", **without)
    assert (result.returncode, result.stderr) == (0, "")
    assert "on the CPU device" in result.stdout
    assert "no GPU: " in result.stdout
