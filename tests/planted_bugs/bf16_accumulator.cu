// bug: bf16_accumulator
// check: wrong result
// gpu: verify
// cases: --m 35 --n 79 --k 19
//
// Wrong     The sum is BF16, as A and B are: every addition rounds to 8 bits of significand.
// Seen      The products are exact in float and would stay nearly so there; the bound asks for no less.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;

__global__ void sgemm_bf16_accumulator(GemmBf16 g) {
  const bf16* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const bf16* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;       // [M][N]
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  bf16 sum(0.0f);
  for (int k = 0; k < g.K; ++k) {
    sum = bf16(sum + A[row * g.lda + k] * B[k * g.ldb + col]);
  }
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

void gemm(const GemmBf16& g) {
  launch(sgemm_bf16_accumulator, dim3(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch), dim3(TILE, TILE), 0,
         g);
}

}  // namespace
