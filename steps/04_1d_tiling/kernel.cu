// Step 04: one thread computes TM elements of a column of C, in registers.
//
// Idea      A value in a register costs nothing to use again. With TM sums to a thread, one element of B
//           serves TM products.
// Change    The tile of C is BM x BN, computed by BM / TM x BN threads; the sums are an array in registers.
// Bound     1 + TM shared loads for TM FFMAs instead of 2 TM.

#include "common/step.hpp"

namespace {

constexpr int BM = 64, BN = 64, BK = 8;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8;                    // the thread's tile: TM x 1 of C
constexpr int THREADS = BM / TM * BN;
static_assert(BM * BK == THREADS && BK * BN == THREADS, "each thread loads one element of A and one of B");

__global__ void __launch_bounds__(THREADS) sgemm_1d_tiling(Gemm g) {
  __shared__ float As[BM][BK];  // [row][k]
  __shared__ float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int tx = threadIdx.x % BN;  // the thread's column in the tile
  const int ty = threadIdx.x / BN;  // its TM rows begin at ty * TM

  // Which elements the thread copies to shared memory.
  const int a_row = threadIdx.x / BK, a_k = threadIdx.x % BK;
  const int b_k = threadIdx.x / BN, b_col = threadIdx.x % BN;

  float sums[TM] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    // Beyond the edges there are zeros, which add nothing.
    As[a_row][a_k] = row0 + a_row < g.M && k0 + a_k < g.K ? A[(row0 + a_row) * g.lda + k0 + a_k] : 0.0f;
    Bs[b_k][b_col] = k0 + b_k < g.K && col0 + b_col < g.N ? B[(k0 + b_k) * g.ldb + col0 + b_col] : 0.0f;
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < BK; ++k) {
      const float b = Bs[k][tx];
      for (int i = 0; i < TM; ++i) {
        sums[i] += As[ty * TM + i][k] * b;
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  const int col = col0 + tx;
  for (int i = 0; i < TM; ++i) {
    const int row = row0 + ty * TM + i;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(sgemm_1d_tiling, grid, dim3(THREADS), 0, g);
}

}  // namespace
