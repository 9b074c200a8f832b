"""Each way around an exercise is caught, with the message that its file asks for. The header of a cheat:

// cheat: NAME: what it does
// exercise: NAME, NAME...: what it tries to get by; without it 02_coalescing
// code: the kind of finding
// says: what the message holds
// place: the code in the line that the message names; without it: any line, or none
"""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import CHEATS
from tools.grading.finding import show
from tools.grading.grader import Grader

FILES = sorted(CHEATS.glob("*.cu"))
KINDS = {  # what must not get through, and who tries
    "NaN output": "nan_output",
    "skipping work": "unwritten_tiles",
    "zeros where nobody looks": "zero_far_away",
    "leaving C": "leaves_c",
    "copying C": "copies_c",
    "a race": "right_with_a_race",
    "caching between runs": "skips_known_sizes",
    "the last result": "kept_results",
    "reading the reference": "reference",
    "work on the host": "host_work",
}


def header(text: str) -> dict[str, str]:
    return dict(re.findall(r"^// (cheat|exercise|code|says|place): (.+)$", text, re.MULTILINE))


TRIES = [
    (path, name)
    for path in FILES
    for name in header(path.read_text()).get("exercise", "02_coalescing").split(", ")
]


@pytest.fixture(scope="module")
def grades(build, exercises):
    """Of all cheats, two at a time."""

    def grade(attempt):
        path, name = attempt
        return Grader(exercises[name], build, "cpu", seed=1).grade(path.read_text(), "my/cheat.cu")

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(TRIES, pool.map(grade, TRIES), strict=True))


def test_every_kind_is_tried():
    assert set(KINDS.values()) <= {path.stem for path in FILES}


@pytest.mark.parametrize(("path", "exercise"), TRIES, ids=[f"{path.stem}-{name}" for path, name in TRIES])
def test_cheat_is_caught(path, exercise, grades):
    text = path.read_text()
    wanted = header(text)
    assert wanted["cheat"].startswith(f"{path.stem}: ")
    finding = grades[path, exercise].finding
    assert finding is not None, "it passes"
    assert finding.code == wanted["code"], finding
    message = " ".join(show(finding, "my/cheat.cu", text).split())
    assert wanted.get("says", "") in message
    if "place" in wanted:
        # Without the header and what else stands in comments.
        places = [
            n
            for n, line in enumerate(text.splitlines(), 1)
            if wanted["place"] in line and not line.startswith("//")
        ]
        assert len(places) == 1, "the place is not one line"
        assert finding.line == places[0], finding
        assert f"my/cheat.cu:{places[0]}" in message
