// Step 04: one thread computes TM elements of a column of C, in registers.
//
// Idea      Reusing a value in a register costs nothing. With TM sums per thread, one element of B serves
//           TM products.
// Change    The tile of C is BM x BN, computed by BM / TM x BN threads; the sums are an array in
//           registers. The threads are numbered in one dimension and share the copying evenly, whichever
//           elements they compute.
// Bound     In the source, 1 + TM shared loads for TM FFMAs: about one FFMA per load, 1/4 of the peak.
//           nvcc does better: it takes two k at a time and reads As with one load of 64 bits (LDS.64)
//           for both, which leaves 2 + TM loads for 2 TM FFMAs: 44 % of the peak.

#include "common/step.hpp"

namespace {

constexpr int BM = 64, BN = 64, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 16;                    // the thread's tile: TM x 1 of C
constexpr int TX = BN, TY = BM / TM;      // threads across and down the tile
constexpr int THREADS = TX * TY;
static_assert(BM * BK % THREADS == 0 && BK * BN % THREADS == 0, "threads load the same number of elements");

// At least four blocks per SM, for which nvcc keeps to 64 registers per thread.
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

  float sums[TM] = {};
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
