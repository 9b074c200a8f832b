"""The record that pages and tests read: what was measured, which FFMAs ran, and what each model says of them.

{"registers": {size: numbers}, "patterns": [{"pattern", "size", "others", "code", "models"}, ...],
 "measured": what the program wrote}

The code of a pattern is its notation (patterns.py); the registers that it gives out are those of its size.
The code of a replay is all its FFMAs, as in "32 13 0* 32": the numbers of d, a, b and c, and * for .reuse.
For the steps change, and with them their loops.
"""

import re
from typing import Any

from tools.base import UsageError
from tools.machine_code.listing import Instruction, SassError
from tools.machine_code.register_reads import source_registers

from register_banks.model import predict
from register_banks.patterns import LARGE_PATTERNS, PATTERNS, ffma, in_notation

NOTATIONS = PATTERNS | LARGE_PATTERNS
SEPARATOR = " | "


def in_numbers(i: Instruction) -> str:
    sources = (f"{register}{'*' * marked}" for register, marked in source_registers(i).values())
    return " ".join([i.operands[0].removeprefix("R"), *sources])


def from_numbers(text: str) -> Instruction:
    d, *sources = re.findall(r"(\d+)(\*?)", text)
    return ffma(int(d[0]), [(int(register), bool(mark)) for register, mark in sources])


def make_record(patterns: list[Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """patterns: what ran, each with name, size, registers, code and others."""
    registers = {p.size: p.registers for p in patterns}
    rows = []
    for p in patterns:
        row = {"pattern": p.name, "size": p.size, "others": p.others}
        row["code"] = NOTATIONS.get(p.name) or SEPARATOR.join(map(in_numbers, p.code))
        row["models"] = {name: round(value, 6) for name, value in predict(p.code, p.others).items()}
        if [i.text for i in code_of(row, registers, len(p.code))] != [i.text for i in p.code]:
            raise UsageError(f"{p.name}: patterns.py has other FFMAs than those that ran")
        rows.append(row)
    return {"registers": registers, "patterns": rows, "measured": results}


def code_of(row: dict[str, Any], registers: dict[str, list[int]], ffmas: int) -> list[Instruction]:
    """The FFMAs of a recorded pattern."""
    if row["pattern"] not in NOTATIONS:
        return [from_numbers(text) for text in row["code"].split(SEPARATOR)]
    try:
        return in_notation(row["code"], registers[row["size"]], ffmas)
    except SassError as error:
        raise UsageError(f"{row['pattern']}: {error}") from None
