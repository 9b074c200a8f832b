"""Goals ask for the idea: kernels that are right and lack it, or a part of it, do not pass and are told."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tools.grading.build import Toolchain
from tools.grading.grader import Grader

AHEAD = """      if (k + 1 < BK) {
        load_fragments((k + 1) % 2, stage, k + 1);
      } else {
        async_copy_wait<0>();  // this thread's part of the next tiles has arrived ...
        __syncthreads();       // ... everybody's has, and nobody needs those of `stage` any more
        load_fragments(0, k0 + BK < g.K ? stage ^ 1 : stage, 0);  // at the end anything will do
      }
"""
NOT_AHEAD = """      load_fragments(k % 2, stage, k);
      if (k + 1 == BK) {
        async_copy_wait<0>();
        __syncthreads();
      }
"""
REVERSED = "make_float4(sums[i + 3][j], sums[i + 2][j], sums[i + 1][j], sums[i][j])"

# The exercise, what is other than in its solution, and how the goal begins that it misses.
LACKING = {
    "narrow loads of As": (
        "06_vectorization",
        [
            (
                "for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[k][ty * TM + i]);",
                "for (int i = 0; i < TM; ++i) a[i] = As[k][ty * TM + i];",
            )
        ],
        "The tiles are read 16 bytes",
    ),
    "no padding": ("07_bank_conflicts", [("int PAD = 4;", "int PAD = 0;")], "A store to As takes 1"),
    "too much padding": ("07_bank_conflicts", [("int PAD = 4;", "int PAD = 8;")], "A store to As takes 1"),
    "columns side by side": (
        "07_bank_conflicts",
        [
            ("float4_at(&Bs[k][tx * 4 + spread(j, BN / 2)])", "float4_at(&Bs[k][tx * TN + j])"),
            ("col = tx * 4 + spread(j, BN / 2);", "col = tx * TN + j;"),
        ],
        "A load of Bs, 16 bytes a lane",
    ),
    "lanes numbered along the rows": (
        "08_warp_tiling",
        [
            (
                "lane_m = lane / (2 * LN) * 2 + lane % 2, lane_n = lane / 2 % LN;",
                "lane_m = lane / LN, lane_n = lane % LN;",
            )
        ],
        "A load of 16 bytes a lane takes 2 wavefronts",
    ),
    "A through registers": (
        "09_async_copy",
        [
            (
                "async_copy<4>(&As[stage][a_k + k][row], a_from + i * a_step + k, "
                "row < rows && a_k + k < left)",
                "As[stage][a_k + k][row] = row < rows && a_k + k < left ? a_from[i * a_step + k] : 0.0f",
            )
        ],
        "No tile goes through registers",
    ),
    "waiting at once": (
        "09_async_copy",
        [
            (
                "    if (left > 0) copy_tiles(stage ^ 1);\n",
                "    if (left > 0) copy_tiles(stage ^ 1);\n    async_copy_wait<0>();\n",
            )
        ],
        "Copies are under way",
    ),
    "8 x 8 sums": (
        "12_larger_tiles",
        [("BM = 128, BN = 256,", "BM = 128, BN = 128,"), ("TM = 8, TN = 16;", "TM = 8, TN = 8;")],
        "6 loads from shared memory serve 128",
    ),
    "8 x 16 sums in the old tile": (
        "12_larger_tiles",
        [("BM = 128, BN = 256,", "BM = 128, BN = 128,"), ("LM = 2, LN = 16;", "LM = 4, LN = 8;")],
        "Blocks copy three quarters",
    ),
}
LACKING_IN_MACHINE_CODE = {
    "rows that are no constant": (
        "05_2d_tiling",
        [
            (
                "    for (int j = 0; j < TN; ++j) {\n      const int row",
                "#pragma unroll 1\n    for (int j = 0; j < TN; ++j) {\n      const int row",
            )
        ],
        "The 64 sums stay in registers",
    ),
    "fragments not ahead": (
        "10_prefetch",
        [(AHEAD, NOT_AHEAD), ("  load_fragments(0, 0, 0);\n", "")],
        "The first fragments are loaded before the main loop",
    ),
    "fragments ahead of the loop only": (
        "10_prefetch",
        [(AHEAD, NOT_AHEAD)],
        "The first fragments are loaded before the main loop",
    ),
    "a set that only shows at run time": (
        "10_prefetch",
        [("load_fragments((k + 1) % 2, ", "load_fragments((k + 1 + g.batch / 99999) % 2, ")],
        "The first fragments are loaded before the main loop",
    ),
    "down every column": (
        "11_operand_banks",
        [("const int row = j % 2 == 0 ? i : TM - 1 - i;", "const int row = i;")],
        "The FFMAs share operands",
    ),
    "no registers asked for": (
        "11_operand_banks",
        [("  if (g.batch < 0) {", "  if (false) {")],
        "Operands arrive in time",
    ),
    "sums of the same parity": (
        "11_operand_banks",
        [(REVERSED, "make_float4(sums[i][j], sums[i + 1][j], sums[i + 2][j], sums[i + 3][j])")],
        "Operands arrive in time",
    ),
    "two blocks to an SM": (
        "12_larger_tiles",
        [("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 2)")],
        "The sums and both sets of fragments are in registers",
    ),
}
ALL = LACKING | LACKING_IN_MACHINE_CODE


@pytest.fixture(scope="module")
def grades(build, exercises):
    """The findings, each by the kernel's name; those in the machine code only where there is nvcc."""

    def grade(lacking):
        name, changes, _ = lacking
        source = exercises[name].solution.read_text()
        for old, new in changes:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        return Grader(exercises[name], build, "cpu", seed=1).grade(source, "my/it.cu").finding

    chosen = ALL if Toolchain(build, "05_2d_tiling").has_nvcc else LACKING
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(chosen, pool.map(grade, chosen.values()), strict=True))


@pytest.mark.parametrize("lacking", ALL)
def test_the_idea_is_asked_for(lacking, grades):
    if lacking not in grades:
        pytest.skip("needs nvcc")
    finding = grades[lacking]
    assert finding is not None, "it passes"
    assert finding.code == "goal", finding
    assert finding.says.startswith(f"Right, but not there yet: {ALL[lacking][2]}"), finding


def test_each_rung_from_06_on_is_tried():
    """With nvcc: 10 and 11 change nothing that the X-ray sees."""
    assert {name[:2] for name, _, _ in ALL.values()} >= {f"{n:02}" for n in range(6, 13)}
