"""How long the tensor cores take for a warp's mma, as experiments/tensor_core_arithmetic measured it."""

import json
from functools import cache

from tools.base import EVIDENCE
from tools.machine_code.listing import Instruction

RECORD = EVIDENCE / "tensor_core_arithmetic.json"
MEASURED = {  # the machine's names for what was measured, and the operands' type in the record
    "HMMA.1688.F32.TF32": "tf32",
    "HMMA.16816.F32.BF16": "bf16",
}


@cache
def measured() -> dict[tuple[int, str], float]:
    """By compute capability (90 for 9.0) and type ("tf32"): cycles of a scheduler for one mma, where enough
    of them that need not wait for each other are under way. Empty without a record."""
    try:
        record = json.loads(RECORD.read_text())
    except FileNotFoundError:
        return {}
    rates: dict[tuple[int, str], float] = {}
    for rate in record["rates"] if record["pass"] else []:
        key = record["compute_capability"], rate["type"]
        rates[key] = min(rate["cycles_per_mma_and_scheduler"], rates.get(key, float("inf")))
    return rates


def measured_cycles(capability: int, instruction: Instruction) -> float | None:
    """Cycles that it occupies its scheduler's tensor core on such a GPU; None if it was not measured."""
    return measured().get((capability, MEASURED.get(instruction.opcode, "")))
