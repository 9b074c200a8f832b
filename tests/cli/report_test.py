"""What a run prints and what it writes as JSON."""

import datetime
import json
import os
import pty
import re
import subprocess

import pytest
from conftest import LIMIT_S, PROGRAMS, STEP

REQUIRED = {
    "step", "m", "n", "k", "batch", "lda", "ldb", "ldc", "alpha", "beta", "layout", "verified", "pass",
    "complaints", "time_us", "tflops", "ratio_to_cublas", "max_error", "error_over_bound", "device",
    "device_kind", "date",
}  # fmt: skip


@pytest.fixture
def results(passes, tmp_path):
    """The objects that a run writes; nothing but the file must be there afterwards."""

    def run_to_json(*arguments, **options):
        passes(*arguments, "--json", "results.json", **options)
        assert [path.name for path in tmp_path.iterdir() if path.suffix != ".txt"] == ["results.json"]
        text = (tmp_path / "results.json").read_text()
        assert text.endswith("]\n")
        return json.loads(text)

    return run_to_json


def rows(output):
    """The lines of the table, without the device and the heading."""
    return [line for line in output.splitlines() if re.match(r"\d+ x \d+ x \d+", line)]


# ---- JSON ---------------------------------------------------------------------------------------------


def test_json_of_one_problem(results):
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    [result] = results(
        "--m", 35, "--n", 79, "--k", 19, "--batch", 2, "--alpha", 0.5, "--beta", -1, "--ldb", 80
    )
    assert result.keys() >= REQUIRED
    expected = {
        "step": STEP, "m": 35, "n": 79, "k": 19, "batch": 2, "lda": 19, "ldb": 80, "ldc": 79, "alpha": 0.5,
        "beta": -1, "layout": "row", "verified": True, "pass": True, "complaints": [], "device_kind": "cpu",
    }  # fmt: skip
    assert {key: result[key] for key in expected} == expected
    # The CPU device knows nothing of a GPU's speed.
    assert result["tflops"] is None
    assert result["ratio_to_cublas"] is None
    assert result["time_us"] > 0
    assert 0 < result["error_over_bound"] <= 1
    assert 0 < result["max_error"] < 1e-4
    assert result["device"].startswith("CPU device")
    date = datetime.datetime.strptime(result["date"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
    assert before <= date <= datetime.datetime.now(datetime.UTC)


def test_json_of_unusual_places(results):
    unusual = {"stride_a": 0, "stride_b": 100, "stride_c": 90, "offset_a": 1, "offset_b": 2, "offset_c": 3}
    options = [word for key, value in unusual.items() for word in ("--" + key.replace("_", "-"), value)]
    [result] = results("--size", 9, "--batch", 2, *options)
    assert {key: result[key] for key in unusual} == unusual
    [result] = results("--size", 9, "--batch", 2, "--stride-a", 81, "--offset-b", 0)
    assert not result.keys() & unusual.keys()


def test_json_without_verification(results):
    [result] = results("--size", 8, "--no-verify", "--layout", "col")
    assert (result["verified"], result["layout"]) == (False, "col")
    assert result["error_over_bound"] is result["max_error"] is None


def test_json_of_a_sweep(results):
    sweep = results("--sweep", "3,40,17")
    assert [(r["m"], r["n"], r["k"]) for r in sweep] == [(3, 3, 3), (40, 40, 40), (17, 17, 17)]
    assert all(r["pass"] for r in sweep)


def test_json_of_cases(results, tmp_path):
    (tmp_path / "cases.txt").write_text(
        "# a comment\n\n--m 3 --n 4 --k 5   # and one behind\r\n  --size 6 --beta 1 --layout col\n--size 0"
    )
    cases = results("--cases", "cases.txt", "--alpha", 2)
    keys = ("m", "n", "k", "alpha", "beta", "layout")
    assert [tuple(r[key] for key in keys) for r in cases] == [
        (3, 4, 5, 2, 0, "row"),
        (6, 6, 6, 2, 1, "col"),
        (0, 0, 0, 2, 0, "row"),
    ]


def test_json_to_standard_output(passes, tmp_path):
    """Also if the shell has redirected that to a file, which must not be replaced."""
    output = passes("--size", 4, "--json", "/dev/stdout")
    assert [r["m"] for r in json.loads(output[output.index("\n[") :])] == [4]
    command = [PROGRAMS[STEP], "--size", "4", "--json", "/dev/stdout", "--device", "cpu"]
    with (tmp_path / "log").open("w") as log:
        subprocess.run(command, stdout=log, check=True, timeout=LIMIT_S)
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0].startswith(STEP) and json.loads("\n".join(lines[3:]))[0]["m"] == 4


# ---- The table ----------------------------------------------------------------------------------------


def test_one_row_per_size_of_a_sweep(passes):
    output = passes("--sweep", "8,16,32")
    assert [row.split("  ")[0] for row in rows(output)] == ["8 x 8 x 8", "16 x 16 x 16", "32 x 32 x 32"]
    assert all(row.endswith("PASS") for row in rows(output))
    assert "3 of 3 passed" in output
    assert "\033" not in output and "\r" not in output  # in a pipe


@pytest.mark.parametrize("arguments", [["--sweep"], ["--sweep", "--repeat", "1"], ["--sweep=8,16,32,40"]])
def test_other_sweeps(passes, arguments):
    assert len(rows(passes(*arguments))) == 4


def test_device_comes_first(passes):
    first, heading, *_ = passes("--size", 4).splitlines()
    assert re.fullmatch(rf"{STEP} on the CPU device, \d+ cores? \(as asked\)", first)
    assert heading.startswith("shape (M x N x K)")
    assert "cuBLAS" not in heading  # nothing to compare with


def read_to_end(fd):
    parts = []
    while True:
        try:
            part = os.read(fd, 4096)
        except OSError:  # what Linux answers when the last writer has gone
            break
        if not part:
            break
        parts.append(part)
    os.close(fd)
    return b"".join(parts).decode()


def on_a_terminal(tmp_path, stream, *arguments):
    """What a run writes to its stdout or stderr, if that is a terminal."""
    try:
        reader, terminal = pty.openpty()
    except OSError as error:  # a container without /dev/pts
        pytest.skip(f"no pseudo-terminal here: {error}")
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: terminal}
    command = [PROGRAMS[STEP], *arguments, "--device", "cpu"]
    with subprocess.Popen(command, cwd=tmp_path, **streams) as process:
        os.close(terminal)
        text = read_to_end(reader)
        assert process.wait(LIMIT_S) == 0
    return text


def test_bar_on_a_terminal(tmp_path):
    text = on_a_terminal(tmp_path, "stderr", "--sweep", "8,16,32")
    for done, size in enumerate([8, 16, 32]):
        assert re.search(rf"\r\033\[K\[#*\.+\] {done}/3  {size} x {size} x {size}", text)
    bars = re.findall(r"\[(#*)(\.*)\] ", text)
    assert len({len(full) + len(rest) for full, rest in bars}) == 1
    assert [len(full) for full, _ in bars] == sorted({len(full) for full, _ in bars})  # it grows
    assert text.endswith("\r\033[K")  # and goes


def test_no_bar_for_one_problem(tmp_path):
    assert on_a_terminal(tmp_path, "stderr", "--size", "8") == ""


def test_colors_on_a_terminal(tmp_path):
    assert "\033[32mPASS\033[0m" in on_a_terminal(tmp_path, "stdout", "--size", "8")


# ---- Help ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help(run, option):
    result = run(option, device=None)
    assert (result.returncode, result.stderr) == (0, "")
    assert STEP in result.stdout
    assert "Examples:" in result.stdout
    for name in (
        "--m", "--size", "--lda", "--alpha", "--batch", "--layout", "--seed", "--device", "--check",
        "--xray", "--block", "--requests", "--no-verify", "--repeat", "--cache", "--sweep", "--cases", "--a",
        "--out", "--json",
    ):  # fmt: skip
        assert re.search(rf"{name}\b", result.stdout), name
    status = result.stdout[result.stdout.index("Exit status:") :]
    for words in ("0 verified", "1 wrong result", "2 bad usage", "3 the device cannot"):
        assert words in status


def test_the_examples_of_help_work(run, passes, tmp_path):
    examples = re.findall(r"^  run (--.*?)(?:   .*)?$", run("--help", device=None).stdout, re.MULTILINE)
    assert len(examples) >= 4
    for example in examples:
        if "--a" in example or "--sweep" in example or "--device" in example:
            continue  # needs files; takes long; passes() chooses the device
        passes(*example.split())


# ---- All orders ---------------------------------------------------------------------------------------


def test_all_orders(run, passes, build_that_can_observe):
    options = ["--check", "--all-orders", "--m", 64, "--n", 64, "--k", 160]
    assert re.search(
        r"no deadlock, no race in 1 schedule \(up to \d\d", passes(*options, step="29_persistent")
    )
    assert "no order to vary" in passes(*options, step="24_async_stages")
    [bug] = [path for path in os.environ["BUGS"].split(os.pathsep) if "refilled_too_early" in path]
    command = [bug, "--device", "cpu", *map(str, options)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (result.returncode, result.stderr) == (1, "")
    assert "bad; the shortest of these:" in result.stdout
    assert re.search(r"passes its wait at Tiles::empty\[0\]: .*\.cuh:\d", result.stdout)
