"""Goals leave room: kernels that are made differently from the solutions, and are right, pass as well."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tools.grading.grader import Grader

# The exercise, what is other than in its solution, and a word for it.
VARIANTS = {
    "8 sums": ("04_1d_tiling", [("int TM = 16;", "int TM = 8;"), ("(THREADS, 4)", "(THREADS)")]),
    "wide block": (
        "04_1d_tiling",
        [("BM = 64, BN = 64,", "BM = 64, BN = 128,"), ("(THREADS, 4)", "(THREADS)")],
    ),
    "small block": ("05_2d_tiling", [("BM = 128, BN = 128,", "BM = 64, BN = 64,")]),
    "4 x 8 sums": ("05_2d_tiling", [("TM = 8, TN = 8;", "TM = 4, TN = 8;")]),
    "4 x 8 sums in vectors": (
        "06_vectorization",
        [("BM = 128, BN = 128,", "BM = 64, BN = 128,"), ("TM = 8, TN = 8;", "TM = 4, TN = 8;")],
    ),
    "few terms": ("06_vectorization", [("BN = 128, BK = 16;", "BN = 128, BK = 8;")]),
    "many terms": ("07_bank_conflicts", [("BN = 128, BK = 16;", "BN = 128, BK = 8;")]),
    "few terms of a warp's": ("08_warp_tiling", [("BN = 128, BK = 16;", "BN = 128, BK = 8;")]),
    "few terms copied": ("09_async_copy", [("BN = 128, BK = 16;", "BN = 128, BK = 8;")]),
    "constants in an enum": ("10_prefetch", [("constexpr int STAGES = 5;", "enum { STAGES = 5 };")]),
    "an indented constant": (
        "09_async_copy",
        [("constexpr int STAGES = 2;", "  static constexpr int STAGES{2};")],
    ),
    "tiles of float4": (
        "02_coalescing",
        [
            (
                "  float sum = 0.0f;",
                "  __shared__ float4 zeros[TILE][TILE];\n  zeros[threadIdx.y][threadIdx.x] = float4{};\n"
                "  float sum = zeros[threadIdx.y][threadIdx.x].x;",
            )
        ],
    ),
    "four stages": ("10_prefetch", [("STAGES = 5;", "STAGES = 4;")]),
    "three stages": ("10_prefetch", [("STAGES = 5;", "STAGES = 3;")]),
    "large tile": ("ragged_edges", [("TILE = 16;", "TILE = 32;")]),
    "large tile ahead": ("usually_right", [("TILE = 16;", "TILE = 32;")]),
    "no test beyond K": (
        "wrong_at_19",
        [("BM = 64, BN = 16, BK = 16;", "BM = 128, BN = 16, BK = 16;"), ("int TM = 4;", "int TM = 8;")],
    ),
    "an empty group": (
        "wrong_last_tile",
        [
            ("      async_copy_wait<1>();", "      //"),
            ("      async_copy_wait<0>();", "      async_copy_commit();"),
            (
                "    __syncthreads();  // ... and",
                "    async_copy_wait<1>();\n    __syncthreads();  // ... and",
            ),
        ],
    ),
    "macros": (
        "02_coalescing",
        [
            ("namespace {\n", "#define AT(x, i, j, ld) \\\n  x[(i) * (ld) + (j)]\nnamespace {\n"),
            ("A[row * g.lda + k]", "AT(A, row, k, g.lda)"),
        ],
    ),
    "words that are CUDA's": (
        "02_coalescing",
        [
            (
                "sum += A[row * g.lda + k] * B[k * g.ldb + col]",
                "sum = __fmaf_rn(__ldg(&A[row * g.lda + k]), __ldg(B + k * g.ldb + col), sum)",
            )
        ],
    ),
    "common names": (
        "02_coalescing",
        [
            ("int row = blockIdx.y", "int thread = threadIdx.y, row = blockIdx.y"),
            ("float sum = 0.0f;", "const int map = g.K, signal = 0, open = map;\n  float sum = signal;"),
            ("k < g.K", "k < open"),
        ],
    ),
}


@pytest.fixture(scope="module")
def grades(build, exercises):
    def grade(variant):
        name, changes = variant
        source = exercises[name].solution.read_text()
        for old, new in changes:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        return Grader(exercises[name], build, "cpu", seed=1).grade(source, "my/variant.cu")

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(VARIANTS, pool.map(grade, VARIANTS.values()), strict=True))


@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_passes(variant, grades):
    assert grades[variant].finding is None, grades[variant].finding
