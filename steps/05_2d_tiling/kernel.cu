// Step 05: one thread computes TM x TN elements of C, in registers.
//
// Idea      A column of TM elements of A times a row of TN elements of B: TM * TN products from TM + TN
//           loads. The larger the thread's tile and the closer to a square, the more products each
//           load serves.
// Change    The thread's tile has TN columns, too, and the block's tile grows to 128 x 128. A thread's
//           rows and columns lie TY and TX apart, so that neighbouring lanes read neighbouring columns
//           of Bs.
// Bound     8 + 8 shared loads for 64 FFMAs: one load per warp every four FFMAs, which an SM's four
//           schedulers and one load unit can just sustain. Measured, the schedulers are the busier: 78 %
//           of their slots are taken, and of 100 instructions only 60 are FFMAs; the others load and
//           compute addresses (docs/evidence/h200/05_2d_tiling.json). The next step attacks that.

#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 8;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;              // the thread's tile: TM x TN of C
constexpr int TX = BN / TN, TY = BM / TM;  // threads across and down the tile
constexpr int THREADS = TX * TY;
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "threads load the same number of elements");

__global__ void __launch_bounds__(THREADS) sgemm_2d_tiling(Gemm g) {
  __shared__ float As[BM][BK];  // [row][k]
  __shared__ float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int tx = threadIdx.x % TX;  // the thread's columns are tx, tx + TX, ...
  const int ty = threadIdx.x / TX;  // its rows are ty, ty + TY, ...

  float sums[TM][TN] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    // Zeros beyond the edges: they add nothing to the sums.
    for (int load = 0; load < BM * BK / THREADS; ++load) {
      const int i = threadIdx.x + load * THREADS;
      const int row = i / BK, k = i % BK;
      As[row][k] = row0 + row < g.M && k0 + k < g.K ? A[(row0 + row) * g.lda + k0 + k] : 0.0f;
    }
    for (int load = 0; load < BK * BN / THREADS; ++load) {
      const int i = threadIdx.x + load * THREADS;
      const int k = i / BN, col = i % BN;
      Bs[k][col] = k0 + k < g.K && col0 + col < g.N ? B[(k0 + k) * g.ldb + col0 + col] : 0.0f;
    }
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < BK; ++k) {
      float a[TM], b[TN];
      for (int i = 0; i < TM; ++i) a[i] = As[ty + i * TY][k];
      for (int j = 0; j < TN; ++j) b[j] = Bs[k][tx + j * TX];
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) sums[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; ++j) {
      const int row = row0 + ty + i * TY, col = col0 + tx + j * TX;
      if (row >= g.M || col >= g.N) continue;
      float& c = C[row * g.ldc + col];
      c = g.beta == 0.0f ? g.alpha * sums[i][j]
                         : g.alpha * sums[i][j] + g.beta * c;  // beta == 0: C is not read
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(sgemm_2d_tiling, grid, dim3(THREADS), 0, g);
}

}  // namespace
