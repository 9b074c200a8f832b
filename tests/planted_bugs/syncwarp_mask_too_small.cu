// bug: syncwarp_mask_too_small
// check: data race on shared memory
// place: sum += As[warp][k] * B[(k0 + k) * g.ldb + col];
// gpu: racecheck
// cases: --m 35 --n 79 --k 43
//
// Wrong     A warp keeps a piece of A in shared memory. Its halves synchronise each for itself, though every
// lane reads
//           what all lanes have written.
// Seen      Right as long as the halves happen to run in step. If they do not, one reads old terms.

#include "common/step.hpp"

namespace {

constexpr int WARP = 32;  // a warp computes WARP elements of a row of C, WARP terms of the sums at a time
constexpr int WARPS = 8;  // to a block, one below the other

__global__ void sgemm_syncwarp_mask_too_small(Gemm g) {
  __shared__ float As[WARPS][WARP];  // [row][k]; each row is one warp's own

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int row = blockIdx.y * WARPS + warp;
  const int col = blockIdx.x * WARP + lane;

  const unsigned half = lane < WARP / 2 ? 0x0000ffff : 0xffff0000;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += WARP) {
    As[warp][lane] = row < g.M && k0 + lane < g.K ? A[row * g.lda + k0 + lane] : 0.0f;
    __syncwarp(half);  // BUG: the other half reads this, too

    const int depth = col < g.N ? min(WARP, g.K - k0) : 0;
    for (int k = 0; k < depth; ++k) {
      sum += As[warp][k] * B[(k0 + k) * g.ldb + col];
    }
    __syncwarp();
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, WARP), ceil_div(g.M, WARPS), g.batch);
  const dim3 block(WARP * WARPS);
  launch(sgemm_syncwarp_mask_too_small, grid, block, 0, g);
}

}  // namespace
