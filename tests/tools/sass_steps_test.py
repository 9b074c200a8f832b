"""ladder sass: what it reads in the steps as built. What is so in each step, its claims.toml says.

Skipped where the build has no CUDA.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from tools.kernel_build import KernelBuild
from tools.machine_code import binary, sass
from tools.machine_code.architectures import steps_with_kernels
from tools.machine_code.listing import SassError
from tools.machine_code.occupancies import LIMITS, occupancy
from tools.measuring import experiment

BUILD = Path(os.environ.get("BUILD", "."))


# ---- The steps as built ----------------------------------------------------------------------------------


def program(step):
    return BUILD / "steps" / step / "run"


@pytest.fixture(scope="module")
def built():
    """The architectures in the build."""
    if "BUILD" not in os.environ:
        pytest.skip("BUILD names no build directory")
    found = sass.archs(program("01_naive"))
    if not found:
        pytest.skip("the build has no CUDA")
    if not sass.archs(program("12_larger_tiles")):
        pytest.skip("the build is for GPUs before 8.0, and has no code of steps from 09 on")
    return found


def kernels_everywhere(built):
    for step in sorted(path.name for path in (BUILD / "steps").glob("[0-9]*")):
        for arch in sass.archs(program(step)):
            for kernel in sass.kernels(program(step), arch):
                yield step, kernel


# As their pages say: outside of the loop, where threads store C themselves; in a splitting pass.
SPILL = (
    "35_persistent gemm_persistent<true>",
    "38_every_shape_bf16 gemm_tiles<_::tiles::Shape<128, 256, 3, 4>, 1, (_::tiles::Storing)2, 1>",
    "46_guard gemm_split<false>",
    "47_every_shape split_lines<_::splitting::Medium, false, true>",
    "47_every_shape split_lines<_::splitting::Other, ",
)


def test_every_step(built):
    """What holds for every kernel of the ladder, on every architecture."""
    needs = {}
    for step, kernel in kernels_everywhere(built):
        if step not in needs:
            needs[step] = KernelBuild(BUILD, step).needs
        where = f"{step} {kernel.name} {kernel.arch}"
        assert needs[step].allow(kernel.arch), where
        spills = where.startswith(SPILL)
        assert spills or (kernel.local_bytes, kernel.stack_bytes) == (0, 0), where
        if "gemm_" not in kernel.name:
            continue  # it packs or adds up
        assert kernel.loop is not None, where
        assert spills or (kernel.count("LDL"), kernel.count("STL")) == (0, 0), where
        assert not {"LDL", "STL"} & {i.mnemonic for i in kernel.loop.instructions}, where
        assert kernel.threads_per_block in (64, 128, 192, 256, 384, 1024), where
        assert kernel.occupancy().warps >= 8, where
        sources = [p.read_text() for p in (ROOT / "steps" / step).iterdir() if p.suffix in (".cu", ".hpp")]
        on_tensor_cores = "fp32" not in kernel.name and any("mma_" in source for source in sources)
        assert kernel.loop.on_tensor_cores == on_tensor_cores, where
        products = (i for i in kernel.loop.instructions if i.mnemonic == kernel.loop.products)
        assert all(i.frame.file.startswith(f"steps/{step}/") for i in products), where
        assert all(sass.explain(i) for i in kernel.loop.instructions), where
        if not kernel.loop.on_tensor_cores:
            assert 0.1 < kernel.loop.predicted_tflops_fraction <= kernel.loop.issue_bound <= 1, where
            assert 0 <= kernel.loop.reuse_share < 1, where
        elif kernel.arch == "sm_90a" and kernel.loop.products == "HMMA":  # measured there alone
            assert 0.4 < kernel.loop.issue_bound <= 1, where
    if "sm_90a" in built:
        assert needs.keys() == set(steps_with_kernels())


def test_every_instruction_is_read(built):
    """Against the other disassembler's plain listing."""
    listing = subprocess.run(
        [binary.find_tool("cuobjdump"), "-sass", program("12_larger_tiles")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected: dict[str, list[str]] = {}
    for part in re.split(r"\n\s*code for ", listing)[1:]:
        arch = part.split()[0]
        for function in part.split("Function : ")[1:]:
            if "sgemm" in function.split("\n")[0]:
                opcodes = re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@\S+\s+)?([A-Z][A-Z0-9_.]*)", function)
                expected.setdefault(arch, []).append(opcodes)
    for arch in built:
        got = [
            [i.opcode for i in kernel.instructions]
            for kernel in sass.kernels(program("12_larger_tiles"), arch)
        ]
        assert sorted(got) == sorted(expected[arch])


def test_report_of_a_step_on_tensor_cores(tool, built):
    path = program("25_ldmatrix")
    said = tool("sass", path, "--kernel", "true", "--arch", built[-1], "--excerpt", 400).stdout
    assert re.search(r"  HMMA {13}64, \d+\.\d % of the issue slots", said)
    assert re.search(r"  per HMMA {9}\d\.\d\d issue slots\n", said)
    assert "bank conflicts" not in said and "matrices 16 × 8 and 8 × 8" in said
    if built[-1] == "sm_90a":
        assert re.search(r"at best .* % of the tensor cores' pace .* 6\.\d\d cycles \(measured\)", said)
    if "sm_80" in built:
        said = tool("sass", path, "--arch", "sm_80").stdout
        assert "at best          unknown: how long HMMA.1688.F32.TF32 takes on sm_80 was not measured" in said


def test_what_an_experiment_records_of_a_loop(built):
    """Nothing by the model of register banks where HMMAs multiply."""
    record = experiment.machine_code(program("25_ldmatrix"))
    assert (record["loop_hmma"], record["loop_ffma"]) == (64, 0)
    assert record["loop_bank_conflicts"] is record["predicted_fraction"] is None
    record = experiment.machine_code(program("12_larger_tiles"))
    assert record["loop_hmma"] == 0 and record["loop_bank_conflicts"] >= 0 < record["predicted_fraction"]


OCCUPANCY = r"""
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include "cuda_occupancy.h"

// Arguments: major minor warps shared_of_sm shared_of_block reserved; prints blocks for each combination.
int main(int, char** v) {
  const auto number = [&](int i) { return std::atoi(v[i]); };
  cudaOccDeviceProp sm;
  sm.computeMajor = number(1), sm.computeMinor = number(2);
  sm.maxThreadsPerBlock = 1024, sm.maxThreadsPerMultiprocessor = number(3) * 32;
  sm.regsPerBlock = sm.regsPerMultiprocessor = 65536, sm.warpSize = 32, sm.numSms = 1;
  sm.sharedMemPerBlock = 48 << 10, sm.sharedMemPerMultiprocessor = number(4);
  sm.sharedMemPerBlockOptin = number(5), sm.reservedSharedMemPerBlock = number(6);
  cudaOccDeviceState state;
  state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
  for (int registers : {16, 32, 40, 65, 96, 128, 133, 168, 207, 255}) {
    for (int shared : {0, 100, 8192, 33 << 10, 41 << 10, 60 << 10, 99 << 10, 163 << 10}) {
      for (int threads : {1, 32, 96, 128, 160, 256, 512, 1000, 1024}) {
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers, kernel.sharedSizeBytes = 0;
        kernel.partitionedGCConfig = PARTITIONED_GC_OFF, kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        kernel.maxDynamicSharedSizeBytes = number(5), kernel.numBlockBarriers = 1;
        cudaOccResult result;
        const auto status =
            cudaOccMaxActiveBlocksPerMultiprocessor(&result, &sm, &kernel, &state, threads, shared);
        std::printf("%d %d %d %d\n", registers, shared, threads,
                    status == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -1);
      }
    }
  }
}
"""


def test_occupancy_is_that_of_the_toolkit(built, tmp_path):
    """The same numbers as NVIDIA's header computes for the same limits."""
    nvcc = KernelBuild(BUILD, "01_naive").units["gpu"][0]
    include = Path(shutil.which(nvcc) or nvcc).resolve().parents[1] / "include"
    if not (include / "cuda_occupancy.h").exists():
        pytest.skip("no cuda_occupancy.h beside nvcc")
    (tmp_path / "main.cpp").write_text(OCCUPANCY)
    subprocess.run(
        ["c++", "-std=c++17", "-w", "-I", include, "main.cpp", "-o", "main"], cwd=tmp_path, check=True
    )
    compared = 0
    for capability, limits in LIMITS.items():
        shared = [limits.shared_bytes, limits.shared_bytes_per_block, limits.reserved_bytes]
        arguments = [capability // 10, capability % 10, limits.warps, *shared]
        result = subprocess.run(
            [tmp_path / "main", *map(str, arguments)], capture_output=True, text=True, check=True
        )
        for line in result.stdout.splitlines():
            registers, shared_bytes, threads, blocks = map(int, line.split())
            try:
                ours = occupancy(f"sm_{capability}", registers, shared_bytes, threads).blocks
            except SassError:
                ours = 0
            assert ours == blocks, f"sm_{capability}: {line}"
            compared += 1
    assert compared == len(LIMITS) * 10 * 8 * 9


# ---- The command -----------------------------------------------------------------------------------------


def test_report_and_excerpt(tool, built):
    result = tool("sass", program("05_2d_tiling"), "--excerpt", 5)
    assert result.returncode == 0 and result.stderr == ""
    (kernel,) = sass.kernels(program("05_2d_tiling"), sass.default_arch(sass.archs(program("05_2d_tiling"))))
    assert result.stdout.startswith(f"sgemm_2d_tiling, {kernel.arch}: {len(kernel.instructions)} instr")
    assert f"{kernel.registers} registers" in result.stdout
    assert "steps/05_2d_tiling/kernel.cu:" in result.stdout
    lines = result.stdout.splitlines()
    assert lines[-1] == f"  ... {len(kernel.loop.instructions) - 5} more"
    for line, i in zip(lines[-6:-1], kernel.loop.instructions, strict=False):
        assert (
            line.split()[:2] == [f"{i.offset:x}", str(i.line)] and i.text in line and sass.explain(i) in line
        )


def test_kernels_can_be_chosen(tool, built):
    path = program("12_larger_tiles")
    result = tool("sass", path, "--kernel", "<true>", "--arch", built[0], "--shared", 50000)
    assert result.stdout.count("sgemm_larger_tiles<") == 1
    assert f"sgemm_larger_tiles<true>, {built[0]}" in result.stdout
    assert "not counted" not in result.stdout
    assert "not counted: --shared" in tool("sass", path).stdout


def test_mistakes(refused, built):
    path = program("12_larger_tiles")
    names = "sgemm_larger_tiles<false>, sgemm_larger_tiles<true>"
    refused("sass", path, "--arch", "sm_61", words=["no machine code for sm_61", *built, "-Dgpu_arch=", "61"])
    refused("sass", path, "--kernel", "nope", words=["'nope'", names])
    refused("sass", path, "--kernel", "(", words=["no regular expression"])
    refused("sass", program("00_cublas"), words=["no kernel of its own"])
    refused("sass", path, "--shared", 999999, words=["cannot have 999999 bytes"])


def test_same_code(tool, refused, built, tmp_path):
    for build, steps in {"one": (1, 4), "same": (1, 4), "other": (1, 5)}.items():
        for name, step in zip(("01_naive", "04_1d_tiling"), steps, strict=True):
            (tmp_path / build / "steps" / name).mkdir(parents=True)
            source = next(BUILD.resolve().glob(f"steps/{step:02}_*/run"))
            (tmp_path / build / "steps" / name / "run").symlink_to(source)
    result = tool("same-code", "one", "same")
    archs = ", ".join(built)
    said = [f"01_naive: the same, {archs}", f"04_1d_tiling: the same, {archs}", "all the same"]
    assert (result.returncode, result.stdout.splitlines(), result.stderr) == (0, said, "")
    result = tool("same-code", "one", "other")
    assert result.returncode == 1
    assert result.stdout.splitlines()[0] == said[0]
    assert "04_1d_tiling: sgemm_1d_tiling for sm_" in result.stdout and "only in the old" in result.stdout
    assert result.stdout.endswith("\n1 of 2 programs differ\n")
    refused("same-code", "one", "none", words=["none has no step with machine code"])


def test_main_kernel(built):
    """Of several kernels the one that the claims and the experiments are about."""
    if "sm_90a" not in built:
        pytest.skip("the steps with several kernels are built for sm_90a only")
    names = {
        "12_larger_tiles": "sgemm_larger_tiles<true>",
        "13_bulk_copy": "sgemm_bulk_copy<true>",
        "14_stream_k": "sgemm_stream_k<true>",
        "15_every_shape": "sgemm_large_tiles<false, true>",
        "38_every_shape_bf16": "gemm_tiles<_::tiles::Shape<128, 256, 3, 4>, 1, (_::tiles::Storing)0, 1>",
    }
    for step, name in names.items():
        assert sass.main_kernel(sass.kernels(program(step), "sm_90a")).name == name
