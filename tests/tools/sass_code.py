"""Machine code for the tests, written down by hand."""

import re

from tools.machine_code.listing import parse_instruction


def code(text):
    """Instructions from lines "TEXT", 16 bytes apart; "NAME:" in front names one, and >NAME jumps there."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = {}
    for n, line in enumerate(lines):
        if match := re.match(r"(\w+): ", line):
            named[match[1]] = f"{16 * n:#x}"
            lines[n] = line[match.end() :]
    return [
        parse_instruction(re.sub(r">(\w+)", lambda m: named[m[1]], line), 16 * n)
        for n, line in enumerate(lines)
    ]
