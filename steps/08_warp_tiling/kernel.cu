// Step 08: a warp computes a compact tile of its own, and its lanes are numbered so that they share loads.
//
// Idea      Per k, a warp of step 07 fetches 16 different elements of A and 128 of B; as 8 x 4 lanes it
//           would fetch 64 and 32. That alone saves nothing: the hardware splits a load of 128 bits into
//           quarters of the warp, whatever the lanes share. But it merges quarters if each lane wants the
//           same as its neighbour, or the same as the lane two further on.
// Change    The block's tile is divided among warps (WM x WN each), the warp's among its lanes, which are
//           numbered so that the hardware merges the quarters in loads of A and of B.
// Bound     8 wavefronts per k and warp instead of 12. Shared memory no longer limits the kernel.

#include "common/cuda/float4.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;               // the thread's tile: TM x TN of C
constexpr int LM = 8, LN = 4;               // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;   // the warp's tile: WM x WN of C
constexpr int WARPS_N = BN / WN;            // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
static_assert(LM * LN == 32 && BM % WM == 0 && BN % WN == 0);
constexpr int PAD = 4;     // shifts each row of As by 4 banks from the row before
constexpr int COPY_K = 8;  // the block copies COPY_K terms of A and of B at once, 4 elements a thread
static_assert(BM * COPY_K == THREADS * 4 && COPY_K * BN == THREADS * 4 && BK % COPY_K == 0);

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_warp_tiling(Gemm g) {
  __shared__ __align__(16) float As[BK][BM + PAD];  // [k][row]: A transposed
  __shared__ __align__(16) float Bs[BK][BN];        // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Neighbouring lanes take the same columns, and lanes 2 apart the same rows: a load of 128 bits from As or
  // Bs then takes two passes through shared memory. With lanes numbered along rows, Bs would take four.
  const int lane_m = lane / (2 * LN) * 2 + lane % 2, lane_n = lane / 2 % LN;
  const int m = warp / WARPS_N * WM + lane_m * 4;  // the thread's rows: m + spread(i, LM * 4)
  const int n = warp % WARPS_N * WN + lane_n * 4;  // its columns: n + spread(j, LN * 4)

  // What this thread copies: 4 neighbours of a row of A, and 4 of a row of B; then the same again, COPY_K
  // terms further on.
  const int a_row = threadIdx.x / (COPY_K / 4), a_k = threadIdx.x % (COPY_K / 4) * 4;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;

  float sums[TM][TN] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    const int left = g.K - k0;  // terms
    for (int k = 0; k < BK; k += COPY_K) {
      const float* a_from = A + (row0 + a_row) * g.lda + k0 + k + a_k;
      const float* b_from = B + (k0 + k + b_k) * g.ldb + col0 + b_col;
      const float4 a4 = load4<ALIGNED>(a_from, a_row < rows ? left - k - a_k : 0);
      As[k + a_k + 0][a_row] = a4.x;
      As[k + a_k + 1][a_row] = a4.y;
      As[k + a_k + 2][a_row] = a4.z;
      As[k + a_k + 3][a_row] = a4.w;
      float4_at(&Bs[k + b_k][b_col]) = load4<ALIGNED>(b_from, k + b_k < left ? cols - b_col : 0);
    }
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[k][m + spread(i, LM * 4)]);
      for (int j = 0; j < TN; j += 4) float4_at(&b[j]) = float4_at(&Bs[k][n + spread(j, LN * 4)]);
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) sums[i][j] += a[i] * b[j];
      }
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; j += 4) {
      const int row = m + spread(i, LM * 4), col = n + spread(j, LN * 4);  // within the block's tile
      update4<ALIGNED>(&C[(row0 + row) * g.ldc + col0 + col], row < rows ? cols - col : 0, &sums[i][j],
                       g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_warp_tiling<true> : sgemm_warp_tiling<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
