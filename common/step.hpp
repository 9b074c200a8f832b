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

// Whether every row of A, B and C begins at a multiple of 16 bytes and is a multiple of 4 elements long, so
// that float4 accesses fit. Matrices in memory from cudaMalloc need only have suitable sizes.
inline bool is_aligned(const Gemm& g) {
  const auto multiple = [](auto... numbers) { return ((numbers % 4 == 0) && ...); };
  const auto address = [](const float* p) { return reinterpret_cast<std::uintptr_t>(p) / sizeof(float); };
  return multiple(g.N, g.K, g.lda, g.ldb, g.ldc, g.strideA, g.strideB, g.strideC, address(g.A), address(g.B),
                  address(g.C));
}
