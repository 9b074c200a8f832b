// Step 02: consecutive threads of a warp compute consecutive columns of C.
//
// Idea      The hardware serves a warp's 32 accesses together if they lie side by side ("coalesced").
// Change    threadIdx.x counts columns and threadIdx.y rows, where step 01 had it the other way round.
// Bound     Per k a warp now reads one element of A (all lanes the same: one sector) and 32 neighbouring
//           elements of B (four sectors, all bytes used). Still two loads per FFMA, so the load units are
//           the limit, and every block that needs an element of A or B fetches it anew.

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C
constexpr int THREADS = TILE * TILE;

__global__ void __launch_bounds__(THREADS) sgemm_coalescing(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
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
  launch(sgemm_coalescing, grid, block, 0, g);
}

}  // namespace
