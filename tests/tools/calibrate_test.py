"""ladder calibrate: what it makes of a record and an X-ray, both made up. Needs no build."""

import pytest
from tools.measuring import calibrate
from tools.measuring.calibrate import Key

LINE = 87


def of_gpu(*instructions):
    """From (text, warps, lanes in all, wavefronts, ideal)."""
    names = ("sass", "executed", "thread_executed", "wavefronts", "ideal_wavefronts")
    items = [{"line": LINE, **dict(zip(names, i, strict=True))} for i in instructions]
    return calibrate.of_gpu({"instructions": items})


def row(operation, requests, lanes, wavefronts, ideal, bytes=16, space="shared"):
    more = {"wavefronts": wavefronts, "ideal_wavefronts": ideal, "sectors": 0}
    return {
        **{"line": LINE, "space": space, "operation": operation, "bytes": bytes},
        **{"requests": requests, "lanes": lanes, **more},
    }


def of_cpu(*rows, kernel="gemm_x<true>", wanted="gemm_x<true>"):
    others = [{"kernel": "packing::copy<true>", "accesses": [row("load", 9, 288, 9, 9)]}]
    return calibrate.of_cpu({"xray": {"kernels": [*others, {"kernel": kernel, "accesses": rows}]}}, wanted)


def outcome(gpu, cpu):
    return calibrate.compare("25_ldmatrix", "256x256x128", gpu, cpu, [], lambda _: None)


@pytest.mark.parametrize("count, suffix", [(1, ""), (2, ".2"), (4, ".4")])
def test_ldmatrix(count, suffix):
    """Of so many matrices: 128 bytes each, in eight rows, whose places a lane each says. The GPU counts 32
    lanes, all of which load; the CPU device those that give an address."""
    warps = 10
    gpu = of_gpu((f"LDSM.16.M88{suffix} R8, [R2]", warps, 32 * warps, count * warps, count * warps))
    cpu = of_cpu(row("ldmatrix", warps, 8 * count * warps, count * warps, count * warps))
    assert gpu.keys() == cpu.keys() == {Key(LINE, "shared", "ldmatrix", 16)}
    assert gpu[Key(LINE, "shared", "ldmatrix", 16)]["bytes"] == 128 * count * warps
    found = outcome(gpu, cpu)
    assert (found.equal, found.wrong) == (1, [])


@pytest.mark.parametrize(
    "changed, words",
    [
        (row("ldmatrix", 10, 320, 80, 40), "80 wavefronts"),
        (row("ldmatrix", 9, 320, 40, 40), "9 requests"),
        (row("ldmatrix", 10, 160, 40, 40), "10 requests"),  # half of the bytes
        (row("load", 10, 320, 40, 40), "0 requests"),  # not by ldmatrix
    ],
)
def test_ldmatrix_that_differs(changed, words):
    gpu = of_gpu(("LDSM.16.M88.4 R8, [R2]", 10, 320, 40, 40))
    found = outcome(gpu, of_cpu(changed))
    assert found.equal == 0 and any("ldmatrix" in line and words in line for line in found.wrong)


def test_loads_beside_ldmatrix_on_a_line():
    gpu = of_gpu(
        ("LDSM.16.M88.4 R8, [R2]", 1, 32, 4, 4),
        ("LDS.128 R8, [R2]", 1, 32, 4, 4),
        ("LDS.64 R8, [R2]", 1, 32, 2, 2),
        ("HMMA.1688.F32.TF32 R4, R8, R12, R4", 1, 32, 0, 0),
    )
    rows = [row("ldmatrix", 1, 32, 4, 4), row("load", 1, 32, 4, 4), row("load", 1, 32, 2, 2, bytes=8)]
    found = outcome(gpu, of_cpu(*rows))
    assert (found.equal, found.wrong) == (3, [])


def test_the_profiled_kernel_of_several():
    """Others that the step launches were not profiled; a name that none has leaves nothing that agrees."""
    gpu = of_gpu(("LDS.128 R8, [R2]", 1, 32, 4, 4))
    rows = [row("load", 1, 32, 4, 4)]
    assert outcome(gpu, of_cpu(*rows)).wrong == []
    assert outcome(gpu, of_cpu(*rows, kernel="tiles::gemm_x<true>")).wrong == []
    assert len(outcome(gpu, of_cpu(*rows, wanted="gemm_x<false>")).wrong) == 1


def test_copies_by_tma_are_not_compared():
    """No lane makes them, and Nsight Compute counts nothing for their instructions."""
    gpu = of_gpu(("UTMALDG.3D [UR8], [UR6]", 1, 1, 0, 0))
    copies = [row("copy", 4, 0, 512, 512, bytes=16384), row("copy", 4, 0, 0, 0, bytes=16384, space="global")]
    assert outcome(gpu, of_cpu(*copies)).wrong == []
    assert len(outcome(gpu, of_cpu(row("copy", 4, 128, 16, 16))).wrong) == 1  # cp.async, though, is
