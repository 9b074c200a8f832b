// BF16 inputs in the plainest way: one thread computes one element of C, and every product is exact in float.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;

__global__ void gemm_naive_bf16(GemmBf16 g) {
  const bf16* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const bf16* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;       // [M][N]
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
  for (int k = 0; k < g.K; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void gemm(const GemmBf16& g) {
  launch(gemm_naive_bf16, dim3(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch), dim3(TILE, TILE), 0, g);
}

}  // namespace
