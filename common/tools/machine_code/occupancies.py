"""How many warps of a kernel fit on an SM, and what keeps more away."""

from dataclasses import dataclass

from tools.machine_code.listing import SassError
from tools.machine_code.loops import compute_capability

WARP = 32
REGISTERS = 64 * 1024  # of an SM, all that are listed here
REGISTER_UNIT = 256  # a warp gets a multiple of these
SCHEDULERS = 4  # of an SM; a warp's registers lie in the quarter of its scheduler
SHARED_UNIT = 128  # a block gets a multiple of these bytes


@dataclass(frozen=True)
class Limits:
    """What an SM can hold."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int  # the most that a block can ask for
    reserved_bytes: int  # of shared memory in each block, for the system


# CUDA C++ Programming Guide, "Compute Capabilities", table "Technical Specifications per Compute Capability";
# the reserved 1 KiB: the guide's sections on shared memory of 8.x and 9.0; the units: the CUDA toolkit's
# cuda_occupancy.h, whose arithmetic this is.
LIMITS = {
    75: Limits(32, 16, 64 << 10, 64 << 10, 0),
    80: Limits(64, 32, 164 << 10, 163 << 10, 1024),
    86: Limits(48, 16, 100 << 10, 99 << 10, 1024),
    87: Limits(48, 16, 164 << 10, 163 << 10, 1024),
    89: Limits(48, 24, 100 << 10, 99 << 10, 1024),
    90: Limits(64, 32, 228 << 10, 227 << 10, 1024),
    100: Limits(64, 32, 228 << 10, 227 << 10, 1024),
    120: Limits(48, 24, 100 << 10, 99 << 10, 1024),
}


@dataclass(frozen=True)
class Occupancy:
    """Warps and blocks on an SM at once, by what the compiler and the launch ask for."""

    warps: int
    blocks: int
    max_warps: int  # what the SM could hold
    limited_by: tuple[str, ...]  # of "warps", "blocks", "registers", "shared memory", those that bind


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(arch: str, registers: int, shared_bytes: int, threads: int) -> Occupancy:
    """Of blocks of `threads` threads that have `registers` each and `shared_bytes` per block in all.

    Raises SassError for an architecture that is not in the table, and for a block that fits nowhere.
    """
    limits = LIMITS.get(compute_capability(arch))
    if limits is None:
        raise SassError(f"what an SM of {arch} holds is not known here")
    if not 1 <= threads <= 1024:
        raise SassError(f"a block has 1 to 1024 threads, not {threads}")
    if shared_bytes > limits.shared_bytes_per_block:
        most = limits.shared_bytes_per_block
        raise SassError(f"a block cannot have {shared_bytes} bytes of shared memory on {arch}, only {most}")
    warps = round_up(threads, WARP) // WARP
    registers_of_warp = round_up(registers * WARP, REGISTER_UNIT)
    warps_by_registers = REGISTERS // SCHEDULERS // max(1, registers_of_warp) * SCHEDULERS
    shared_of_block = round_up(shared_bytes + limits.reserved_bytes, SHARED_UNIT)
    fits = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": warps_by_registers // warps,
        "shared memory": limits.shared_bytes // shared_of_block if shared_of_block else limits.blocks,
    }
    if registers_of_warp * round_up(warps, SCHEDULERS) > REGISTERS:
        fits["registers"] = 0  # such a launch is refused, whatever fits
    blocks = min(fits.values())
    if blocks == 0:
        raise SassError(f"{threads} threads with {registers} registers each do not fit on an SM of {arch}")
    binding = tuple(name for name, most in fits.items() if most == blocks)
    return Occupancy(blocks * warps, blocks, limits.warps, binding)
