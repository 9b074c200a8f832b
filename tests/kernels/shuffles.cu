// No shared memory: the lanes of a warp load 32 terms of a row of A, and each passes its own to all others.
// If there are few columns, the lanes split the terms of one sum instead, and add up their parts.

#include "common/step.hpp"

namespace {

constexpr int WARP = 32;  // a warp computes WARP elements of a row of C, or one
constexpr int WARPS = 8;  // to a block, one below the other
constexpr unsigned ALL = 0xffffffff;

__device__ __forceinline__ void store(const Gemm& g, float* C, int row, int col, float sum) {
  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

__global__ void sgemm_shuffles(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int row = blockIdx.y * WARPS + warp, col = blockIdx.x * WARP + lane;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += WARP) {
    const float a = row < g.M && k0 + lane < g.K ? A[row * g.lda + k0 + lane] : 0.0f;
    for (int k = 0; k < WARP; ++k) {
      // Lanes without a column take part, too.
      const float a_k = __shfl_sync(ALL, a, k);
      if (k0 + k < g.K && col < g.N) sum += a_k * B[(k0 + k) * g.ldb + col];
    }
  }
  store(g, g.C + blockIdx.z * g.strideC, row, col, sum);
}

__global__ void sgemm_shuffles_of_parts(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  const int row = blockIdx.y * WARPS + warp, col = blockIdx.x;

  float sum = 0.0f;
  for (int k = lane; k < g.K && row < g.M; k += WARP) sum += A[row * g.lda + k] * B[k * g.ldb + col];
  for (int distance = WARP / 2; distance > 1; distance /= 2) sum += __shfl_xor_sync(ALL, sum, distance);
  sum += __shfl_down_sync(ALL, sum, 1);
  if (lane == 0) store(g, g.C + blockIdx.z * g.strideC, row, col, sum);
}

void sgemm(const Gemm& g) {
  const bool few = g.N < 8;
  const dim3 grid(few ? g.N : ceil_div(g.N, WARP), ceil_div(g.M, WARPS), g.batch);
  launch(few ? sgemm_shuffles_of_parts : sgemm_shuffles, grid, dim3(WARP * WARPS), 0, g);
}

}  // namespace
