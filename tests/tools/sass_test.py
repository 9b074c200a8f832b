"""ladder sass: what it reads in fixed listings and makes of them. Needs neither nvcc nor a build."""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT
from sass_code import code
from tools.machine_code import binary, identity, sass
from tools.machine_code.listing import Frame, SassError, matches, parse_instruction, parse_listing, relative

# ---- Parsing ---------------------------------------------------------------------------------------------

LISTING = """
\t.target\tsm_90a

//--------------------- .text._Z6helperv --------------------------
\t.section\t.text._Z6helperv,"ax",@progbits
_Z6helperv:
        /*0000*/                   RET.REL.NODEC R20 0x0 ;
//--------------------- .text._Z5sgemm4Gemm --------------------------
\t.section\t.text._Z5sgemm4Gemm,"ax",@progbits
\t.align\t128
        .other          _Z5sgemm4Gemm,@"STO_CUDA_ENTRY STV_DEFAULT"
_Z5sgemm4Gemm:
\t//## File "/x/build/../steps/09_async_copy/kernel.cu", line 55
        /*0000*/                   ULDC.64 UR10, c[0x0][0x210] ;
\t//## File "/usr/include/cuda.hpp", line 151 inlined at "/x/common/cuda/copy.hpp", line 25
\t//## File "/x/common/cuda/copy.hpp", line 25 inlined at "/x/steps/09_async_copy/kernel.cu", line 90
\t//## File "/x/steps/09_async_copy/kernel.cu", line 90 inlined at "/x/steps/09_a/k.cu", line 103
.L_x_1:
        /*0010*/               @P0 LDGSTS.E.BYPASS.128 [R33+0x5280], desc[UR4][R22.64+0x20], !P6 ;
        /*0020*/              @!PT LDS RZ, [RZ] ;
\t//## File "/x/steps/09_async_copy/kernel.cu", line 97
        /*0030*/                   FFMA R1, R68.reuse, R72, -R1 ;
        /*0040*/             @!UP1 UIADD3 UR4, UR4, 0x8, URZ ;
        /*0050*/               @P1 BRA `(.L_x_1) ;
.L_x_2:
        /*0060*/                   BRA `(.L_x_2);
        /*0070*/                   NOP;
.L_x_3:
//--------------------- .nv.shared._Z5sgemm4Gemm --------------------------
\t.section\t.nv.shared._Z5sgemm4Gemm,"aw",@nobits
"""


@pytest.fixture
def listing():
    return parse_listing(LISTING)["_Z5sgemm4Gemm"]


def test_functions(listing):
    assert set(parse_listing(LISTING)) == {"_Z6helperv", "_Z5sgemm4Gemm"}
    assert listing.is_kernel and not parse_listing(LISTING)["_Z6helperv"].is_kernel
    assert [i.offset for i in listing.instructions] == [0x10 * n for n in range(8)]


def test_parts_of_an_instruction(listing):
    first, copy, never, ffma, uniform, branch, *_ = listing.instructions
    assert (first.opcode, first.mnemonic, first.operands) == ("ULDC.64", "ULDC", ("UR10", "c[0x0][0x210]"))
    assert (copy.predicate, copy.opcode) == ("@P0", "LDGSTS.E.BYPASS.128")
    assert copy.operands == ("[R33+0x5280]", "desc[UR4][R22.64+0x20]", "!P6")
    assert never.never and not copy.never
    assert ffma.operands == ("R1", "R68.reuse", "R72", "-R1") and ffma.predicate is None
    assert (uniform.predicate, uniform.operands[0]) == ("@!UP1", "UR4")
    assert (branch.text, branch.target) == ("@P1 BRA 0x10", 0x10)


def test_source_lines(listing):
    """Inlined code counts for the innermost line in steps/, not for a helper's or the outermost."""
    first, copy, never, ffma, *_ = listing.instructions
    assert (first.frame.file, first.line) == ("steps/09_async_copy/kernel.cu", 55)
    assert (copy.frame.file, copy.line) == ("steps/09_async_copy/kernel.cu", 90)
    assert [f.line for f in copy.frames] == [151, 25, 90, 103]
    assert copy.frames[1] == Frame("common/cuda/copy.hpp", 25)
    assert never.frames == copy.frames  # the comment holds until the next
    assert ffma.line == 97 and len(ffma.frames) == 1
    elsewhere = replace(ffma, frames=(Frame("/a.hpp", 1), Frame("/tmp/kernel.cu", 2)))
    assert (elsewhere.frame.file, elsewhere.line) == ("/tmp/kernel.cu", 2)
    assert replace(ffma, frames=()).line is None


def test_relative():
    assert relative(f"{ROOT}/steps/x/kernel.cu") == "steps/x/kernel.cu"
    assert relative(f"{ROOT}/b/../tests/bugs/x.cu") == "tests/bugs/x.cu"
    assert relative("/home/steps/me/steps/x/kernel.cu") == "steps/x/kernel.cu"
    assert relative("/usr/include/vector") == "/usr/include/vector"


@pytest.mark.parametrize(
    "text, size",
    [
        ("LDS R4, [R2]", 4),
        ("LDS.64 R4, [R2]", 8),
        ("LDS.U.128 R4, [R2]", 16),
        ("LDG.E R4, [R2.64]", 4),
        ("LDG.E.128.CONSTANT R4, desc[UR4][R2.64]", 16),
        ("LDG.E.U8 R4, [R2.64]", 1),
        ("LDGSTS.E [R2], [R4.64]", 4),
        ("STG.E.64 [R2.64], R4", 8),
        ("LDSM.16.M88 R4, [R2]", 4),
        ("LDSM.16.M88.2 R4, [R2+UR4]", 8),
        ("LDSM.16.MT88.4 R4, [R2]", 16),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", None),
        ("FFMA R1, R2, R3, R1", None),
        ("IMAD.WIDE.U32 R2, R4, R5, R2", None),
    ],
)
def test_bytes(text, size):
    assert parse_instruction(text).bytes == size


@pytest.mark.parametrize(
    "text, yes, no",
    [
        ("LDS R4, [R2]", "LDS LDS.32", "LDS.128 LDS.64 LD S LDSM"),
        ("LDS.128 R4, [R2]", "LDS LDS.128", "LDS.32 LDS.64 LDS.12"),
        ("@P0 LDG.E.128 R4, [R2.64]", "LDG LDG.E LDG.128 LDG.E.128", "LDG.128.E LDG.32 LDGSTS LDG.E.64"),
        ("LDGSTS.E.BYPASS.128 [R2], [R4.64]", "LDGSTS LDGSTS.BYPASS LDGSTS.E.128", "LDG STS LDGSTS.32"),
        ("ISETP.GE.AND P0, PT, R1, R2, PT", "ISETP ISETP.GE", "ISETP.LT UISETP"),
        ("UISETP.GE.AND UP0, UPT, UR1, UR2, UPT", "UISETP", "ISETP"),
        ("@!PT LDS RZ, [RZ]", "", "LDS LDS.32"),
        ("FFMA R1, R2, R3, R1", "FFMA", "FFMA.32 FMA"),
        ("LDSM.16.M88.4 R4, [R2]", "LDSM LDSM.4 LDSM.16.M88", "LDS LDSM.MT88 LDSM.2"),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", "HMMA HMMA.TF32 HMMA.1688.TF32", "HMMA.BF16 MMA"),
    ],
)
def test_patterns(text, yes, no):
    instruction = parse_instruction(text)
    assert [p for p in yes.split() if not matches(instruction, p)] == []
    assert [p for p in no.split() if matches(instruction, p)] == []


def test_what_is_no_instruction():
    for text in ("", "hello", "LDS..128 R1, [R2]", "@P0"):
        with pytest.raises(SassError, match="no machine instruction"):
            parse_instruction(text)


@pytest.mark.parametrize(
    "full, short",
    [
        ("(anonymous namespace)::sgemm_naive(Gemm)", "sgemm_naive"),
        ("void _GLOBAL__N__81fb_7_unit_cu_60::sgemm_prefetch<true>(Gemm)", "sgemm_prefetch<true>"),
        ("void a::b::tile<128, (a::Mode)1>(float const*, Gemm)", "tile<128, (a::Mode)1>"),
        ("plain", "plain"),
    ],
)
def test_short_name(full, short):
    assert binary.short_name(full) == short


# ---- Words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("FFMA R1, R2.reuse, R3, R1", "R1 += R2 × R3"),
        ("FFMA R1, R2, R3, RZ", "R1 = R2 × R3"),
        (
            "HMMA.1688.F32.TF32 R4, R8.reuse, R12, R4",
            "R4–R7 += R8–R11 × R12–R13, matrices 16 × 8 and 8 × 8",
        ),
        ("HMMA.884.F32 R4, R8, R12, R4", ""),
        (
            "LDSM.16.M88.4 R8, [R2+0x400]",
            "R8–R11 = matrices of 8 rows of 16 bytes of shared memory, a row at R2 + 0x400",
        ),
        ("@!UP0 UTMALDG.3D [UR8], [UR6]", "if not UP0: asks TMA for a box of a matrix"),
        ("LDS.128 R68, [R32+0x80]", "R68–R71 = 16 bytes of shared memory at R32 + 0x80"),
        ("LDS R1, [R18.X4+-0x10]", "R1 = 4 bytes of shared memory at R18 × 4 - 0x10"),
        ("@!P3 LDG.E R4, desc[UR4][R2.64]", "if not P3: R4 = 4 bytes of global memory at R2–R3"),
        (
            "LDGSTS.E.BYPASS.128 [R8], [R2.64], !P6",
            "starts to copy 16 bytes of global memory at R2–R3 to shared memory at R8",
        ),
        ("DEPBAR.LE SB0, 0x3", "waits until at most 3 groups of copies are on their way"),
        ("IMAD.MOV.U32 R1, RZ, RZ, R2", "R1 = R2"),
        ("IMAD.WIDE.U32 R2, R4, c[0x0][0x160], R6", "R2–R3 = R4 × c[0x0][0x160] + R6–R7, 64 bits"),
        ("IADD3 R1, P0, -R2, R3, RZ", "R1 = -R2 + R3, carry to P0"),
        ("LEA.HI.X R7, R22, R25, R23, 0x2, P2", "R7 = R25 + the upper half of R22, shifted + carry"),
        ("LOP3.LUT R1, R2, 0x7, RZ, 0xc0, !PT", "R1 = R2 and 7"),
        ("ISETP.LT.AND P0, PT, R1, R2, !P3", "P0 = R1 < R2 and not P3"),
        ("S2R R0, SR_TID.X", "R0 = threadIdx.x"),
        ("CS2R R10, SRZ", "R10–R11 = 0"),
        ("@P0 BRA 0x1210", "if P0: goes on at 1210"),
        ("@!PT LDS RZ, [RZ]", "never executed: the compiler's filler"),
        (
            "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8].tnspB, R24",
            "starts a product of tiles in shared memory, described from UR8 on, added to R24 …",
        ),
        (
            "HGMMA.64x256x8.F32.TF32 R24, R152, gdesc[UR12], R24, UP0, gsb0",
            "starts a product of R152–R155 and a tile, described from UR12 on, added to R24 …",
        ),
        ("VOTEU.ANY UP0, P0", "UP0 = P0 in any lane"),
        ("WARPGROUP.DEPBAR.LE gsb0, 0x1", "waits until at most 1 groups of products are under way"),
        ("WGMMA.NOSUCH R1", ""),
        ("IMAD R1", ""),
        ("PRMT R5, R4, 0x654, R5", "R5 = four bytes chosen from R4 and R5"),
    ],
)
def test_words(text, words):
    assert sass.explain(parse_instruction(text)) == words


# ---- The same code ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("MOV R1, R2\nEXIT", "MOV R1, R2\nEXIT", ""),
        ("MOV R1, R2\nEXIT", "MOV R1, R3\nEXIT", "differs at 0: 'MOV R1, R2' was there, now 'MOV R1, R3'"),
        ("FADD R1, R2, 0x1\nEXIT", "FADD R1, R2, 0x2\nEXIT", "differs at 0"),  # a constant is no label
        ("MOV R1, R2\nEXIT", "MOV R1, R2", "differs at 10: 'EXIT' was there, now 'nothing'"),
        ("EXIT", "EXIT\nNOP", "differs at 10: 'nothing' was there, now 'NOP'"),
        ("@P0 BRA 0x10\nEXIT", "@P0 BRA 0x0\nEXIT", "differs at 0"),
        (*(f"CALL.REL `(_ZN39_GLOBAL__N__{n}_7_unit_cu_{n}3addEv)" for n in ("81fb7ee9", "a5f8da29")), ""),
        ("EXIT", "", "is only in the old build"),
        ("", "EXIT", "is only in the new build"),
    ],
)
def test_difference(old, new, said):
    same = {("sgemm_a", "sm_80"): ("", code("NOP"))}
    before, after = (
        same | ({("sgemm_b", "sm_90a"): ("8 registers", code(text))} if text else {}) for text in (old, new)
    )
    found = identity.difference(before, after)
    assert found.startswith(f"sgemm_b for sm_90a {said}") if said else found == ""
    if old and new:
        assert (identity.sass_sha256(code(old)) == identity.sass_sha256(code(new))) == (not said)
    more = same | {("sgemm_b", "sm_90a"): ("9 registers", code("EXIT"))}
    if old == "EXIT":
        assert identity.difference(before, more) == "sgemm_b for sm_90a took 8 registers; now 9 registers"


# ---- The command, without CUDA ---------------------------------------------------------------------------


def test_mistakes_without_cuda(refused, tool, tmp_path):
    refused("sass", tmp_path / "run", words=["there is no", "build it first"])
    (tmp_path / "text").write_text("hello")
    refused("sass", tmp_path / "text", words=["no machine code for a GPU", "setup.sh"])
    for arguments in (("--excerpt", "0"), ("--excerpt", "-1"), ("--shared", "x"), ("--shared", "-5")):
        result = tool("sass", "run", *arguments)
        assert result.returncode == 2 and arguments[1] in result.stderr.splitlines()[-1]


def test_missing_tools(monkeypatch, tmp_path):
    monkeypatch.setattr(binary, "places", lambda: [Path(tmp_path)])
    with pytest.raises(SassError, match=r"cuobjdump is missing: ./setup\.sh installs it"):
        sass.archs(Path(__file__))
