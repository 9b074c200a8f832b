"""The check for hazards: nothing in what ptxas makes, and everything that is made wrong on purpose."""

from dataclasses import replace

import pytest
from conftest import code, fp32_kernels
from machine_code.control import NO_BARRIER, Control
from machine_code.hazards import hazards
from tools.machine_code.listing import parse_instruction

NEXT = Control()


def words(*controls):
    return [control.put(0) for control in controls]


def found(text, *controls, strict=()):
    """The hazards of a listing that ends in EXIT; instructions without a control word have the plain one."""
    listing = code(text + "\nEXIT")
    missing = len(listing) - len(controls)
    return [f"{h.offset:x}: {h.text}" for h in hazards(listing, words(*controls, *[NEXT] * missing), strict)]


# ---- By hand ---------------------------------------------------------------------------------------------


def test_fixed_latency():
    chain = "FFMA R0, R1, R2, R0\nFFMA R3, R0, R2, R3"
    assert found(chain, Control(stall=4)) == []
    (wrong,) = found(chain, Control(stall=3))
    assert wrong.startswith("10: FFMA R3, R0, R2, R3 reads R0 3 cycles after")
    assert found("FFMA R0, R1, R2, R0\nNOP\nNOP\nNOP\nFFMA R3, R0, R2, R3") == []
    assert found("FFMA R0, R1, R2, R0\nNOP\nNOP\nFFMA R3, R0, R2, R3") != []


def test_a_predicate_of_a_jump_takes_longer():
    jump = "ISETP.NE.AND P0, PT, R0, RZ, PT\n@P0 BRA 0x0"
    assert found(jump, Control(stall=13)) == []
    assert "reads P0 12 cycles" in found(jump, Control(stall=12))[0]
    select = "ISETP.NE.AND P0, PT, R0, RZ, PT\nSEL R1, R2, R3, P0"
    assert found(select, Control(stall=4)) == []


def test_between_our_own_instructions_more_is_asked_for():
    chain = "IADD3 R0, R1, R2, RZ\nIADD3 R3, R0, R2, RZ"
    assert found(chain, Control(stall=5)) == []
    assert "6 are needed" in found(chain, Control(stall=5), strict=(0x00, 0x10))[0]
    assert found(chain, Control(stall=6), strict=(0x00, 0x10)) == []
    assert found(chain, Control(stall=5), strict=(0x10,)) == []  # what it reads is the compiler's


def test_a_load_must_be_waited_for():
    text = "LDS.128 R4, [R0]\nNOP\nFFMA R1, R7, R2, R1"
    load = Control(write_barrier=2)
    assert "reads R7 without a wait for LDS.128" in found(text, load)[0]
    assert found(text, load, NEXT, Control(wait=1 << 2)) == []
    assert found(text, replace(load, stall=2), Control(wait=1 << 2)) == []
    assert found(text, load, NEXT, Control(wait=1 << 3)) != []
    assert found(text, Control(write_barrier=NO_BARRIER), NEXT, Control(wait=0b111111)) != []


def test_loads_come_in_order():
    text = "LDS R4, [R0]\nLDS R5, [R0]\nNOP\nFFMA R1, R4, R2, R1"
    assert found(text, NEXT, Control(write_barrier=1), NEXT, Control(wait=1 << 1)) == []
    assert found(text, Control(write_barrier=1), NEXT, NEXT, Control(wait=1 << 1)) == []
    other = "LDS R4, [R0]\nLDG.E R5, desc[UR4][R8.64]\nNOP\nFFMA R1, R4, R2, R1"
    assert found(other, NEXT, Control(write_barrier=1), NEXT, Control(wait=1 << 1)) != []


def test_what_a_load_reads_may_not_change_too_early():
    text = "LDS R4, [R0]\nNOP\nMOV R0, R1"
    assert "overwrites R0, which LDS R4, [R0] at 0 still reads" in found(text, Control(write_barrier=1))[0]
    assert found(text, Control(write_barrier=1), NEXT, Control(wait=1 << 1)) == []
    assert found(text, Control(write_barrier=1, read_barrier=5), NEXT, Control(wait=1 << 5)) == []


def test_what_a_load_writes_may_not_be_written_too_early():
    text = "LDS R4, [R0]\nNOP\nMOV R4, R1"
    assert "overwrites R4, which LDS R4, [R0] at 0 still writes" in found(text, Control(write_barrier=1))[0]
    assert found(text, Control(write_barrier=1), NEXT, Control(wait=1 << 1)) == []


def test_a_counter_goes_up_a_cycle_later():
    text = "LDS R4, [R0]\nFFMA R1, R4, R2, R1"
    assert (
        "waits for counter 0 before it goes up"
        in found(text, Control(1, write_barrier=0), Control(wait=1))[0]
    )
    assert found(text, Control(2, write_barrier=0), Control(wait=1)) == []


def test_along_all_ways():
    """The second time round, and where two ways meet."""
    loop = "FFMA R1, R4, R2, R1\nLDS R4, [R0]\nISETP.NE.AND P0, PT, R3, RZ, PT\n@P0 BRA 0x0"
    back = [Control(write_barrier=0), Control(stall=13)]
    assert "0: FFMA R1, R4, R2, R1 reads R4 without a wait" in found(loop, Control(4), *back)[0]
    assert found(loop, Control(4, wait=1), *back) == []
    fork = "@P0 BRA 0x30\nLDS R4, [R0]\nNOP\nFFMA R1, R4, R2, R1"
    assert found(fork, NEXT, Control(write_barrier=0)) != []
    assert found(fork, NEXT, Control(2, write_barrier=0), Control(wait=1)) == []


# ---- What compilers make, and what is made wrong ---------------------------------------------------------


def test_the_kernel_has_none(source):
    assert hazards(source.instructions, source.words) == []


def test_the_steps_have_none():
    count = 0
    for program, cubin, kernel, instructions in fp32_kernels():
        assert hazards(instructions, cubin.words(kernel)) == [], f"{program} {kernel}"
        count += 1
    if not count:
        pytest.skip("no program has machine code that the tool knows")


def mutants(new):
    """Control words of the new loop in which a wait or a counter is missing, one at a time, by offset."""
    loads = [at for at, (i, _, _) in new.lines.items() if i.mnemonic == "LDS"]
    waits = set()
    for at, (i, control, why) in new.lines.items():
        twice = why.startswith("the address") and why in waits  # the first of them has waited for both
        waits.add(why)
        if control.wait and at >= new.body and i.target != new.body and not twice:
            yield at, replace(control, wait=0)
        following = [later for later in loads if later > at][:1]
        group_ends = not following or new.lines[following[0]][1].write_barrier != control.write_barrier
        if control.write_barrier != NO_BARRIER and (i.mnemonic != "LDS" or group_ends):
            yield at, replace(control, write_barrier=NO_BARRIER)


def test_every_wait_and_every_counter_of_the_new_loop_is_needed(rewritten):
    """But for the wait of the jump back, for address registers to have been read: that is for what may come
    after the loop."""
    result, instructions, words_ = rewritten
    new = result.new
    assert hazards(instructions, words_, new.lines.keys()) == []
    region = [i for i in instructions if i.offset in new.lines] + [parse_instruction("EXIT", new.loop.end)]
    tried = list(mutants(new))
    assert len(tried) > 35
    for at, control in tried:
        changed = list(words_)
        changed[at // 16] = control.put(changed[at // 16])
        assert hazards(region, changed, new.lines.keys()), (
            f"{new.lines[at][0].text}: {control} for {new.lines[at][1]}"
        )
