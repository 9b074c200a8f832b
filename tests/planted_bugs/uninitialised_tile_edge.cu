// bug: uninitialised_tile_edge
// check: read of uninitialised shared memory
// place: sum += As[ty][k] * Bs[k][tx];
// check: fits the terms from k = 27 to 31 counted twice
// gpu: verify
// cases: --m 35 --n 79 --k 43
//
// Wrong     Beyond the edges the tiles are left as they are, not filled with zeros.
// Seen      In the last tile of K the elements beyond the edge are those of the tile before, and are
//           counted again; if it is the first tile, too, whatever another kernel left there.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_uninitialised_tile_edge(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    if (row < g.M && k0 + tx < g.K) As[ty][tx] = A[row * g.lda + k0 + tx];  // BUG: else 0
    if (k0 + ty < g.K && col < g.N) Bs[ty][tx] = B[(k0 + ty) * g.ldb + col];
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < TILE; ++k) {
      sum += As[ty][k] * Bs[k][tx];
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_uninitialised_tile_edge, grid, block, 0, g);
}

}  // namespace
