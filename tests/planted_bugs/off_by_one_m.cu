// bug: off_by_one_m
// check: out-of-bounds access to global memory
// place: sum += A[row * g.lda + k] * B[k * g.ldb + col];
// check: out-of-bounds access to global memory
// place: c = g.beta == 0.0f
// gpu: verify
// cases: --m 35 --n 79 --k 19
//
// Wrong     The guard at the lower edge lets one row too many through.
// Seen      C itself is right; what follows it in memory is overwritten by a row that does not exist.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C

__global__ void sgemm_off_by_one_m(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row > g.M || col >= g.N) return;  // BUG: row >= g.M

  float sum = 0.0f;
  for (int k = 0; k < g.K; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_off_by_one_m, grid, block, 0, g);
}

}  // namespace
