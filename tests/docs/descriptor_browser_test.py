"""The picture of the operands of wgmma, in a real browser: it says where the descriptors lead. Skipped where
there is no Chromium."""

import pytest

pytest.importorskip("selenium", reason="selenium is not installed: run ./setup.sh")
from browser import DESKTOP, PHONE

SAYS = "return document.querySelector('.play-says').innerText.replace(/\\s+/g, ' ')"
SET = """
for (const [name, value] of Object.entries(arguments[0])) {
  const input = document.querySelector(`.play [type="range"][name="${name}"]`);
  input.value = value;
  input.dispatchEvent(new Event("input", { bubbles: true }));
}
"""


def place(line, piece, within):
    """Of an element of a piece in a line of 128 bytes, with the swizzle: byte and bank."""
    byte = line * 128 + (piece ^ line % 8) * 16 + within * 2
    return f"byte {byte}, bank {byte // 4 % 32}."


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_where_elements_lie(browser, built, width):
    browser.size(width)
    browser.get((built("docs") / "steps" / "32_wgmma.html").as_uri())
    browser.run("for (const folded of document.querySelectorAll('details')) folded.open = true")
    for row, column, k in (0, 0, 0), (13, 77, 21), (63, 127, 63):
        browser.run(SET, {"row": row, "column": column, "k": k})
        says = browser.run(SAYS)
        assert f"A[{row}][{k}]: {place(row, k // 8, k % 8)}" in says
        line = column // 64 * 64 + k  # of B: 64 columns of each k, then the next 64
        assert f"B[{k}][{column}]: {place(line, column % 64 // 8, column % 8)}" in says
        assert f"Warp {row // 16}, lane {row % 8 * 4 + column % 8 // 2}: has the sum" in says
    browser.run(
        "document.querySelectorAll('.play svg')[0].querySelectorAll('g')[0].dispatchEvent(new Event('click'))"
    )
    assert "A[56]" in browser.run(SAYS)
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.errors() == []
