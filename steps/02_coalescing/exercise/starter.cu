// Exercise 02: neighbouring lanes, neighbouring addresses.
//
// This is step 01's kernel: right, and slow. A warp's 32 lanes differ in the row of C, so that their
// elements of A lie in 32 rows, and one load has to fetch 32 pieces of memory.
// Change which thread computes which element of C, nothing else, so that a warp's accesses lie together.

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C
constexpr int THREADS = TILE * TILE;

__global__ void __launch_bounds__(THREADS) sgemm_coalescing(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  // TODO: the lanes of a warp differ in threadIdx.x. What should differ from lane to lane?
  const int row = blockIdx.y * TILE + threadIdx.x;
  const int col = blockIdx.x * TILE + threadIdx.y;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
#pragma unroll 32  // many loads under way at once
  for (int k = 0; k < g.K; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_coalescing, grid, block, 0, g);
}

}  // namespace
