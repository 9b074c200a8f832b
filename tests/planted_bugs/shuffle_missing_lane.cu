// bug: shuffle_missing_lane
// check: lane missing from a warp-wide operation
// place: const float a_k = __shfl_sync(0xffffffff, a, k);
// gpu: verify
// cases: --m 35 --n 79 --k 43
//
// Wrong     Threads without a column of C leave before the shuffles, in which they are to give the others
// their
//           terms of A.
// Seen      Where N is no multiple of 32, the warps at the edge get nothing from the lanes that are gone.

#include "common/step.hpp"

namespace {

constexpr int WARP = 32;  // a warp computes WARP elements of a row of C, WARP terms of the sums at a time
constexpr int WARPS = 8;  // to a block, one below the other

__global__ void sgemm_shuffle_missing_lane(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int row = blockIdx.y * WARPS + warp, col = blockIdx.x * WARP + lane;
  if (row >= g.M || col >= g.N) return;  // BUG: all lanes are needed until the sums are done

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += WARP) {
    const float a = k0 + lane < g.K ? A[row * g.lda + k0 + lane] : 0.0f;
    for (int k = 0; k < WARP; ++k) {
      const float a_k = __shfl_sync(0xffffffff, a, k);
      if (k0 + k < g.K) sum += a_k * B[(k0 + k) * g.ldb + col];
    }
  }
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, WARP), ceil_div(g.M, WARPS), g.batch);
  launch(sgemm_shuffle_missing_lane, grid, dim3(WARP * WARPS), 0, g);
}

}  // namespace
