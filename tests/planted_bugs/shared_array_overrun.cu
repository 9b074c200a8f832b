// bug: shared_array_overrun
// check: array index out of bounds
// place: As[row][k] = row0 + row < g.M
// gpu: verify
// cases: --m 35 --n 79 --k 19
//
// Wrong     The loop that fills As goes round once too often and stores more rows than As has.
// Seen      The elements land in the next array in shared memory, which the compiler chooses: sums are
//           wrong that have nothing to do with As, or nothing happens until the code changes.

#include "common/step.hpp"

namespace {

constexpr int BM = 64, BN = 64, BK = 8;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 16;                   // the thread's tile: TM x 1 of C
constexpr int THREADS = BM / TM * BN;

__global__ void __launch_bounds__(THREADS) sgemm_shared_array_overrun(Gemm g) {
  __shared__ float As[BM][BK];  // [row][k]
  __shared__ float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int tx = threadIdx.x % BN;  // the thread's column in the tile
  const int ty = threadIdx.x / BN;  // its TM rows begin at ty * TM

  float sums[TM] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    for (int load = 0; load < BK * BN / THREADS; ++load) {
      const int i = threadIdx.x + load * THREADS;
      const int k = i / BN, col = i % BN;
      Bs[k][col] = k0 + k < g.K && col0 + col < g.N ? B[(k0 + k) * g.ldb + col0 + col] : 0.0f;
    }
    for (int load = 0; load <= BM * BK / THREADS; ++load) {  // BUG: <
      const int i = threadIdx.x + load * THREADS;
      const int row = i / BK, k = i % BK;
      As[row][k] = row0 + row < g.M && k0 + k < g.K ? A[(row0 + row) * g.lda + k0 + k] : 0.0f;
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
  launch(sgemm_shared_array_overrun, grid, dim3(THREADS), 0, g);
}

}  // namespace
