"""The library as its users have it: from the command line, from C and from Python, on the CPU device."""

import ctypes
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import BUILD, CPU, ROOT, command_of, error, gemm_fp32_tc, random, report

INVALID_VALUE, NOT_SUPPORTED, ALLOC_FAILED = 1, 2, 3


# ---- Command lines -----------------------------------------------------------------------------------------


def test_example_on_the_cpu_device(tmp_path):
    words = command_of("library/example.cpp", "g++")
    words = [
        str(BUILD / word.removeprefix("build/")) if word.startswith("build/") else word for word in words
    ]
    words[words.index("example")] = str(tmp_path / "example")
    subprocess.run(words, cwd=ROOT, check=True)
    run = subprocess.run([tmp_path / "example"], capture_output=True, text=True, check=True)
    assert re.fullmatch(
        r"CPU device: largest error \S+ of \|A\|\|B\|; 6 of 6 parts by FP16 products\n", run.stdout
    )


def test_header_is_c(tmp_path):
    source = tmp_path / "uses.c"
    source.write_text(
        '#include "library/gemm_fp32_tc.h"\nint main(void) { return gemm_fp32_tc_destroy(0); }\n'
    )
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT}", "-fsyntax-only", source],
        check=True,
    )


# ---- From Python -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a_by_rows", [True, False])
@pytest.mark.parametrize("b_by_rows", [True, False])
@pytest.mark.parametrize(
    "shape", [(64, 128, 128), (32, 28, 128), (70, 131, 150), (5, 3, 20), (33, 1, 100), (1, 40, 97)]
)
def test_orders(gemm, shape, a_by_rows, b_by_rows):
    m, n, k = shape
    a = random(m, k) if a_by_rows else random(k, m).T
    b = random(k, n) if b_by_rows else random(n, k).T
    c = gemm.matmul(a, b)
    assert error(c, a, b) < 4e-7
    parts = -(-n // 128) * -(-m // 64)
    assert report(gemm) == {"fast" if k >= 96 else "short_k": parts}


def test_fallback_reads_both_orders(gemm):
    """A sparse matrix is multiplied in FP32, in each order. The bits are those of FP32 sums, one for each of
    four teams of threads: a team has every fourth tile of eight terms."""
    a, b = random(70, 150), random(150, 131)
    a[:, ::3] = 0
    a[:, 1::3] = 0
    a[:, 40:] = 0
    sums = np.zeros((4, 70, 131), np.float32)
    for k in range(150):  # an FMA: the product is exact in double
        products = np.outer(a[:, k].astype(np.float64), b[k])
        sums[k // 8 % 4] = (sums[k // 8 % 4] + products).astype(np.float32)
    expected = sum(sums, np.zeros((70, 131), np.float32))
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b)):
            assert np.array_equal(gemm.matmul(x, y), expected)
            assert report(gemm) == {"few_terms": 4}


def test_same_bits_in_every_order(gemm):
    a, b = random(100, 200), random(200, 90)
    results = [gemm.matmul(x, y) for x in (a, np.asfortranarray(a)) for y in (b, np.asfortranarray(b))]
    assert all(np.array_equal(results[0], c) for c in results)


def test_parts_of_larger_matrices(gemm):
    a, b, c = random(80, 300)[3:73, 5:205], random(300, 99)[100:, 1:98], np.full((75, 120), 7, np.float32)
    gemm.matmul(a, b, out=c[2:72, 4:101])
    assert error(c[2:72, 4:101], a, b) < 1e-7
    c[2:72, 4:101] = 7
    assert (c == 7).all()


def test_alpha_and_beta(gemm):
    a, b, c = random(40, 128), random(128, 30), random(40, 30)
    right = 2.5 * (a.astype(np.float64) @ b) - 0.5 * c
    got = gemm.matmul(a, b, out=c.copy(), alpha=2.5, beta=-0.5)
    assert np.allclose(got, right, rtol=0, atol=4e-5)
    got = gemm.matmul(a, b, out=np.full((40, 30), np.nan, np.float32))
    assert error(got, a, b) < 1e-6


def test_no_library_is_one_error(tmp_path):
    program = f"import gemm_fp32_tc\ngemm_fp32_tc.Gemm({str(tmp_path / 'none.so')!r})"
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "library", capture_output=True, text=True
    )
    assert "cannot open shared object file" in run.stderr and "Exception ignored" not in run.stderr


def test_what_is_refused_says_why(gemm):
    a, b = random(40, 128), random(128, 30)
    with pytest.raises(ValueError, match="give one"):
        gemm.matmul(a, b, beta=1)
    with pytest.raises(RuntimeError, match=r"sgemm: invalid value: .* leading dimension"):
        gemm.call("sgemm", gemm.handle, 0, 0, 5, 5, 5, *[None] * 8)
    with pytest.raises(ValueError, match="has no __array_interface__"):
        gemm.matmul(type("OnGpu", (), {"__cuda_array_interface__": a.__array_interface__})(), b)


def test_alpha_zero_reads_neither(gemm):
    a, c = np.full((40, 128), np.nan, np.float32), random(40, 30)
    assert np.array_equal(gemm.matmul(a, random(128, 30), out=c.copy(), alpha=0, beta=2), 2 * c)


def test_empty(gemm):
    assert gemm.matmul(random(0, 5), random(5, 3)).shape == (0, 3)
    assert np.array_equal(gemm.matmul(random(4, 0), random(0, 3)), np.zeros((4, 3), np.float32))


@pytest.mark.parametrize("accuracy", ["fast", "checked", "strict"])
def test_infinities_and_nans(accuracy):
    gemm = gemm_fp32_tc.Gemm(CPU, accuracy)
    a, b = random(70, 128), random(128, 140)
    a[3, 7], a[66, 9], b[9, 5], b[100, 139] = np.inf, -np.inf, 0, np.nan
    with np.errstate(invalid="ignore"):
        right = a.astype(np.float64) @ b
    c = gemm.matmul(a, b)
    assert np.array_equal(np.isnan(c), np.isnan(right))
    assert np.array_equal(c[np.isinf(right)], right[np.isinf(right)])
    assert np.isnan(c[66, 5]) and c[3, 0] == np.sign(b[7, 0]) * np.inf
    finite = np.isfinite(right)
    assert np.abs(c[finite] - right[finite]).max() < 1e-4
    assert set(report(gemm)) == ({"fast"} if accuracy == "fast" else {"special"})


def test_strict(gemm):
    a, b = random(64, 256), random(256, 128)
    a[a < 0] = 0
    b[b < 0] = 0
    gemm.matmul(a, b)
    assert report(gemm) == {"fast": 1}
    strict = gemm_fp32_tc.Gemm(CPU, "strict")
    strict.matmul(a, b)
    assert report(strict) == {"unproved": 1}


def test_dlpack(gemm):
    class OnlyDlpack:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    a, b = random(40, 128), random(128, 30)
    c = gemm.matmul(OnlyDlpack(a), OnlyDlpack(b), out=np.empty((40, 30), np.float32))
    assert error(c, a, b) < 1e-6


def test_wrong_arrays(gemm):
    with pytest.raises(ValueError, match="float32"):
        gemm.matmul(np.zeros((4, 4)), random(4, 4))
    with pytest.raises(ValueError, match="contiguous"):
        gemm.matmul(random(8, 8)[::2, ::2], random(4, 4))
    backwards, repeated = random(5, 1)[::-1], np.broadcast_to(random(1, 1), (5, 1))
    for column in backwards, repeated, backwards.T, np.broadcast_to(random(1, 8), (5, 8)):
        with pytest.raises(ValueError, match="one behind the other"):
            gemm.matmul(column, random(column.shape[1], 3))
    with pytest.raises(ValueError, match="one behind the other"):
        gemm.matmul(random(5, 2), random(2, 1), out=backwards)
    with pytest.raises(ValueError, match="4 x 5 times 6 x 7"):
        gemm.matmul(random(4, 5), random(6, 7))


# ---- The C interface ---------------------------------------------------------------------------------------


class Call:
    """The arguments of gemm_fp32_tc_sgemm_strided_batched, to be changed one by one."""

    def __init__(self, gemm, m=30, n=40, k=128, batch=3):
        self.gemm = gemm
        self.A, self.B = random(batch, k, m), random(batch, n, k)  # column-major
        self.C = np.zeros((batch, n, m), np.float32)
        self.alpha, self.beta = np.float32([1]), np.float32([0])
        a, b, c = (x.ctypes.data for x in (self.A, self.B, self.C))
        names = "transa transb m n k alpha A lda stridea B ldb strideb beta C ldc stridec batch"
        values = [0, 0, m, n, k, self.alpha.ctypes.data, a, m, m * k, b, k, n * k, self.beta.ctypes.data]
        self.args = dict(zip(names.split(), [*values, c, m, m * n, batch], strict=True))

    def __call__(self, handle=None, **changes) -> int:
        function = self.gemm.lib.gemm_fp32_tc_sgemm_strided_batched
        integer, pointer, wide = ctypes.c_int, ctypes.c_void_p, ctypes.c_int64
        function.argtypes = (pointer, *[integer] * 5, pointer, pointer, integer, wide, pointer, integer, wide)
        function.argtypes += (pointer, pointer, integer, wide, integer)
        return function(self.gemm.handle if handle is None else handle, *(self.args | changes).values())

    def right(self) -> bool:
        products = [error(c.T, a.T, b.T) for a, b, c in zip(self.A, self.B, self.C, strict=True)]
        return max(products) < 1e-6


def test_batch(gemm):
    call = Call(gemm)
    assert call() == 0 and call.right()
    assert report(gemm) == {"fast": 3}
    assert call(stridea=0) == 0  # one A for all
    call.A[1:] = call.A[0]
    assert call.right()


def test_operations_are_those_of_cublas(gemm):
    call = Call(gemm)
    call.A, call.B = (np.ascontiguousarray(x.transpose(0, 2, 1)) for x in (call.A, call.B))
    args = {"A": call.A.ctypes.data, "lda": 128, "B": call.B.ctypes.data, "ldb": 40}
    for operation in (1, 2):  # T, and C, which is the same in real numbers
        call.C[:] = 0
        assert call(transa=operation, transb=operation, **args) == 0
        call_rows = zip(call.A, call.B, call.C, strict=True)
        assert max(error(c.T, a, b) for a, b, c in call_rows) < 1e-6


@pytest.mark.parametrize(
    "changes",
    [
        *({name: -1} for name in ("m", "n", "k", "batch")),
        *({name: None} for name in ("alpha", "beta", "A", "B", "C")),
        {"transa": 3},
        {"lda": 29},
        {"ldb": 127},
        {"ldc": 29},
        {"transa": 1},  # A has 128 rows then
        {"transb": 1, "ldb": 39},
        {"handle": ctypes.c_void_p(0)},
    ],
)
def test_invalid_values(gemm, changes):
    call = Call(gemm)
    assert call(**changes) == INVALID_VALUE
    assert not call.C.any()


def test_too_large(gemm):
    call = Call(gemm)
    large = 2**31 - 1
    assert call(m=large, lda=large, ldc=large, n=large) == NOT_SUPPORTED


def test_workspace(gemm):
    own = gemm_fp32_tc.Gemm(CPU)
    call, bytes_needed = Call(own), ctypes.c_size_t()
    own.call("workspace_size", 30, 40, 128, 3, ctypes.byref(bytes_needed))
    memory = np.empty(bytes_needed.value + 512, np.uint8)
    offset = -memory.ctypes.data % 256
    end = offset + bytes_needed.value
    memory[:] = 5
    own.call(
        "set_workspace",
        own.handle,
        ctypes.c_void_p(memory.ctypes.data + offset),
        ctypes.c_size_t(end - offset),
    )
    assert call() == 0 and call.right()
    assert (memory[:offset] == 5).all() and (memory[end:] == 5).all()
    assert report(own) == {"fast": 3}
    assert call(batch=4, A=random(4, 128, 30).ctypes.data) == ALLOC_FAILED
    assert re.fullmatch(
        r"the workspace has \d+ bytes, the call needs \d+", own.lib.gemm_fp32_tc_message(own.handle).decode()
    )
    with pytest.raises(RuntimeError, match="invalid value"):
        own.call("set_workspace", own.handle, ctypes.c_void_p(memory.ctypes.data + offset + 4), 1)
    own.call("set_workspace", own.handle, None, ctypes.c_size_t(0))
    call.C[:] = 0
    assert call() == 0 and call.right()


def test_more_matrices_than_a_grid_has(gemm):
    call = Call(gemm, m=1, n=2, k=3, batch=40000)
    assert call() == 0
    assert np.allclose(call.C, call.B @ call.A, atol=1e-5)
    assert report(gemm) == {"short_k": 40000}


def test_devices(gemm):
    gemm.lib.gemm_fp32_tc_built_for.restype = ctypes.c_char_p
    assert gemm.lib.gemm_fp32_tc_built_for() == b"CPU device"
