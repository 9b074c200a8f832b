"""The library on a GPU: its example, and CuPy's and PyTorch's arrays where they are installed."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from conftest import BUILD, ROOT, command_of, error, gemm_fp32_tc, random, report

GPU = BUILD / "library/libgemm_fp32_tc.so"


def has_gpu() -> bool:
    smi = shutil.which("nvidia-smi")
    return smi is not None and subprocess.run([smi, "-L"], capture_output=True).returncode == 0


on_gpu = pytest.mark.skipif(not (GPU.exists() and has_gpu()), reason="no GPU, or a build without CUDA")


@on_gpu
def test_example_on_a_gpu(tmp_path):
    words = command_of("library/example.cpp", "nvcc")
    words[words.index("example")] = str(tmp_path / "example")
    subprocess.run(words, cwd=ROOT, check=True)
    run = subprocess.run([tmp_path / "example"], capture_output=True, text=True)
    assert run.stdout.startswith("GPU: largest error") and run.returncode == 0


@on_gpu
@pytest.mark.parametrize("of", ["cupy", "torch"])
def test_arrays_on_a_gpu(gemm, of):
    arrays = pytest.importorskip(of)
    to_gpu = arrays.asarray if of == "cupy" else lambda x: arrays.from_numpy(x).cuda()
    on_gpu = gemm_fp32_tc.Gemm(str(GPU))
    # C fits one wave of the CPU device's four SMs. In later waves every second tile walks k backwards, so how
    # many SMs there are decides in which order a larger C is summed.
    a, b = random(100, 500), random(500, 120)
    sparse = np.where(np.arange(500) % 50 == 0, a, 0).astype(np.float32)
    for left in (a, sparse):
        expected = gemm.matmul(left, b)
        for x in (to_gpu(left), to_gpu(np.ascontiguousarray(left.T)).T):
            for y in (to_gpu(b), to_gpu(np.ascontiguousarray(b.T)).T):
                c = on_gpu.matmul(x, y)
                assert np.array_equal(c.get() if of == "cupy" else c.cpu().numpy(), expected)
                assert report(on_gpu) == {"fast" if left is a else "few_terms": 2}


@on_gpu
def test_larger_matrices_on_a_gpu():
    """Several waves, in each order; refused parts beside others."""
    cupy = pytest.importorskip("cupy")
    on_gpu = gemm_fp32_tc.Gemm(str(GPU))
    a, b = random(1500, 1100), random(1100, 2052)
    a[400:900, 10:] = 0
    for x in (cupy.asarray(a), cupy.asarray(np.ascontiguousarray(a.T)).T):
        for y in (cupy.asarray(b), cupy.asarray(np.ascontiguousarray(b.T)).T):
            assert error(on_gpu.matmul(x, y).get(), a, b) < 1e-6
            assert report(on_gpu).keys() == {"fast", "few_terms"}


@on_gpu
def test_stream_and_graph():
    """Calls run in the handle's stream, behind what is in it, and a graph can capture them."""
    cupy = pytest.importorskip("cupy")
    a, b = random(300, 400), random(400, 260)
    stream = cupy.cuda.Stream(non_blocking=True)
    own = gemm_fp32_tc.Gemm(str(GPU), stream=stream.ptr)
    bytes_needed = ctypes.c_size_t()
    own.call("workspace_size", 260, 300, 400, 1, ctypes.byref(bytes_needed))
    with stream:
        memory = cupy.zeros(bytes_needed.value, cupy.uint8)
        own.call("set_workspace", own.handle, ctypes.c_void_p(memory.data.ptr), bytes_needed)
        large, on_its_way = cupy.ones((4096, 4096), cupy.float32), cupy.asarray(a)
        x, y, c = cupy.zeros((300, 400), cupy.float32), cupy.asarray(b), cupy.zeros((300, 260), cupy.float32)
        large @ large  # keeps the stream busy
        x[:] = on_its_way
        own.matmul(x, y, out=c)
        assert error(c.get(), a, b) < 1e-6
        stream.begin_capture()
        own.matmul(x, y, out=c)
        graph = stream.end_capture()
        for scale in (2, 3):
            x[:] = scale * on_its_way
            graph.launch(stream)
            assert error(c.get(), scale * a, b) < 1e-6
