"""What the tests of the pages and the site share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMON = ROOT / "common"
DESKTOP, PHONE = 1400, 390  # widths of a screen, in CSS pixels
SAMPLE = Path(__file__).resolve().parent / "sample"  # pages that hold everything a page may hold
sys.path.insert(0, str(COMMON))
os.environ["PYTHONPATH"] = str(COMMON)  # of `python -m tools`

SKIPPED = 77  # to Meson


def pytest_sessionfinish(session, exitstatus):
    """A run in which every test (or every module: status 5) was skipped is a skipped test to Meson."""
    statistics = session.config.pluginmanager.get_plugin("terminalreporter").stats
    if exitstatus in (0, 5) and statistics.get("skipped") and not statistics.get("passed"):
        session.exitstatus = SKIPPED


def build_site(out, docs=ROOT / "docs", **options):
    """Runs `ladder docs` as a user does."""
    command = [sys.executable, "-m", "tools", "docs", "--docs", docs, "--out", out]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, **options)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A function that builds a site once, built("docs") or built("sample"), and returns its path."""
    pytest.importorskip("material", reason="MkDocs Material is not installed: run ./setup.sh")
    sites = {}

    def build_once(name):
        if name not in sites:
            site = tmp_path_factory.mktemp(name) / "site"
            result = build_site(site, ROOT / "docs" if name == "docs" else SAMPLE)
            assert result.returncode == 0, result.stdout + result.stderr
            assert result.stderr == ""
            assert result.stdout == f"open {site / 'index.html'}\n"
            sites[name] = site
        return sites[name]

    return build_once


def started(*arguments):
    """A browser. Skips the test where there is none."""
    pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
    from browser import Browser, NoBrowser

    try:
        with Browser(*arguments) as browser:
            yield browser
    except NoBrowser as problem:
        pytest.skip(str(problem))


@pytest.fixture(scope="session")
def window():
    yield from started()


@pytest.fixture(scope="module")
def layouts():
    """A browser in which pages are laid out and nobody clicks: without compositing in a thread of its own,
    which without a GPU is a third of what a page costs, and which input and screenshots wait for."""
    yield from started("--disable-threaded-compositing")


@pytest.fixture
def browser(window):
    """The window, as a reader on a desktop finds it."""
    window.size(DESKTOP)
    window.system_colours("light")
    yield window
    window.run("try { localStorage.clear() } catch { }")
    window.get("about:blank")  # so that the old page does not see the next test's changes
    window.errors(), window.requests()
