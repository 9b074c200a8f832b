"""matmul(a, b) by gemm_fp32_tc: for arrays of CuPy, PyTorch or others on a GPU, or NumPy's on the CPU device.

import gemm_fp32_tc
gemm = gemm_fp32_tc.Gemm("build/library/libgemm_fp32_tc.so")       # ..._cpu.so: no GPU needed
c = gemm.matmul(a, b)                                              # or matmul(a, b, out=c, alpha=1, beta=1)
"""

import ctypes
import importlib


class Gemm:
    def __init__(self, library: str, accuracy: str = "checked", stream: int = 0):
        self.handle = ctypes.c_void_p()
        self.lib = ctypes.CDLL(library)
        for name in ("message", "status_string", "built_for"):
            getattr(self.lib, "gemm_fp32_tc_" + name).restype = ctypes.c_char_p
        on_gpu = self.lib.gemm_fp32_tc_built_for() == b"GPU"
        self.interface = "__cuda_array_interface__" if on_gpu else "__array_interface__"
        self.call("create", ctypes.byref(self.handle))
        self.call("set_accuracy", self.handle, ["fast", "checked", "strict"].index(accuracy))
        self.call("set_stream", self.handle, ctypes.c_void_p(stream))

    def call(self, name, *args):
        if status := getattr(self.lib, "gemm_fp32_tc_" + name)(*args):
            said = self.lib.gemm_fp32_tc_status_string(status), self.lib.gemm_fp32_tc_message(self.handle)
            raise RuntimeError(f"{name}: {'; '.join(s.decode() for s in said if s)}")

    def view(self, x):
        """Rows, columns, address, leading dimension, whether rows are contiguous (else columns are)."""
        if not hasattr(x, "__cuda_array_interface__") and not hasattr(x, "__array_interface__"):
            x = importlib.import_module("cupy" if x.__dlpack_device__()[0] == 2 else "numpy").from_dlpack(x)
        if (of := getattr(x, self.interface, None)) is None:
            raise ValueError(f"{type(x).__name__} has no {self.interface}: is it on the library's device?")
        (rows, cols), strides = of["shape"], of.get("strides") or (4 * of["shape"][1], 4)
        by_rows = strides[1] == 4 or cols == 1
        contiguous = by_rows or strides[0] == 4 or rows == 1
        lines, length, apart = (rows, cols, strides[0]) if by_rows else (cols, rows, strides[1])
        if of["typestr"] != "<f4" or not contiguous or (lines > 1 and (apart % 4 or apart < 4 * length)):
            raise ValueError(
                "give float32 matrices whose rows or columns are contiguous, one behind the other"
            )
        ld = max(1, apart // 4 if lines > 1 else length)
        return rows, cols, ctypes.c_void_p(of["data"][0]), ld, by_rows

    def matmul(self, a, b, out=None, alpha=1.0, beta=0.0):
        (m, k, a_at, lda, a_rows), (k_of_b, n, b_at, ldb, b_rows) = self.view(a), self.view(b)
        if out is None:
            if beta != 0:
                raise ValueError("beta scales out: give one")
            of = importlib.import_module(type(a).__module__.split(".")[0])
            out = of.empty(
                (m, n), dtype=of.float32, **({"device": a.device} if of.__name__ == "torch" else {})
            )
        rows, cols, c_at, ldc, c_rows = self.view(out)
        if k != k_of_b or (rows, cols) != (m, n) or not c_rows:
            raise ValueError(f"{m} x {k} times {k_of_b} x {n} is no {rows} x {cols} in rows")
        one, two = ctypes.c_float(alpha), ctypes.c_float(beta)
        # In rows, C is what columns would be C^T = B^T A^T: B comes first.
        self.call(
            *("sgemm", self.handle, int(not b_rows), int(not a_rows), n, m, k),
            *(ctypes.byref(one), b_at, ldb, a_at, lda, ctypes.byref(two), c_at, ldc),
        )
        return out

    def __del__(self):
        if self.handle:
            self.lib.gemm_fp32_tc_destroy(self.handle)
