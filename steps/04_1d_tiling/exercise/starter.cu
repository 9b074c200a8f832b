// Exercise 04: one thread computes TM elements of a column of C, in registers.
//
// The copying is done. But each thread computes only the first of the TM rows that are its own; the
// other rows of C are never written.
// Give the thread TM sums, so that one element of B, read once, serves TM products.

#include "common/step.hpp"

namespace {

constexpr int BM = 64, BN = 64, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 16;                    // the thread's tile: TM x 1 of C
constexpr int TX = BN, TY = BM / TM;      // threads across and down the tile
constexpr int THREADS = TX * TY;
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "threads load equally many elements");

// At least four blocks to an SM, for which nvcc keeps to 64 registers a thread.
__global__ void __launch_bounds__(THREADS, 4) sgemm_1d_tiling(Gemm g) {
  __shared__ float As[BM][BK];  // [row][k]
  __shared__ float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int tx = threadIdx.x % TX;  // the thread's column in the tile
  const int ty = threadIdx.x / TX;  // its TM rows begin at ty * TM

  float sum = 0.0f;  // TODO 1: TM sums
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

    // TODO 2: the thread's rows are ty * TM to ty * TM + TM - 1; read an element of Bs once for all.
    for (int k = 0; k < BK; ++k) {
      sum += As[ty * TM][k] * Bs[k][tx];
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  const int col = col0 + tx;
  // TODO 3: store all TM rows, each only if it exists.
  const int row = row0 + ty * TM;
  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(sgemm_1d_tiling, grid, dim3(THREADS), 0, g);
}

}  // namespace
