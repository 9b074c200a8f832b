"""The front program, <build>/ladder: its verbs, and how it ends."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import COMMON, ROOT

TOOLS = COMMON / "tools"
PLACEHOLDER = re.compile(r"[\[\]<>|]|\.\.\.|\b[A-Z]{2,}\b(?!=|\.md)")


def verbs_of(overview):
    """Group -> its verbs, from `ladder --help`."""
    groups = {}
    for line in overview.splitlines():
        if title := re.fullmatch(r"(\w[\w ]*):", line):
            groups[title[1]] = []
        elif groups and (verb := re.match(r"  ([a-z-]+) +\S", line)):
            list(groups.values())[-1].append(verb[1])
    return groups


def run(*arguments, program=(sys.executable, "-P", "-m", "tools"), **options):
    return subprocess.run(
        [*program, *arguments], capture_output=True, text=True, timeout=60, check=False, **options
    )


OVERVIEW = run("--help").stdout
VERBS = [verb for verbs in verbs_of(OVERVIEW).values() for verb in verbs]


def test_the_overview_lists_the_verbs_in_groups():
    groups = verbs_of(OVERVIEW)
    assert list(groups) == ["measuring", "looking inside a kernel", "pages", "exercises"]
    assert {"measure", "profile", "sweep", "calibrate"} <= set(groups["measuring"])
    assert {"sass", "picture"} <= set(groups["looking inside a kernel"])
    assert {"claims", "pages", "docs"} <= set(groups["pages"])
    assert len(VERBS) == len(set(VERBS))
    assert all(len(line) <= 110 for line in OVERVIEW.splitlines())
    assert run().stdout == run("-h").stdout == run("help").stdout == OVERVIEW


def examples(verb, text):
    """The calls of a verb in a text that could be typed as they stand."""
    calls = re.findall(rf"(?:\bladder {verb}|^ *{verb}|`{verb})(?: +[^ `(,\n]+)+", text, re.MULTILINE)
    return [call for call in calls if not PLACEHOLDER.search(call)]


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help_with_an_example(verb):
    result = run(verb, "--help")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    told = result.stdout.partition("\n\n")[2]  # below the usage
    assert len(told.splitlines()[0]) > 10
    assert examples(verb, told), told


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=str)
def test_the_pages_name_verbs_that_exist(path):
    text = path.read_text()
    named = re.findall(r"(?:build/|<build>/|`)ladder ([a-z][\w-]*)", text)
    named += re.findall(r"^ +ladder ([a-z][\w-]*)", text, re.MULTILINE)
    assert set(named) <= set(VERBS)
    if path.name == "running.md":
        assert len(set(named)) >= 8


@pytest.mark.parametrize(
    ("typed", "meant"), [("mesure", "measure"), ("clams", "claims"), ("pictures", "picture"), ("doc", "docs")]
)
def test_a_mistyped_verb_is_guessed(refused, typed, meant):
    assert f"did you mean {meant}" in refused(typed)


def test_an_unknown_verb_leads_to_the_help(refused):
    refused("xylophone", words=["'xylophone'", "--help"])


def test_bad_usage_is_one_line_that_names_the_verb(refused):
    refused("sass", words=["program", "sass --help"])
    refused("picture", "a.json", "leap", "A", "b.svg", words=["leap", "load"])


def test_a_missing_package_is_named(tmp_path):
    (tmp_path / "material.py").write_text("import no_such_package")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{COMMON}"}
    result = run("docs", "--out", str(tmp_path / "site"), env=environment)
    assert result.returncode == 2
    assert result.stderr.startswith("error: the Python package no_such_package is not installed: run ./setup")
    assert len(result.stderr.splitlines()) == 1


# ---- How it ends -----------------------------------------------------------------------------------------


def test_a_reader_that_leaves_is_no_error():
    """As in `ladder --help | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-P", "-m", "tools", "--help"]
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert result.returncode == 141
    assert result.stderr == b""


def test_ctrl_c_ends_it_in_one_line(tmp_path):
    """While `picture` waits for its file, which is a pipe that nobody writes to."""
    pipe = tmp_path / "xray.json"
    os.mkfifo(pipe)
    command = [
        sys.executable,
        "-P",
        "-m",
        "tools",
        "picture",
        str(pipe),
        "load",
        "A",
        str(tmp_path / "a.svg"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        writer = open_when_read(pipe)
        out = err = None
        time.sleep(0.3)  # most likely it waits for data then
        for _ in range(3):  # a signal right before that is seen only when there are some
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=10)
                break
        os.close(writer)
    finally:
        process.kill()
    assert process.returncode == 130
    assert (out, err) == ("", "\nstopped\n")


def open_when_read(pipe, limit_s=30):
    """Opens a pipe for writing as soon as someone reads from it."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(pipe)


# ---- The program in a build ------------------------------------------------------------------------------


@pytest.mark.skipif(
    not Path(os.environ.get("BUILD", ""), "ladder").is_file(), reason="BUILD names no build with the program"
)
def test_the_builds_program_runs_from_anywhere(tmp_path):
    """It names itself as it was called, whatever lies where it is called from."""
    program = Path(os.environ["BUILD"]).resolve() / "ladder"
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    (tmp_path / "tools.py").write_text("raise SystemExit('the wrong tools')")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert run(program=[program], cwd=tmp_path, env=environment).stdout == OVERVIEW
    result = run("picture", "--help", program=[program], cwd=tmp_path, env=environment)
    assert result.returncode == 0
    assert result.stdout.startswith(f"usage: {program} picture")


# ---- Its modules -----------------------------------------------------------------------------------------
