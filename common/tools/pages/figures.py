"""The generated block that shows one warp's access as a picture."""

import re

from tools.base import UsageError
from tools.drawing import picture
from tools.pages.blocks import BlockError, Request, code

SPACES = {"banks": "shared", "sectors": "global"}


def make_picture(request: Request) -> str:
    step = request.step()
    line = request.option("line", r'"[^"]*"|\'[^\']*\'|\S+')
    line = line.strip("\"'") if line else None
    operation, array, *rest = [*request.arguments.split(), "", ""][: max(2, len(request.arguments.split()))]
    if operation not in picture.VERBS or not array or len(rest) > 1 or any(r not in SPACES for r in rest):
        raise BlockError(
            "write `picture OPERATION ARRAY [line=TEXT] [banks|sectors]`, e.g. `picture load As`"
        )
    space = SPACES[rest[0]] if rest else None
    record = request.context.xray_record(step)
    rows = [row for kernel in record["xray"]["kernels"] for row in kernel["accesses"]]
    try:
        row = picture.find(rows, operation, array, space, line)
    except UsageError as error:
        raise BlockError(str(error)) from None
    access = picture.from_xray(row)
    words = [step, operation, array, *rest, line or ""]  # "Tiles::B" is no name for a file
    name = "_".join(word for text in words for word in re.findall(r"\w+", text))
    link = request.figure(f"{name}.svg", picture.picture(access), alternative(picture.describe(access)))
    example = row["example"]
    where = f"block {tuple(example['block'][:2])}, warp {example['warp']}, execution {example['execution']}"
    return f"{link}\n\n`{row['file']}`, line {row['line']}: {code(row['source'])} ({where})"


def alternative(description: str) -> str:
    """A description as the text of an image's link."""
    return description.replace("[", "(").replace("]", ")")
