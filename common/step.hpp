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

// Whether every row of A, B and C begins at a multiple of 16 bytes and is a multiple of 16 bytes long, so
// that accesses of 16 bytes fit. Matrices in memory from cudaMalloc need only have suitable sizes.
template <typename T>
inline bool is_aligned(const GemmOf<T>& g) {
  const auto multiple = [](auto n, auto... numbers) { return ((numbers % n == 0) && ...); };
  const auto address = [](const auto* p) { return reinterpret_cast<std::uintptr_t>(p) / sizeof *p; };
  constexpr int of_inputs = 16 / sizeof(T), of_c = 16 / sizeof(float);  // elements in 16 bytes
  return multiple(of_inputs, g.N, g.K, g.lda, g.ldb, g.strideA, g.strideB, address(g.A), address(g.B)) &&
         multiple(of_c, g.N, g.ldc, g.strideC, address(g.C));
}
