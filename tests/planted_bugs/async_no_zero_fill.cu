// bug: async_no_zero_fill
// check: read of uninitialised shared memory
// place: sum += As[stage][ty][k] * Bs[stage][k][tx];
// check: wrong result
// gpu: verify
// cases: --m 35 --n 79 --k 43
//
// Wrong     What does not exist is not copied, and nothing is stored in its place; async_copy would store
//           zeros if it were told.
// Seen      Beyond K the last tile holds what the stage held before: terms of an earlier tile, which are
//           counted again, or what another kernel left there.

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_async_no_zero_fill(Gemm g) {
  __shared__ float As[2][TILE][TILE];  // [stage][row][k]
  __shared__ float Bs[2][TILE][TILE];  // [stage][k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  // Asks for the tiles of the terms from k0 on.
  const auto copy = [&](int stage, int k0) {
    // BUG: without the ifs, `valid` for `true`
    if (row < g.M && k0 + tx < g.K) {
      async_copy<4>(&As[stage][ty][tx], &A[row * g.lda + k0 + tx], true);
    }
    if (k0 + ty < g.K && col < g.N) {
      async_copy<4>(&Bs[stage][ty][tx], &B[(k0 + ty) * g.ldb + col], true);
    }
    async_copy_commit();
  };

  float sum = 0.0f;
  int stage = 0;  // the one to compute from; the next tile goes to the other
  copy(stage, 0);
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    async_copy_wait<0>();  // this thread's elements have arrived ...
    __syncthreads();       // ... everybody's have, and nobody needs the other tile any more
    if (k0 + TILE < g.K) copy(stage ^ 1, k0 + TILE);
    for (int k = 0; k < TILE; ++k) {
      sum += As[stage][ty][k] * Bs[stage][k][tx];
    }
    stage ^= 1;
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_async_no_zero_fill, grid, block, 0, g);
}

}  // namespace
