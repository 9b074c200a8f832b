"""Goals leave room: kernels that are made differently from the solutions, and are right, pass as well."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tools.grading.grader import Grader

REVERSED = "make_float4(sums[i + 3][j], sums[i + 2][j], sums[i + 1][j], sums[i][j])"
FFMAS_OF_11 = """for (int j = 0; j < TN; ++j) {
        for (int i = 0; i < TM; ++i) {
          const int row = j % 2 == 0 ? i : TM - 1 - i;
          sums[row][j] += a[k % 2][row] * b[k % 2][j];
        }
      }
"""
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
        [("TM = 8, TN = 8;", "TM = 4, TN = 8;"), ("int COPY_K = 8;", "int COPY_K = 16;")],
    ),
    "few terms": ("06_vectorization", [("BN = 128, BK = 16;", "BN = 128, BK = 8;")]),
    "many terms": ("07_bank_conflicts", [("BN = 128, BK = 16;", "BN = 128, BK = 32;")]),
    "few terms of a warp's": ("08_warp_tiling", [("BN = 128, BK = 16;", "BN = 128, BK = 8;")]),
    "lanes in pairs along the rows": (
        "08_warp_tiling",
        [
            (
                "lane_m = lane / (2 * LN) * 2 + lane % 2, lane_n = lane / 2 % LN;",
                "lane_m = lane / 2 % LM, lane_n = lane / (2 * LM) * 2 + lane % 2;",
            )
        ],
    ),
    "few terms copied": ("09_async_copy", [("BN = 128, BK = 16;", "BN = 128, BK = 8;")]),
    "constants in an enum": ("09_async_copy", [("constexpr int STAGES = 2;", "enum { STAGES = 2 };")]),
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
    "three stages": (
        "09_async_copy",
        [
            ("STAGES = 2;", "STAGES = 3;"),
            ("BN = 128, BK = 16;", "BN = 128, BK = 8;"),
            ("k0 += BK, stage ^= 1)", "k0 += BK, stage = (stage + 1) % STAGES)"),
            ("copy_tiles(stage ^ 1);", "copy_tiles((stage + 1) % STAGES);"),
        ],
    ),
    "few terms ahead": ("10_prefetch", [("BN = 128, BK = 16;", "BN = 128, BK = 8;")]),
    "nothing ahead of the end": (
        "10_prefetch",
        [
            (
                "load_fragments(0, k0 + BK < g.K ? stage ^ 1 : stage, 0);",
                "if (k0 + BK < g.K) load_fragments(0, stage ^ 1, 0);",
            )
        ],
    ),
    "zeros past the end": (
        "10_prefetch",
        [
            ("if (left > 0) copy_tiles(stage ^ 1);", "copy_tiles(stage ^ 1);"),
            ("load_fragments(0, k0 + BK < g.K ? stage ^ 1 : stage, 0);", "load_fragments(0, stage ^ 1, 0);"),
        ],
    ),
    "sets that begin at zero": (
        "10_prefetch",
        [("float a[2][TM], b[2][TN];", "float a[2][TM] = {}, b[2][TN] = {};")],
    ),
    "columns two by two": (
        "11_operand_banks",
        [
            (
                FFMAS_OF_11,
                "for (int j = 0; j < TN; j += 2) {\n"
                "  for (int i = 0; i < TM; ++i) sums[i][j] += a[k % 2][i] * b[k % 2][j];\n"
                "  for (int i = TM - 1; i >= 0; --i) sums[i][j + 1] += a[k % 2][i] * b[k % 2][j + 1];\n}\n",
            )
        ],
    ),
    "sums stored elsewhere": (
        "11_operand_banks",
        [("(j * TM + i) * THREADS + threadIdx.x * 4", "threadIdx.x * TM * TN + j * TM + i")],
    ),
    # The other orders in which each sum has another parity than its element of A.
    "sums swapped in pairs": (
        "11_operand_banks",
        [(REVERSED, "make_float4(sums[i + 1][j], sums[i][j], sums[i + 3][j], sums[i + 2][j])")],
    ),
    "sums moved up": (
        "11_operand_banks",
        [(REVERSED, "make_float4(sums[i + 3][j], sums[i][j], sums[i + 1][j], sums[i + 2][j])")],
    ),
    "sums moved down": (
        "11_operand_banks",
        [(REVERSED, "make_float4(sums[i + 1][j], sums[i + 2][j], sums[i + 3][j], sums[i][j])")],
    ),
    # Here the compiler finds registers as good by itself.
    "back and forth along the rows": (
        "11_operand_banks",
        [
            (
                FFMAS_OF_11,
                "for (int i = 0; i < TM; ++i) {\n  for (int j = 0; j < TN; ++j) {\n"
                "    const int col = i % 2 == 0 ? j : TN - 1 - j;\n"
                "    sums[i][col] += a[k % 2][i] * b[k % 2][col];\n  }\n}\n",
            ),
            ("if (g.batch < 0) {", "if (false) {"),
        ],
    ),
    "4 x 8 lanes": ("12_larger_tiles", [("LM = 2, LN = 16;", "LM = 4, LN = 8;")]),
    "lanes in pairs as in step 11": (
        "12_larger_tiles",
        [
            ("LM = 2, LN = 16;", "LM = 8, LN = 4;"),
            ("WM + lane / LN * 4;", "WM + (lane / (2 * LN) * 2 + lane % 2) * 4;"),
            ("WN + lane % LN * 4;", "WN + lane / 2 % LN * 4;"),
        ],
    ),
    "more terms": ("12_larger_tiles", [("BN = 256, BK = 8;", "BN = 256, BK = 16;")]),
    "loads where the compiler puts them": (
        "12_larger_tiles",
        [("= load4_now(&As[", "= float4_at(&As["), ("= load4_now(&Bs[", "= float4_at(&Bs[")],
    ),
    "registers not asked for": ("12_larger_tiles", [("if (g.batch < 0) {", "if (false) {")]),
    "tall tiles": (
        "12_larger_tiles",
        [("BM = 128, BN = 256,", "BM = 256, BN = 128,"), ("TM = 8, TN = 16;", "TM = 16, TN = 8;")],
    ),
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
    "terms in another order": (
        "21_tensor_cores",
        [
            ("k = k0 + t + r / 2 * 4;", "k = k0 + t * 2 + r / 2;"),
            ("k = k0 + t + r * 4,", "k = k0 + t * 2 + r,"),
        ],
    ),
    "groups turned in place of exchanged": (
        "23_swizzle",
        [
            ("return k ^ row % 8 * 4;", "return (k + row % 8 * 4) % BK;"),
            ("return col ^ k % 4 * 8;", "return (col + k % 4 * 8) % BN;"),
        ],
    ),
    "matrices in another order, registers likewise": (
        "25_ldmatrix",
        [
            ("m + i * MM + lane % 16;", "m + i * MM + lane % 8 + lane / 16 * 8;"),
            ("k + lane / 16 * 4)", "k + lane / 8 % 2 * 4)"),
            (
                "for (int r = 0; r < 4; ++r) a[i][r] = to_tf32(__uint_as_float(a[i][r]));",
                "const std::uint32_t second = a[i][1];\n        a[i][1] = a[i][2], a[i][2] = second;\n"
                "        for (int r = 0; r < 4; ++r) a[i][r] = to_tf32(__uint_as_float(a[i][r]));",
            ),
        ],
    ),
    "groups closed before the wait": (
        "tiles_too_early",
        [
            (
                "    async_copy_wait<STAGES - 2>();",
                "    async_copy_commit();\n    async_copy_wait<2 * STAGES - 3>();",
            ),
            (
                "stage < STAGES - 1; ++stage) copy_tiles(stage);",
                "stage < STAGES - 1; ++stage) {\n"
                "    copy_tiles(stage);\n    if (stage < STAGES - 2) async_copy_commit();\n  }",
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
