"""The exercises on tensor cores: a kernel in TF32 is graded by TF32's error, and who errs is told where."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from tools.grading.build import Toolchain
from tools.grading.content import Entry, entry_of, entry_of_step
from tools.grading.grader import Grader

OF_A = "quad + r % 2 * 8, k = k0 + t + r / 2 * 4"
ROW = "const int row = m + i * MM + lane % 16;"
PLACE = "a_place(row, k + lane / 16 * 4)"
A_SWIZZLE, B_SWIZZLE = "return k ^ row % 8 * 4;", "return col ^ k % 4 * 8;"
WAIT = "async_copy_wait<STAGES - 2>();"
ASK = "    copy_tiles((stage + STAGES - 1) % STAGES);\n"
# The exercise, what is other than in its solution, the finding's code, and a part of its words.
WRONG = {
    "rows and columns of A's registers exchanged": (
        "21_tensor_cores",
        [(OF_A, "quad + r / 2 * 8, k = k0 + t + r % 2 * 4")],
        "wrong result",
        "which element of A does mma_tf32() expect",
    ),
    "rows and columns of B's lanes exchanged": (
        "21_tensor_cores",
        [
            (
                "k = k0 + t + r * 4, col = col0 + j * MN + quad",
                "k = k0 + quad, col = col0 + j * MN + t + r * 4",
            )
        ],
        "wrong result",
        "which element of A does mma_tf32() expect",
    ),
    "not rounded": (
        "21_tensor_cores",
        [("to_tf32(row < g.M && k < g.K ?", "__float_as_uint(row < g.M && k < g.K ?")],
        "operand not rounded to TF32",
        "each element is rounded once",
    ),
    "four orders for eight rows": (
        "23_swizzle",
        [(A_SWIZZLE, "return k ^ row % 4 * 4;")],
        "goal",
        "A load of a fragment of A takes 1 wavefront",
    ),
    "groups of four in Bs": (
        "23_swizzle",
        [(B_SWIZZLE, "return col ^ k % 8 * 4;")],
        "goal",
        "A load of a fragment of B takes 1 wavefront",
    ),
    "two elements in one place": (
        "23_swizzle",
        [(A_SWIZZLE, "return k | row % 8 * 4;")],
        "data race on shared memory",
        "have two elements the same place?",
    ),
    "groups torn apart": (
        "23_swizzle",
        [(A_SWIZZLE, "return k ^ row % 8;")],
        "misaligned access",
        "which elements stay together",
    ),
    "padding": (
        "23_swizzle",
        [
            ("As[BM][BK];", "As[BM][BK + 4];"),
            ("Bs[BK][BN];", "Bs[BK][BN + 8];"),
            (A_SWIZZLE, "return k + 0 * row;"),
            (B_SWIZZLE, "return col + 0 * k;"),
        ],
        "goal",
        "The tiles take no more shared memory",
    ),
    "matrices in another order": (
        "25_ldmatrix",
        [
            (ROW, ROW.replace("lane % 16", "lane % 8 + lane / 16 * 8")),
            (PLACE, "a_place(row, k + lane / 8 % 2 * 4)"),
        ],
        "wrong result",
        "row 4 of matrix 1",
    ),
    "rows of the lanes that receive": (
        "25_ldmatrix",
        [(ROW, ROW.replace("lane % 16", "quad"))],
        "wrong result",
        "row 4 of matrix 1",
    ),
    "rows not looked for where they are": (
        "25_ldmatrix",
        [(PLACE, "k + lane / 16 * 4")],
        "wrong result",
        "what does a_place() say?",
    ),
    "waiting for everything": (
        "tiles_too_early",
        [(WAIT, "async_copy_wait<0>();")],
        "goal",
        "Copies are under way",
    ),
    "a stage less": (
        "tiles_too_early",
        [("STAGES = 4;", "STAGES = 3;")],
        "goal",
        "There are four stages",
    ),
    "copies before the barrier": (
        "tiles_too_early",
        [(ASK, ""), (f"    {WAIT}", f"{ASK}    async_copy_wait<STAGES - 1>();")],
        "data race on shared memory",
        "before it is filled again",
    ),
}
IN_MACHINE_CODE = ("padding",)


def changed(exercise, changes):
    source = exercise.solution.read_text()
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


@pytest.fixture(scope="module")
def findings(build, exercises):
    def grade(wrong):
        exercise = exercises[wrong[0]]
        return Grader(exercise, build, "cpu", seed=1).grade(changed(exercise, wrong[1]), "my/it.cu").finding

    has_nvcc = Toolchain(build, "21_tensor_cores").has_nvcc
    chosen = {name: wrong for name, wrong in WRONG.items() if has_nvcc or name not in IN_MACHINE_CODE}
    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(chosen, pool.map(grade, chosen.values()), strict=True))


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_told(wrong, findings):
    if wrong not in findings:
        pytest.skip("needs nvcc")
    finding, (_, _, code, words) = findings[wrong], WRONG[wrong]
    assert finding is not None, "it passes"
    assert finding.code == code, finding
    assert words in f"{finding.says} {finding.look}"


def test_each_exercise_is_tried_twice_at_least():
    tried = [name for name, *_ in WRONG.values()]
    assert all(tried.count(name) >= 2 for name in tried)


def test_the_name_of_the_entry_is_the_step_s(build, exercises):
    """Another name would grant another error."""
    exercise = exercises["21_tensor_cores"]
    assert entry_of_step(exercise.step) == Entry("gemm_tf32", "Gemm")
    source = changed(exercise, [("void gemm_tf32(", "void gemm_tf32_cut_off(")])
    assert entry_of(source) == Entry("gemm_tf32_cut_off", "Gemm")
    finding = Grader(exercise, build, "cpu", seed=1).grade(source, "my/it.cu").finding
    assert finding.code == "compile"
    assert "gemm_tf32" in finding.says
