// bug: tile_reused_too_early
// check: data race on shared memory
// place: As[tx][ty] = sum;
// gpu: racecheck
// cases: --m 35 --n 79 --k 43
//
// Wrong     There is no barrier after the last tile, as no load follows. The tile's memory is used again,
//           though, to turn the results round before they are stored.
// Seen      A fast warp overwrites elements of As that a slow one has still to read: a few wrong elements,
//           now and then. On an H200 none was seen.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_tile_reused_too_early(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row0 = blockIdx.y * TILE;  // of the block's tile of C
  const int col0 = blockIdx.x * TILE;

  float sum = 0.0f;  // of C[row0 + tx][col0 + ty]
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    As[ty][tx] = row0 + ty < g.M && k0 + tx < g.K ? A[(row0 + ty) * g.lda + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < g.K && col0 + tx < g.N ? B[(k0 + ty) * g.ldb + col0 + tx] : 0.0f;
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < TILE; ++k) {
      sum += As[tx][k] * Bs[k][ty];
    }
    if (k0 + TILE < g.K) __syncthreads();  // nobody needs the tiles any more; BUG: always needed
  }

  // Through shared memory, so that consecutive threads store consecutive columns.
  As[tx][ty] = sum;
  __syncthreads();
  sum = As[ty][tx];

  const int row = row0 + ty, col = col0 + tx;
  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_tile_reused_too_early, grid, block, 0, g);
}

}  // namespace
