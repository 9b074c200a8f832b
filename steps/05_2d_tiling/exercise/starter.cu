// Exercise 05: one thread computes TM x TN elements of C, in registers.
//
// Each thread has TM rows, TY apart, but only one column of its TN: the rest of C is never written.
// Read TM elements of A and TN elements of B into registers for each k, and multiply all with all.
// Choose the TN columns so that the lanes of a warp read different banks of Bs and write C side by side.

#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 8;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;              // the thread's tile: TM x TN of C
constexpr int TX = BN / TN, TY = BM / TM;  // threads across and down the tile
constexpr int THREADS = TX * TY;
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "threads load equally many elements");

__global__ void __launch_bounds__(THREADS) sgemm_2d_tiling(Gemm g) {
  __shared__ float As[BM][BK];  // [row][k]
  __shared__ float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int tx = threadIdx.x % TX;  // TODO 1: which TN columns are the thread's?
  const int ty = threadIdx.x / TX;  // its rows are ty, ty + TY, ...

  float sums[TM] = {};  // TODO 2: TM x TN
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    // Beyond the edges there are zeros, which add nothing.
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

    // TODO 3: TM + TN loads from shared memory into registers, then TM * TN products.
    for (int k = 0; k < BK; ++k) {
      const float b = Bs[k][tx];
      for (int i = 0; i < TM; ++i) sums[i] += As[ty + i * TY][k] * b;
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    // TODO 4: all of the thread's columns.
    const int row = row0 + ty + i * TY, col = col0 + tx;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(sgemm_2d_tiling, grid, dim3(THREADS), 0, g);
}

}  // namespace
