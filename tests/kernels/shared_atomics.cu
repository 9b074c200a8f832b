// Four warps share the terms of a sum: each computes a part of every element's, and adds it to those of the
// others in shared memory, atomically. The block's tile of C goes out when all have added theirs.

#include "common/step.hpp"

namespace {

constexpr int TILE = 8;   // a block computes TILE x TILE elements of C
constexpr int WARPS = 4;  // that share the terms
constexpr int LANES = 32;
constexpr int PER_LANE = TILE * TILE / LANES;

__global__ void __launch_bounds__(WARPS* LANES) sgemm_shared_atomics(Gemm g) {
  __shared__ float sums[TILE][TILE];

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int thread = threadIdx.x, warp = thread / LANES, lane = thread % LANES;
  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
  for (int i = thread; i < TILE * TILE; i += WARPS * LANES) sums[i / TILE][i % TILE] = 0.0f;
  __syncthreads();  // the sums are zero

  for (int i = 0; i < PER_LANE; ++i) {
    const int y = (lane + i * LANES) / TILE, x = lane % TILE;
    if (row0 + y >= g.M || col0 + x >= g.N) continue;
    float sum = 0.0f;
    for (int k = warp; k < g.K; k += WARPS) sum += A[(row0 + y) * g.lda + k] * B[k * g.ldb + col0 + x];
    atomicAdd(&sums[y][x], sum);
  }
  __syncthreads();  // everybody has added

  for (int i = thread; i < TILE * TILE; i += WARPS * LANES) {
    const int row = row0 + i / TILE, col = col0 + i % TILE;
    if (row >= g.M || col >= g.N) continue;
    const float sum = sums[i / TILE][i % TILE];
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_shared_atomics, grid, dim3(WARPS * LANES), 0, g);
}

}  // namespace
