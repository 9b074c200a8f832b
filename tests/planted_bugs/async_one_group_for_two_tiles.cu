// bug: async_one_group_for_two_tiles
// check: use of shared memory before its asynchronous copy arrived
// place: sum += As[stage][ty][k] * Bs[stage][k][tx];
// gpu: verify, racecheck
// cases: --m 35 --n 79 --k 43
//
// Wrong     The tiles before the loop are closed into one group, not into one each.
// Seen      The wait lets the latest group be missing, and at first that one holds both tiles. Once as many
//           groups as tiles are on their way, all is well: only the first tile is wrong.

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;   // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int STAGES = 3;  // tiles in shared memory: one to compute from, the others on their way

__global__ void sgemm_async_one_group_for_two_tiles(Gemm g) {
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
  };

  float sum = 0.0f;
  for (int stage = 0; stage < STAGES - 1; ++stage) copy(stage, stage * TILE);
  async_copy_commit();  // BUG: after each of them
  int stage = 0;        // the one to compute from
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    async_copy_wait<STAGES - 2>();  // this thread's elements of the oldest tile have arrived ...
    __syncthreads();                // ... everybody's have, and nobody needs the tile before it any more
    copy((stage + STAGES - 1) % STAGES, k0 + (STAGES - 1) * TILE);
    async_copy_commit();
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
  launch(sgemm_async_one_group_for_two_tiles, grid, block, 0, g);
}

}  // namespace
