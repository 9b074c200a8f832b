// The fault: in the last tiles, what does not exist held the terms of the tiles before.
//
// The zeros of the beginning last only until the first full tile overwrites them. With K = 19 the second
// tile has three terms, and 13 of the first tile were added once more.
// So the zeros are stored in every round, by the same line that copies what exists.

#include "common/step.hpp"

namespace {

constexpr int BM = 64, BN = 16, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 4;                     // the thread's tile: TM x 1 of C
constexpr int TY = BM / TM;
constexpr int THREADS = BN * TY;
static_assert(THREADS == BK * BN && THREADS * TM == BM * BK, "a thread copies one element of B, TM of A");

__global__ void __launch_bounds__(THREADS) sgemm_wrong_at_19(Gemm g) {
  __shared__ float As[BM][BK];  // [row][k]
  __shared__ float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x % BN, ty = threadIdx.x / BN;  // the thread's rows are ty, ty + TY, ...
  const int row0 = blockIdx.y * BM;
  const int col = blockIdx.x * BN + tx;

  float sums[TM] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    // Zeros beyond the edges: they add nothing to the sums.
    const int left = g.K - k0;  // terms
    for (int i = 0; i < BM; i += TY) {
      const int row = row0 + ty + i;
      As[ty + i][tx] = row < g.M && tx < left ? A[row * g.lda + k0 + tx] : 0.0f;
    }
    Bs[ty][tx] = ty < left && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < BK; ++k) {
      const float b = Bs[k][tx];
      for (int i = 0; i < TM; ++i) sums[i] += As[ty + i * TY][k] * b;
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    const int row = row0 + ty + i * TY;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(sgemm_wrong_at_19, grid, dim3(THREADS), 0, g);
}

}  // namespace
