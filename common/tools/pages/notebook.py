"""A page that is a notebook, too: beside NAME.md lies NAME.ipynb, its text and its Python as cells.

The page is the source, and `ladder pages` makes both. The notebook has no outputs: whoever runs it makes
them. Standard library only; a test holds the format to nbformat, and runs every cell.
"""

import json
import re
from pathlib import Path
from typing import Any

from tools.pages.page import PART

CODE = re.compile(r"\A\s*```python\n(.*)^```\s*\Z", re.MULTILINE | re.DOTALL)
# Jupyter's own kernel; a service that looks at such words gives the notebook a GPU.
METADATA = {
    "accelerator": "GPU",
    "colab": {"gpuType": "T4", "provenance": []},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook_beside(page: Path) -> Path | None:
    """Where a page's notebook lies, if it has one."""
    beside = page.with_suffix(".ipynb")
    return beside if beside.exists() else None


def cells(page: str) -> list[tuple[str, str]]:
    """("markdown" or "code", text) in the page's order; generated parts leave what they show."""
    found, text, end = [], "", 0
    for part in PART.finditer(page):
        text, end = text + page[end : part.start()], part.end()
        if code := CODE.match(part[0]) if part["fence"] else None:
            found += [("markdown", text), ("code", code[1])]
            text = ""
        elif part["expression"]:
            text += part["shown"]
        else:
            text += part["content"] or part[0]
    found.append(("markdown", text + page[end:]))
    return [(kind, text.strip()) for kind, text in found if text.strip()]


def to_notebook(page: str) -> str:
    """The notebook's file, in version 4.5 of the format."""
    made: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells(page), 1):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = text.splitlines(keepends=True)
        made.append({**cell, "execution_count": None, "outputs": []} if kind == "code" else cell)
    notebook = {"cells": made, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
