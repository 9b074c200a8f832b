// Two groups of four warps, each of which computes every second tile of C in its block's row of tiles, at its
// own pace: each has buffers of its own, and a named barrier of its own.

#include "common/cuda/named_barrier.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;    // a group computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int GROUP = 128;  // threads
constexpr int PER_THREAD = TILE * TILE / GROUP;

__global__ void sgemm_two_groups(Gemm g) {
  __shared__ float As[2][TILE][TILE];  // [group][row][k]
  __shared__ float Bs[2][TILE][TILE];  // [group][k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int group = threadIdx.x / GROUP;
  const int t = threadIdx.x % GROUP, x = t % TILE, y0 = t / TILE * PER_THREAD;
  const int barrier = 1 + group;

  const int row0 = blockIdx.y * TILE, col = (2 * blockIdx.x + group) * TILE + x;
  float sums[PER_THREAD] = {};
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    for (int y = y0; y < y0 + PER_THREAD; ++y) {
      As[group][y][x] = row0 + y < g.M && k0 + x < g.K ? A[(row0 + y) * g.lda + k0 + x] : 0.0f;
      Bs[group][y][x] = k0 + y < g.K && col < g.N ? B[(k0 + y) * g.ldb + col] : 0.0f;
    }
    named_barrier_sync(barrier, GROUP);
    for (int k = 0; k < TILE; ++k) {
      for (int i = 0; i < PER_THREAD; ++i) sums[i] += As[group][y0 + i][k] * Bs[group][k][x];
    }
    named_barrier_sync(barrier, GROUP);
  }

  for (int i = 0; i < PER_THREAD; ++i) {
    const int row = row0 + y0 + i;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, 2 * TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_two_groups, grid, dim3(2 * GROUP), 0, g);
}

}  // namespace
