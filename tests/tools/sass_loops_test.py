"""ladder sass: loops and registers in fixed listings, and occupancy. Needs neither nvcc nor a build."""

import pytest
from sass_code import code
from tools.machine_code import architectures, loops
from tools.machine_code.listing import NotMeasured, SassError, parse_instruction
from tools.machine_code.loops import PRODUCTS, Loop, find_loops, main_loop
from tools.machine_code.occupancies import occupancy
from tools.machine_code.register_reads import register_reads

# ---- Loops -----------------------------------------------------------------------------------------------


def loops_of(text, arch="sm_90a"):
    return find_loops(code(text), arch)


FFMA = "FFMA R0, R2, R4, R0\n"


def test_no_loop():
    """What stands behind a kernel's end, a jump to itself, is none: no way leads there."""
    assert loops_of("MOV R1, R2\nFFMA R0, R1, R2, R0\nEXIT\nhere: BRA >here") == []
    assert main_loop(loops_of("here: LDS R1, [R2]\n@P0 BRA >here\nEXIT")) is None


def test_remainder_loop_is_not_the_main_loop():
    """A loop unrolled four times, and one for what remains, as nvcc makes them."""
    main = main_loop(
        loops_of(f"""
        @!P1 BRA >rest
        four: LDG.E R2, [R6.64]
        {FFMA * 4}
        @P1 BRA >four
        rest: @!P0 EXIT
        one: LDG.E R2, [R6.64]
        {FFMA}
        @P0 BRA >one
        EXIT""")
    )
    assert (main.ffma, len(main.instructions), main.count("LDG"), main.outer) == (4, 6, 1, None)
    assert main.per_ffma("LDG") == 0.25
    assert main.share("FFMA") == 4 / 6
    assert main.mix == {"FFMA": 4, "LDG.E": 1, "BRA": 1}


NESTED = f"""
    MOV R1, R2
    tile: STS [R4], R8
    BAR.SYNC.DEFER_BLOCKING 0x0
    k: LDS R2, [R4]
    {FFMA * 2}
    @P0 BRA >k
    BAR.SYNC.DEFER_BLOCKING 0x0
    @!P1 BRA >tile
    EXIT"""


def test_nested_loops():
    inner, outer = loops_of(NESTED)
    assert main_loop([inner, outer]) is inner and inner.outer is outer and outer.outer is None
    assert [i.opcode for i in inner.instructions] == ["LDS", "FFMA", "FFMA", "BRA"]
    assert (len(outer.instructions), outer.count("BAR"), outer.count("LDS")) == (8, 2, 1)


def test_two_ways_back_are_one_loop():
    """`continue` in the source: both jumps go to one header."""
    (loop,) = loops_of(f"""
        head: ISETP.GE.AND P0, PT, R1, R2, PT
        @P0 BRA >head
        {FFMA}
        @P1 BRA >head
        EXIT""")
    assert loop.ffma == 1 and len(loop.instructions) == 4 and loop.aside == []


def test_loop_whose_way_back_stands_elsewhere():
    """The body goes on behind the kernel's end; a jump backwards from there is not a loop by itself."""
    loops = loops_of(f"""
        head: {FFMA}
        @P0 BRA >far
        back: FADD R1, R1, R2
        @P1 BRA >head
        EXIT
        far: FMUL R1, R1, R2
        BRA >back""")
    assert [len(loop.instructions) + len(loop.aside) for loop in loops] == [6]
    assert [i.mnemonic for i in loops[0].instructions] == ["FFMA", "BRA", "FADD", "BRA"]
    assert [i.mnemonic for i in loops[0].aside] == ["FMUL", "BRA"]


def test_usual_way_moves_the_most_and_is_the_shortest():
    """Three ways through a loop: tiles inside the matrix, the last tile, and no more tiles."""
    (loop,) = loops_of(f"""
        head: @P0 BRA >inside
        @!P1 BRA >compute
        ISETP.LT.AND P2, PT, R1, R2, PT
        LDGSTS.E [R2], [R4.64], P2
        BRA >compute
        inside: LDGSTS.E [R2], [R4.64]
        compute: {FFMA}
        @P3 BRA >head
        EXIT""")
    assert [i.offset for i in loop.instructions] == [0, 0x50, 0x60, 0x70]
    assert len(loop.aside) == 4 and loop.count("LDGSTS") == 1 and loop.share("LDGSTS") == 0.25


def test_loop_left_by_a_call():
    """nvcc leaves some loops with a conditional CALL to the code behind them."""
    (loop,) = loops_of(f"head: {FFMA} @P0 CALL.REL.NOINC >out\nBRA >head\nout: EXIT")
    assert [i.mnemonic for i in loop.instructions] == ["FFMA", "CALL", "BRA"]


def test_lanes_that_part_and_meet_in_a_loop():
    loop = main_loop(
        loops_of(f"""
        head: BSSY B0, >meet
        @P0 BRA >skip
        LDG.E R2, [R4.64]
        skip: BSYNC B0
        meet: {FFMA}
        @P1 BRA.U UP0, >head
        EXIT""")
    )
    assert (loop.count("LDG"), loop.ffma, len(loop.instructions)) == (1, 1, 6)


# ---- Loops that multiply on tensor cores -----------------------------------------------------------------

HMMA = "HMMA.1688.F32.TF32 R4, R8, R12, R4\n"
WIDE = "HMMA.16816.F32.BF16 R4, R8, R12, R4\n"


@pytest.fixture
def six_cycles(monkeypatch):
    """Of an HMMA in TF32 on 9.0; nothing else is known."""
    monkeypatch.setattr(loops, "mma_cycles", lambda: {(90, "tf32"): 6.0})


def test_main_loop_multiplies_with_hmmas(six_cycles):
    """FFMAs in it round. Neither one with more FFMAs is the main one, nor that around it, nor the wait."""
    main = main_loop(
        loops_of(f"""
        tile: FADD R0, R0, R0
        slab: LDSM.16.M88.4 R8, [R2]
        LDS.64 R12, [R3]
        LDS R14, [R3]
        {FFMA * 2}{HMMA * 4}
        wait: SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R5], R6
        @!P0 BRA >wait
        @P1 BRA >slab
        store: {FFMA * 40}
        @P2 BRA >store
        @P3 BRA >tile
        EXIT""")
    )
    assert (main.hmma, main.ffma, len(main.instructions)) == (4, 2, 12)
    assert (main.per_hmma("LDS"), main.per_hmma("LDS.64"), main.per_hmma("LDSM")) == (0.5, 0.25, 0.25)
    assert main.instructions_per_hmma == 3
    assert main.mix["LDSM.16.M88.4"] == main.mix["LDS.64"] == 1 and main.mix["HMMA"] == 4
    assert main.outer.hmma == 4 and main.outer.ffma == 42


def test_usual_way_has_the_most_hmmas():
    """More FFMAs do not make another way the usual one, as they do where nothing else multiplies."""
    (loop,) = loops_of(f"""
        head: @P0 BRA >other
        {HMMA}
        @P1 BRA >head
        EXIT
        other: {FFMA * 3}
        BRA >head""")
    assert (loop.hmma, loop.ffma, len(loop.aside)) == (1, 0, 4)


@pytest.mark.parametrize("products", PRODUCTS)
def test_what_multiplies(products):
    """By what the loop has: the tensor cores, whatever their instruction is called, before FFMAs."""
    text = f"wait: {FFMA * 9}@P1 BRA >wait\nhead: {FFMA * 3}{products}.X R4, R8, R12, R4\n@P0 BRA >head\nEXIT"
    main = main_loop(loops_of(text))
    assert (main.products, main.on_tensor_cores) == (products, products != "FFMA")
    assert main.ffma == (9 if products == "FFMA" else 3)
    assert (main.hmma, main.hgmma) == (products == "HMMA", products == "HGMMA")
    assert architectures.products(architectures.describe_loop(main)) == (products, main.count(products))
    if products == "HGMMA":
        with pytest.raises(NotMeasured, match="HGMMA"):
            _ = main.pipe_cycles


def test_what_issue_slots_leave_of_the_tensor_cores(six_cycles):
    def loop(text, arch="sm_90a"):
        return Loop(arch, code(text), [], frozenset())

    assert loop(HMMA + "FADD R0, R0, R0\n" * 5).issue_bound == 1
    assert loop(HMMA + "FADD R0, R0, R0\n" * 11).issue_bound == 1 / 2
    assert loop(HMMA * 2 + "FADD R0, R0, R0\n" * 5).pipe_cycles == 12
    assert loop(HMMA + "@!PT " + HMMA).pipe_cycles == 6  # what is never executed occupies nothing
    for text, arch, words in (
        (HMMA, "sm_80", "HMMA.1688.F32.TF32 takes on sm_80"),
        (WIDE, "sm_90a", "16816"),
    ):
        with pytest.raises(NotMeasured, match=words):
            _ = loop(text, arch).issue_bound


def test_the_record_says_how_long_an_hmma_takes():
    assert loops.mma_cycles().keys() == {(90, "tf32"), (90, "bf16")}
    assert all(6 <= cycles < 6.02 for cycles in loops.mma_cycles().values())


def test_the_model_of_the_banks_is_of_ffmas_alone():
    loop = Loop("sm_90a", code(HMMA + FFMA), [], frozenset())
    for name in ("predicted_cycles", "predicted_tflops_fraction", "bank_conflicts", "reuse_share"):
        with pytest.raises(SassError, match="FFMAs, not HMMAs"):
            getattr(loop, name)


def test_lead_of_fragments():
    """An HMMA reads four registers of A, two of B and four of C, and says the first of each."""
    lines = f"LDSM.16.M88.4 R8, [R2]\nLDS R13, [R3]\nLDS R14, [R3]\nLDS R7, [R3]\nFADD R0, R0, R0\n{HMMA}"
    loop = Loop("sm_90a", code(lines), [], frozenset())
    assert (loop.leads("LDSM"), loop.leads("LDS")) == ([5], [4, 2])  # nothing reads R14


# ---- Registers -------------------------------------------------------------------------------------------


def conflicts(*ffmas, arch="sm_90a"):
    loop = Loop(arch, [parse_instruction(f) for f in ffmas], [], frozenset())
    return loop.bank_conflicts


def reads(*lines):
    """What each FFMA reads from the even and from the odd bank."""
    return register_reads([parse_instruction(line) for line in lines]).from_banks


def test_bank_conflicts():
    assert conflicts("FFMA R0, R2, R4, R6") == 2  # three even registers: three cycles
    assert conflicts("FFMA R0, R2, R4, R7") == 1  # two of three
    assert conflicts("FFMA R0, R2, R5, R2") == 0  # R2 is read once
    assert (
        conflicts("FFMA R0, R2, UR4, R7") == 0
    )  # uniform registers, constants and zero are not in the banks
    assert conflicts("FFMA R0, R2, c[0x0][0x160], R5") == 0
    assert conflicts("FFMA R0, R2, R4, RZ") == 1
    assert conflicts("FFMA R0, -R2, |R4|, 1") == 1
    assert conflicts("IADD3 R0, R2, R4, R6") == 0  # the model is of FFMAs


def test_a_busy_bank_delays_only_who_wants_it():
    even, odd, neither = "FFMA R0, R2, R4, 1", "FFMA R1, R3, R5, 1", "FFMA R6, 1, 2, 3"
    assert conflicts(even, even) == 2
    assert conflicts(even, odd) == 0  # by turns: one bank recovers while the other is read
    assert conflicts(even, even, odd, odd) == 2
    assert conflicts(even, neither) == 0
    assert conflicts(even, "MOV R7, 0x1") == 0  # what stands between two clashes is time, too


def test_two_reads_may_wait_for_a_bank():
    even, odd, both, neither = (f"FFMA R0, {o}, 1" for o in ("R2, R4", "R3, R5", "R2, R5", "1, 2"))
    fresh = "FFMA R0, R2, R4, R5", "FFMA R1, R3, R5, R4"  # three operands of two banks: half as much again
    assert conflicts(*fresh) == 1
    assert conflicts(*fresh, neither) == 0  # each bank has three reads to do in three cycles
    assert conflicts("FFMA R0, R2, R4, R5", "FFMA R1, R2, R4, R5") == 2  # twice as much if always of one bank
    # Those after a clash are a cycle late, but go on; where the bank has nothing to do it makes up for it.
    # (With more of `both` the last of these takes two cycles more on an H200: see tests/register_banks.)
    assert conflicts(even, both, both) == 1
    assert conflicts(even, both, both, neither) == 0
    assert conflicts(even, both, odd, both) == 0  # each bank has four reads in four cycles
    # A clash waits until there is room for both its reads.
    assert conflicts(even, even, odd, odd, neither) == 2
    three = "FFMA R0, R2, R4, R6"  # does not fit in the queue: starts when the bank is idle
    assert conflicts(three, neither) == 1
    assert conflicts(three, neither, neither) == 0


def test_reuse():
    assert reads("FFMA R0, R2.reuse, R5, R7", "FFMA R1, R2, R4, R9") == [(1, 2), (1, 1)]
    assert reads("FFMA R0, R2, R5, R7", "FFMA R1, R2, R4, R9") == [(1, 2), (2, 1)]  # not marked
    assert reads("FFMA R0, R2.reuse, R5, R7", "FFMA R1, R4, R2, R9") == [(1, 2), (2, 1)]  # another operand
    # What is read without a mark leaves the cache.
    assert reads("FFMA R0, R2.reuse, R5, R7", *["FFMA R1, R2, R5, R9"] * 2) == [(1, 2), (0, 2), (1, 2)]
    assert reads("FFMA R0, R2.reuse, R5, R7", *["FFMA R1, R2.reuse, R5, R9"] * 2) == [(1, 2), (0, 2), (0, 2)]
    assert reads("IMAD R0, R2.reuse, R5, R7", "FFMA R1, R2, R4, R9") == [(1, 1)]  # others fill the cache, too
    assert conflicts("FFMA R0, R2.reuse, R5, R7", "FFMA R1, R2, R4, R9") == 1  # three odd reads in two cycles
    assert conflicts("FFMA R0, R2.reuse, R5, R7", "FFMA R1, R2, R5, R9", "FFMA R1, R2, R4, R9") == 2


def test_the_cache_has_an_entry_for_each_place_and_bank():
    begin, end = "FFMA R0, R2.reuse, R5, R7", "FFMA R0, R2, R5, R9"
    cached, read = (0, 2), (1, 2)
    for between, found in (
        ("FFMA R1, R3, R4, R6", cached),  # of the other bank in this place
        ("FFMA R1, R3.reuse, R4, R6", cached),  # each bank keeps its own
        ("FFMA R1, R4, R3, R9", read),  # of the same bank
        ("FFMA R1, R4.reuse, R3, R9", read),
        ("FFMA R1, 1, R4, R6", cached),  # no register in this place
        ("FFMA R1, R3, R2, R6", cached),  # the same register in another place
        ("IADD3 R1, R4, R3, RZ", read),  # others empty it, too
        ("IADD3 R1, R3, R4, RZ", cached),
        ("LDS R8, [R3]", cached),
    ):
        assert reads(begin, between, end)[-1] == found, between
        assert reads(begin, *[between] * 7, end)[-1] == found, between


def test_lead():
    """How long before its use a load stands; the first register of a wide load is not all it loads."""
    lines = "FFMA R0, R1, R6, R0\nLDS.128 R4, [R9]\nLDS R8, [R9]\nIADD3 R10, R9, 0x1, RZ\nFFMA R0, R1, R8, R0"
    loop = Loop("sm_90a", code(lines), [], frozenset())
    assert (loop.lead("LDS.128"), loop.lead("LDS.32"), loop.lead("LDS")) == (4, 2, 3)  # 4: round the loop
    assert (loop.leads("LDS"), loop.leads("LDG")) == ([4, 2], [])
    with pytest.raises(SassError, match="nothing that LDG loads"):
        loop.lead("LDG")


def test_gaps():
    """What stands between two instructions of a kind; the last gap goes round the loop."""
    lines = (
        "LDS R4, [R9]\nFFMA R0, R1, R4, R0\nFFMA R2, R3, R4, R2\nIADD3 R9, R9, 0x4, RZ\nFFMA R0, R1, R5, R0"
    )
    loop = Loop("sm_90a", code(lines), [], frozenset())
    assert (loop.gaps("FFMA"), loop.gaps("LDS"), loop.gaps("HMMA")) == ([0, 1, 1], [4], [])


def predicted(arch, *lines):
    return Loop(arch, [parse_instruction(line) for line in lines], [], frozenset()).predicted_tflops_fraction


def test_predicted_fraction():
    clean, clash, worse = "FFMA R0, R2, R5, 1", "FFMA R0, R2, R5, R7", "FFMA R0, R2, R4, R6"
    for arch in ("sm_86", "sm_89", "sm_90a"):  # an FFMA every cycle: all else costs
        assert predicted(arch, clean) == 1
        assert predicted(arch, clean, "LDS R2, [R4]") == 1 / 2
        assert predicted(arch, clash) == 1 / 2
        assert predicted(arch, worse) == 1 / 3
    # 8.0: an FFMA takes two cycles, so that another instruction or a second read is free
    assert predicted("sm_80", clean, "LDS R2, [R4]") == 1
    assert predicted("sm_80", clash) == 1
    assert predicted("sm_80", worse) == 2 / 3
    assert predicted("sm_80", clean, "LDS R2, [R4]", "LDS R3, [R5]") == 2 / 3


def test_issue_bound():
    loop = code("FFMA R0, R2, R4, R6\nLDS R2, [R4]\nLDS R3, [R4]\nBRA 0x0")
    assert Loop("sm_90a", loop, [], frozenset()).issue_bound == 1 / 4
    assert Loop("sm_80", loop, [], frozenset()).issue_bound == 2 / 4
    assert Loop("sm_80", loop[:2], [], frozenset()).issue_bound == 1


# ---- Occupancy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arch, registers, shared, threads, warps, blocks, limited_by",
    [
        ("sm_90a", 32, 0, 1024, 64, 2, ("warps", "registers")),
        ("sm_90a", 128, 16640, 256, 16, 2, ("registers",)),
        ("sm_90a", 129, 0, 256, 8, 1, ("registers",)),  # 136 after rounding: 3 warps to a scheduler, not 4
        ("sm_80", 16, 40 * 1024, 256, 32, 4, ("shared memory",)),
        ("sm_80", 16, 41 * 1024, 256, 24, 3, ("shared memory",)),  # 164 / 41 = 4, but for the reserved 1
        ("sm_86", 32, 0, 1024, 32, 1, ("warps",)),  # 48 warps: the second block does not fit
        ("sm_89", 16, 0, 32, 24, 24, ("blocks",)),
        ("sm_89", 32, 33 * 1024, 512, 32, 2, ("shared memory",)),
        ("sm_90", 40, 0, 100, 48, 12, ("registers",)),  # 4 warps are 100 threads; 12 warps to a scheduler
    ],
)
def test_occupancy(arch, registers, shared, threads, warps, blocks, limited_by):
    result = occupancy(arch, registers, shared, threads)
    assert (result.warps, result.blocks, result.limited_by) == (warps, blocks, limited_by)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("sm_42", 32, 0, 256), "is not known here"),
        (("sm_80", 32, 0, 0), "1 to 1024 threads, not 0"),
        (("sm_80", 32, 0, 1025), "not 1025"),
        (("sm_86", 32, 100 << 10, 256), "only 101376"),
        (("sm_90a", 255, 0, 1024), "do not fit on an SM of sm_90a"),
    ],
)
def test_what_does_not_fit(arguments, words):
    with pytest.raises(SassError, match=words):
        occupancy(*arguments)
