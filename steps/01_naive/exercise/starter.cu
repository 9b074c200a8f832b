// Exercise 01: one thread computes one element of C, straight from the formula.
//
// Each block has TILE x TILE threads and a tile of C of that size; sgemm() below launches the grid.
// Choose each thread's element, add up its K products, and write alpha * sum + beta * C.
// Consecutive threads of a warp take consecutive rows (the next step asks whether that was wise).

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C
constexpr int THREADS = TILE * TILE;

__global__ void __launch_bounds__(THREADS) sgemm_naive(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  // TODO 1: the block's place in the grid matters, too: now all blocks compute the first tile.
  const int row = threadIdx.x;
  const int col = threadIdx.y;
  if (row >= g.M || col >= g.N) return;

  // TODO 2: the first product is not all: there are g.K of them, and for g.K == 0 there is none.
  const float sum = A[row * g.lda] * B[col];

  float& c = C[row * g.ldc + col];
  c = sum;  // TODO 3: alpha, and beta; if beta == 0, C may hold anything, NaN included: do not read it
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_naive, grid, block, 0, g);
}

}  // namespace
