// Find the fault: a block of which not everybody comes along.
//
// A kernel with tiles in shared memory, made from step 02 by somebody who kept its test for the edges of C
// where it was. It is right where M and N are multiples of the tile, and not elsewhere.
// Find out what happens at the edges, and repair it; A and B are still to be fetched once for each block.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms at a time
constexpr int THREADS = TILE * TILE;

__global__ void __launch_bounds__(THREADS) sgemm_ragged_edges(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    As[ty][tx] = k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < g.K ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
    __syncthreads();  // nobody needs the tiles any more
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_ragged_edges, grid, dim3(TILE, TILE), 0, g);
}

}  // namespace
