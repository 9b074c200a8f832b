"""What tells one build of a kernel from another."""

import hashlib
import re


def opcode_of(text: str) -> str:
    return re.sub(r"^@!?U?P\w+\s+", "", " ".join(text.split())).split(" ")[0].rstrip(";")


def sass_sha256(texts: list[str]) -> str:
    """Of a kernel's instructions, without white space and the numbers of jump labels, which vary."""
    lines = (
        re.sub(r"\.L_x_\d+|0x[0-9a-f]+$", "label", " ".join(text.split()).rstrip(" ;")) for text in texts
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
