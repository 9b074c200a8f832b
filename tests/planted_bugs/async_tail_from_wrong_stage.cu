// bug: async_tail_from_wrong_stage
// check: fits the K tile of 16 terms at k = 16 used where the one at k = 32 belongs (a stale buffer)
// gpu: verify
// cases: --m 35 --n 79 --k 43
//
// Wrong     The loop takes two tiles at a time, one from each stage. A last single tile is in the first
//           stage, but the second is read.
// Seen      Where K makes an even number of tiles all is well. Where it is odd, the last tile's terms are
//           replaced by those of the tile before, which was in the second stage.

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_async_tail_from_wrong_stage(Gemm g) {
  __shared__ float As[2][TILE][TILE];  // [stage][row][k]
  __shared__ float Bs[2][TILE][TILE];  // [stage][k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  // Asks for the tiles of the terms from k0 on; what does not exist becomes zero.
  const auto copy = [&](int stage, int k0) {
    async_copy<4>(&As[stage][ty][tx], &A[row * g.lda + k0 + tx], row < g.M && k0 + tx < g.K);
    async_copy<4>(&Bs[stage][ty][tx], &B[(k0 + ty) * g.ldb + col], k0 + ty < g.K && col < g.N);
    async_copy_commit();
  };

  float sum = 0.0f;
  const auto compute = [&](int stage) {
    for (int k = 0; k < TILE; ++k) {
      sum += As[stage][ty][k] * Bs[stage][k][tx];
    }
  };
  const auto arrive = [] {
    async_copy_wait<0>();  // this thread's elements have arrived ...
    __syncthreads();       // ... everybody's have, and nobody needs the other tile any more
  };

  copy(0, 0);
  int k0 = 0;
  for (; k0 + TILE < g.K; k0 += 2 * TILE) {
    arrive();
    copy(1, k0 + TILE);
    compute(0);
    arrive();
    copy(0, k0 + 2 * TILE);
    compute(1);
  }
  if (k0 < g.K) {
    arrive();
    compute(1);  // BUG: 0
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_async_tail_from_wrong_stage, grid, block, 0, g);
}

}  // namespace
