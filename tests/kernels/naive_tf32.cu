// TF32 in the plainest way: floats are rounded to 11 bits of significand, as cvt.rna does, and every product
// is exact in float. One thread computes one element of C.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;

// To the nearest, ties away from zero. An infinity and a NaN stay what they are.
__device__ float to_tf32(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  if ((bits & 0x7f800000) == 0x7f800000) return value;
  return __builtin_bit_cast(float, (bits + 0x1000) & ~0x1fffu);
}

__global__ void gemm_naive_tf32(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
  for (int k = 0; k < g.K; ++k) {
    sum += to_tf32(A[row * g.lda + k]) * to_tf32(B[k * g.ldb + col]);
  }
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void gemm_tf32(const Gemm& g) {
  launch(gemm_naive_tf32, dim3(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch), dim3(TILE, TILE), 0, g);
}

}  // namespace
