#pragma once

// Parts of C in FP32: those on the list, or all.

#include "common/cuda/float4.hpp"
#include "common/step.hpp"
#include "steps/46_guard/paths.hpp"

namespace {

// Where a part of C begins.
struct Part {
  int matrix, row0, col0;
};

namespace fp32_parts {

constexpr int BM = 64, BN = 128, BK = 16;  // a part, and the terms that a block has at a time
constexpr int TM = 8, TN = 8;
constexpr int THREADS = BM / TM * (BN / TN);

// FIND()(g, number) is the part with that number, of `parts`. ALL: all of them, otherwise those on the list.
template <bool ALL, typename FIND>
__global__ void __launch_bounds__(THREADS)
    gemm_fp32(Gemm g, const unsigned* list /* [ledger->listed] */, Ledger* ledger, int parts) {
  __shared__ float As[BK][BM + 4], Bs[BK][BN];
  const int tx = threadIdx.x % (BN / TN), ty = threadIdx.x / (BN / TN);
  if (ALL && blockIdx.x == 0 && threadIdx.x == 0) {
    *ledger = {};
    ledger->taken[static_cast<int>(Path::short_k)] = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  }
  const int count = ALL ? parts : static_cast<int>(ledger->listed);
  for (int i = blockIdx.x; i < count; i += gridDim.x) {
    const Part part = FIND()(g, ALL ? i : static_cast<int>(list[i]));
    const int rows = g.M - part.row0, cols = g.N - part.col0;
    const float* A = g.A + part.matrix * g.strideA + part.row0 * g.lda;
    const float* B = g.B + part.matrix * g.strideB + part.col0;
    float sums[TM][TN] = {};
    for (int k0 = 0; k0 < g.K; k0 += BK) {
      for (int e = threadIdx.x; e < BM * BK; e += THREADS) {
        const int row = e / BK, k = e % BK;
        As[k][row] = row < rows && k0 + k < g.K ? A[row * g.lda + k0 + k] : 0.0f;
      }
      for (int e = threadIdx.x; e < BK * BN; e += THREADS) {
        const int k = e / BN, col = e % BN;
        Bs[k][col] = k0 + k < g.K && col < cols ? B[(k0 + k) * g.ldb + col] : 0.0f;
      }
      __syncthreads();
      for (int k = 0; k < BK && k0 + k < g.K; ++k) {
        float a[TM], b[TN];
        for (int m = 0; m < TM; ++m) a[m] = As[k][ty * TM + m];
        for (int n = 0; n < TN; ++n) b[n] = Bs[k][tx * 4 + spread(n, BN / 2)];
        for (int m = 0; m < TM; ++m) {
          for (int n = 0; n < TN; ++n) sums[m][n] = __fmaf_rn(a[m], b[n], sums[m][n]);
        }
      }
      __syncthreads();
    }
    float* C = g.C + part.matrix * g.strideC + part.row0 * g.ldc + part.col0;
    for (int m = 0; m < TM; ++m) {
      const int row = ty * TM + m;
      if (row >= rows) break;
      for (int n = 0; n < TN; n += 4) {
        const int col = tx * 4 + spread(n, BN / 2);
        update4<false>(&C[row * g.ldc + col], cols - col, &sums[m][n], g.alpha, g.beta);
      }
    }
  }
}

}  // namespace fp32_parts

}  // namespace
