// Step 09: cp.async fills the next tiles in shared memory while the threads compute.
//
// Idea      Until now a tile went through registers (load, wait, store), and the block computed nothing
//           meanwhile; only the SM's other block could. cp.async copies from global to shared memory on
//           its own; a thread only requests the copy, and waits when it needs the data.
// Change    Two buffers for the tiles: the block computes from one while the other fills. One barrier per
//           tile is enough. A is transposed by copying single elements, which takes no registers either.
//           Pointers advance with the tiles, so that a copy computes few addresses.
// Bound     A whole tile's FFMAs hide the latency of global memory. What is left is waiting at the barrier.
// Needs     sm_80+: cp.async

#include "common/cuda/async_copy.hpp"
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
constexpr int PAD = 4;                    // shifts each row of As by 4 banks from the row before
constexpr int STAGES = 2;                 // buffers for the tiles
constexpr int COPY_K = 8;                 // terms of a row of A that adjacent lanes copy: 32 bytes
constexpr int A_ROWS = THREADS / COPY_K;  // rows of A that the block copies at once
constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B likewise
static_assert(BM % A_ROWS == 0 && BK % COPY_K == 0 && BK % B_ROWS == 0);

// Starts copying four neighbours in a row, of which only the first `valid` exist; zeros for the others.
// ALIGNED: both addresses are multiples of 16 bytes, and all four exist or none.
template <bool ALIGNED>
__device__ __forceinline__ void copy4(float* shared, const float* global, int valid) {
  if constexpr (ALIGNED) {
    async_copy<16>(shared, global, valid > 0);
  } else {
    for (int j = 0; j < 4; ++j) async_copy<4>(shared + j, global + j, j < valid);
  }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_async_copy(Gemm g) {
  __shared__ __align__(16) float As[STAGES][BK][BM + PAD];  // [k][row]: A transposed
  __shared__ __align__(16) float Bs[STAGES][BK][BN];        // [k][col]

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

  // What this thread copies: single elements of A, COPY_K terms and A_ROWS rows apart; 4 neighbours of a row
  // of B, B_ROWS rows apart.
  const int a_row = threadIdx.x / COPY_K, a_k = threadIdx.x % COPY_K;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
  const float* a_from = A + (row0 + a_row) * g.lda + a_k;
  const float* b_from = B + b_k * g.ldb + col0 + b_col;
  const std::int64_t a_step = A_ROWS * g.lda, b_step = B_ROWS * g.ldb;
  int left = g.K;  // terms not yet requested

  // Requests the next tiles, with zeros past the last term.
  const auto copy_tiles = [&](int stage) {
    for (int i = 0; i < BM / A_ROWS; ++i) {
      const int row = a_row + i * A_ROWS;
      for (int k = 0; k < BK; k += COPY_K) {
        async_copy<4>(&As[stage][a_k + k][row], a_from + i * a_step + k, row < rows && a_k + k < left);
      }
    }
    for (int k = 0; k < BK; k += B_ROWS, b_from += b_step) {
      copy4<ALIGNED>(&Bs[stage][b_k + k][b_col], b_from, b_k + k < left ? cols - b_col : 0);
    }
    a_from += BK;
    left -= BK;
    async_copy_commit();
  };

  float sums[TM][TN] = {};
  copy_tiles(0);
  for (int k0 = 0, stage = 0; k0 < g.K; k0 += BK, stage ^= 1) {
    async_copy_wait<0>();  // this thread's part of the tiles has arrived ...
    __syncthreads();       // ... everybody's has, and nobody needs the other buffer any more
    if (left > 0) copy_tiles(stage ^ 1);

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[stage][k][m + spread(i, LM * 4)]);
      for (int j = 0; j < TN; j += 4) float4_at(&b[j]) = float4_at(&Bs[stage][k][n + spread(j, LN * 4)]);
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) sums[i][j] += a[i] * b[j];
      }
    }
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
  launch(is_aligned(g) ? sgemm_async_copy<true> : sgemm_async_copy<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
