// Step 08: a warp computes a compact tile of its own, and its lanes share fragments.
//
// Idea      In step 07 the 32 lanes of a warp cover 2 x 16 positions: per k they fetch 16 different
//           elements of A and 128 of B. Arranged as 8 x 4 they fetch 64 and 32: a third less for the
//           same products. One would expect fewer passes through the shared memory.
// Change    The block's tile is divided among warps (WM x WN each), the warp's among its lanes.
// Bound     The gain is a few percent, and not for the reason one expects: the hardware takes two or
//           four wavefronts for a 128-bit load, however much lanes share, and the profiler counts as
//           many here as in step 07 (docs/evidence/h200/08_warp_tiling.json). What else makes it faster is
//           open. The schedulers are 79 % busy, the FMA pipe 71 %.

#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;               // the thread's tile: TM x TN of C
constexpr int LM = 8, LN = 4;               // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;   // the warp's tile: WM x WN of C
constexpr int WARPS_N = BN / WN;            // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
static_assert(LM * LN == 32 && BM % WM == 0 && BN % WN == 0);
constexpr int PAD = 4;     // shifts each row of As by 4 banks against the one before
constexpr int COPY_K = 8;  // the block copies COPY_K terms of A and of B at once
static_assert(THREADS * 4 == BM * COPY_K && THREADS * 4 == COPY_K * BN && BK % COPY_K == 0);

__device__ __forceinline__ float4& float4_at(float* p) { return *reinterpret_cast<float4*>(p); }

// Four neighbours in a row, of which only the first `valid` exist; zeros for the others. ALIGNED: p is a
// multiple of 16 bytes, and all four exist or none.
template <bool ALIGNED>
__device__ __forceinline__ float4 load4(const float* p, int valid) {
  if constexpr (ALIGNED) {
    return valid > 0 ? *reinterpret_cast<const float4*>(p) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  } else {
    return make_float4(valid > 0 ? p[0] : 0.0f, valid > 1 ? p[1] : 0.0f, valid > 2 ? p[2] : 0.0f,
                       valid > 3 ? p[3] : 0.0f);
  }
}

// c[0..3] = alpha * sums[0..3] + beta * c[0..3], as far as they exist. beta == 0: c is not read.
template <bool ALIGNED>
__device__ __forceinline__ void store4(float* c, int valid, const float* sums, float alpha, float beta) {
  if constexpr (ALIGNED) {
    if (valid <= 0) return;
    float4 v = make_float4(alpha * sums[0], alpha * sums[1], alpha * sums[2], alpha * sums[3]);
    if (beta != 0.0f) {
      const float4 old = float4_at(c);
      v = make_float4(v.x + beta * old.x, v.y + beta * old.y, v.z + beta * old.z, v.w + beta * old.w);
    }
    float4_at(c) = v;
  } else {
    for (int j = 0; j < 4; ++j) {
      if (j < valid) c[j] = beta == 0.0f ? alpha * sums[j] : alpha * sums[j] + beta * c[j];
    }
  }
}

// Two blocks to an SM, for which nvcc keeps to 128 registers a thread.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_warp_tiling(Gemm g) {
  __shared__ __align__(16) float As[BK][BM + PAD];  // [k][row]: A transposed
  __shared__ __align__(16) float Bs[BK][BN];        // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp / WARPS_N * WM + lane / LN * 4;  // the thread's rows: m .. m + 3, and the same WM / 2 on
  const int n = warp % WARPS_N * WN + lane % LN * 4;  // its columns likewise

  // What this thread copies: 4 neighbours of a row of A, and again COPY_K terms further; of B likewise.
  const int a_row = threadIdx.x / 2, a_k = threadIdx.x % 2 * 4;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
  // Past the edge of C the last row, and if ALIGNED the last columns, are read instead: what comes of them is
  // never stored. Past K there are zeros.
  const int b_first = ALIGNED ? min(col0 + b_col, g.N - 4) : col0 + b_col;
  const int b_valid = ALIGNED ? 4 : g.N - b_first;
  const float* a_from = A + min(row0 + a_row, g.M - 1) * g.lda + a_k;
  const float* b_from = B + b_k * g.ldb + b_first;

  float sums[TM][TN] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK, a_from += BK, b_from += BK * g.ldb) {
    for (int i = 0; i < BK; i += COPY_K) {
      const float4 v = load4<ALIGNED>(a_from + i, g.K - k0 - a_k - i);
      As[a_k + i + 0][a_row] = v.x;
      As[a_k + i + 1][a_row] = v.y;
      As[a_k + i + 2][a_row] = v.z;
      As[a_k + i + 3][a_row] = v.w;
      float4_at(&Bs[b_k + i][b_col]) = load4<ALIGNED>(b_from + i * g.ldb, k0 + b_k + i < g.K ? b_valid : 0);
    }
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[k][m + i / 4 * (WM / 2)]);
      for (int j = 0; j < TN; j += 4) float4_at(&b[j]) = float4_at(&Bs[k][n + j / 4 * (WN / 2)]);
      // Back and forth: consecutive FFMAs always share an operand, at the turn from one row to the next as
      // well, and a shared operand is not read from the registers again.
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) {
          const int col = i % 2 == 0 ? j : TN - 1 - j;
          sums[i][col] += a[i] * b[col];
        }
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; j += 4) {
      const int row = row0 + m + i / 4 * (WM / 2) + i % 4, col = col0 + n + j / 4 * (WN / 2);
      store4<ALIGNED>(&C[row * g.ldc + col], row < g.M ? g.N - col : 0, &sums[i][j], g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_warp_tiling<true> : sgemm_warp_tiling<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
