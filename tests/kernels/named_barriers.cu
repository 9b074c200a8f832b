// Four warps fill tiles of A and B while four others compute. They synchronise by named barriers: the
// producers announce a full buffer without waiting for the consumers, and the consumers an empty one
// likewise.

#include "common/cuda/named_barrier.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;    // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int STAGES = 2;   // buffers for the tiles
constexpr int GROUP = 128;  // threads that fill, and as many that compute
constexpr int PER_THREAD = TILE * TILE / GROUP;
constexpr int FULL = 1, EMPTY = FULL + STAGES;  // the first numbers of the barriers

__global__ void sgemm_named_barriers(Gemm g) {
  __shared__ float As[STAGES][TILE][TILE];  // [row][k]
  __shared__ float Bs[STAGES][TILE][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
  const int t = threadIdx.x % GROUP, x = t % TILE, y0 = t / TILE * PER_THREAD;
  const int tiles = ceil_div(g.K, TILE);

  if (threadIdx.x < GROUP) {
    for (int tile = 0; tile < tiles; ++tile) {
      const int stage = tile % STAGES, k0 = tile * TILE;
      if (tile >= STAGES) named_barrier_sync(EMPTY + stage, 2 * GROUP);
      for (int y = y0; y < y0 + PER_THREAD; ++y) {
        As[stage][y][x] = row0 + y < g.M && k0 + x < g.K ? A[(row0 + y) * g.lda + k0 + x] : 0.0f;
        Bs[stage][y][x] = k0 + y < g.K && col0 + x < g.N ? B[(k0 + y) * g.ldb + col0 + x] : 0.0f;
      }
      named_barrier_arrive(FULL + stage, 2 * GROUP);
    }
    return;
  }

  float sums[PER_THREAD] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % STAGES;
    named_barrier_sync(FULL + stage, 2 * GROUP);
    for (int k = 0; k < TILE; ++k) {
      for (int i = 0; i < PER_THREAD; ++i) sums[i] += As[stage][y0 + i][k] * Bs[stage][k][x];
    }
    if (tile + STAGES < tiles) named_barrier_arrive(EMPTY + stage, 2 * GROUP);
  }

  for (int i = 0; i < PER_THREAD; ++i) {
    const int row = row0 + y0 + i, col = col0 + x;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_named_barriers, grid, dim3(2 * GROUP), 0, g);
}

}  // namespace
