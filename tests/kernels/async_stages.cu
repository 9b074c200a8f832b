// cp.async fills the tiles two stages ahead. The copies of each stage are a group of their own, so that a
// thread can wait for the oldest while the others are still on their way.
//
// Needs     sm_80+: cp.async

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;   // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int STAGES = 3;  // buffers for the tiles: one to compute from, the others on their way

__global__ void sgemm_async_stages(Gemm g) {
  __shared__ float As[STAGES][TILE][TILE];  // [stage][row][k]
  __shared__ float Bs[STAGES][TILE][TILE];  // [stage][k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  // Asks for the tiles of the terms from k0 on; elements that do not exist become zeros. Past the last tile
  // the group is empty, but there: the wait counts groups.
  const auto copy = [&](int stage, int k0) {
    if (k0 < g.K) {
      async_copy<4>(&As[stage][ty][tx], &A[row * g.lda + k0 + tx], row < g.M && k0 + tx < g.K);
      async_copy<4>(&Bs[stage][ty][tx], &B[(k0 + ty) * g.ldb + col], k0 + ty < g.K && col < g.N);
    }
    async_copy_commit();
  };

  float sum = 0.0f;
  for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, stage * TILE);
  int stage = 0;  // the one to compute from
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    async_copy_wait<STAGES - 2>();  // this thread's elements of the oldest tiles have arrived ...
    __syncthreads();                // ... everybody's have, and nobody needs the tiles before these any more
    copy((stage + STAGES - 1) % STAGES, k0 + (STAGES - 1) * TILE);
    for (int k = 0; k < TILE; ++k) {
      sum += As[stage][ty][k] * Bs[stage][k][tx];
    }
    stage = (stage + 1) % STAGES;
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_async_stages, grid, dim3(TILE, TILE), 0, g);
}

}  // namespace
