#pragma once

// What a step includes: the problem (Gemm) and, on either device, launch().

#include "common/gemm.hpp"

#ifdef __CUDACC__
#include "common/cuda/launch.hpp"
#else
#include "common/cpu_device/cuda_on_cpu.hpp"
#endif

// How many tiles of b cover a elements; a >= 0, b > 0, a + b below 2^31.
__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
