// bug: shuffle_in_divergent_branch
// check: lane missing from a warp-wide operation
// place: a_k = __shfl_sync(0xffffffff, a, k);
// gpu: none (lanes that wait for each other at two places: it may hang)
// cases: --m 35 --n 79 --k 43
//
// Wrong     Only the lanes that have a column of C take part in the shuffles, whose mask names all.
// Seen      Where N is no multiple of 32, lanes of the warps at the edge wait for others that wait elsewhere.

#include "common/step.hpp"

namespace {

constexpr int WARP = 32;  // a warp computes WARP elements of a row of C, WARP terms of the sums at a time
constexpr int WARPS = 8;  // to a block, one below the other

__global__ void sgemm_shuffle_in_divergent_branch(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int row = blockIdx.y * WARPS + warp, col = blockIdx.x * WARP + lane;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += WARP) {
    const float a = row < g.M && k0 + lane < g.K ? A[row * g.lda + k0 + lane] : 0.0f;
    for (int k = 0; k < WARP; ++k) {
      float a_k = 0.0f;
      if (col < g.N) a_k = __shfl_sync(0xffffffff, a, k);  // BUG: not by all lanes
      if (k0 + k < g.K && col < g.N) sum += a_k * B[(k0 + k) * g.ldb + col];
    }
    __syncwarp();
  }
  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, WARP), ceil_div(g.M, WARPS), g.batch);
  launch(sgemm_shuffle_in_divergent_branch, grid, dim3(WARP * WARPS), 0, g);
}

}  // namespace
