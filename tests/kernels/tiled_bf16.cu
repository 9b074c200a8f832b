// BF16 inputs go through tiles of 2-byte elements in shared memory; the sums are float.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C ...
constexpr int BK = 32;    // ... BK terms of the sums at a time

__global__ void __launch_bounds__(TILE* TILE) gemm_tiled_bf16(GemmBf16 g) {
  __shared__ bf16 As[TILE][BK];  // [row][k]
  __shared__ bf16 Bs[BK][TILE];  // [k][col]

  const bf16* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const bf16* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;       // [M][N]
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    for (int i = 0; i < BK; i += TILE) {
      const bool in_a = row < g.M && k0 + tx + i < g.K, in_b = k0 + ty + i < g.K && col < g.N;
      As[ty][tx + i] = in_a ? A[row * g.lda + k0 + tx + i] : bf16(0.0f);
      Bs[ty + i][tx] = in_b ? B[(k0 + ty + i) * g.ldb + col] : bf16(0.0f);
    }
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < BK; ++k) {
      sum += As[ty][k] * Bs[k][tx];
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void gemm(const GemmBf16& g) {
  launch(gemm_tiled_bf16, dim3(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch), dim3(TILE, TILE), 0, g);
}

}  // namespace
