// bug: off_by_one_n
// check: reads B[0][79], but B is 19 x 79
// place: sum += A[row * g.lda + k] * B[k * g.ldb + col];
// check: [79], but C is 35 x 79
// place: c = g.beta == 0.0f
// gpu: verify
// cases: --m 35 --n 79 --k 19 --ldb 83 --ldc 97
//
// Wrong     The guard at the right-hand edge lets one column too many through.
// Seen      In a dense C that column is the next row's first element, which two threads then write: the
//           result is wrong now and then. In a C with longer rows somebody else's memory changes.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C

__global__ void sgemm_off_by_one_n(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col > g.N) return;  // BUG: col >= g.N

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
  launch(sgemm_off_by_one_n, grid, block, 0, g);
}

}  // namespace
