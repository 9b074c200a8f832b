// bug: async_copy_too_early
// check: data race on shared memory
// place: async_copy<4>(&As[stage][ty][tx]
// gpu: racecheck
// cases: --m 35 --n 79 --k 43
//
// Wrong     The next copy is asked for before the barrier, to give it more time. It goes where the previous
//           tile was, which only the barrier would set free: one more stage is needed.
// Seen      A slow warp computes with the previous tile while a fast one's copies overwrite it. They take
//           longer than most warps are late, so the result is right nearly always.

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int AHEAD = 2;  // tiles on their way while one is computed from
constexpr int STAGES = AHEAD + 1;  // BUG: AHEAD + 2

__global__ void sgemm_async_copy_too_early(Gemm g) {
  __shared__ float As[STAGES][TILE][TILE];  // [stage][row][k]
  __shared__ float Bs[STAGES][TILE][TILE];  // [stage][k][col]

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
  for (int stage = 0; stage < AHEAD; ++stage) copy(stage, stage * TILE);
  int stage = 0;  // the one to compute from
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    copy((stage + AHEAD) % STAGES, k0 + AHEAD * TILE);
    async_copy_wait<AHEAD>();  // this thread's elements of the oldest tile have arrived ...
    __syncthreads();           // ... everybody's have
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
  const dim3 block(TILE, TILE);
  launch(sgemm_async_copy_too_early, grid, block, 0, g);
}

}  // namespace
