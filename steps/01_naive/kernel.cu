// Step 01: one thread computes one element of C, straight from the formula.
//
// Idea      C[row][col] is a dot product of K terms; each gets a thread of its own.
// Change    The first kernel of the ladder.
// Bound     Each term takes two loads and one FFMA. Consecutive threads of a warp own consecutive
//           *rows*: their 32 elements of A lie a whole row apart, so one load instruction touches 32
//           different cache lines, where 32 neighbours would lie in one. (The rest of each line is not
//           wasted: the L1 cache serves 99 % of the accesses, docs/evidence/h200/01_naive.json. What
//           takes the time is the passes through that cache.)

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C
constexpr int THREADS = TILE * TILE;

__global__ void __launch_bounds__(THREADS) sgemm_naive(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TILE + threadIdx.x;
  const int col = blockIdx.x * TILE + threadIdx.y;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
#pragma unroll 32  // keeps many loads in flight
  for (int k = 0; k < g.K; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_naive, grid, block, 0, g);
}

}  // namespace
