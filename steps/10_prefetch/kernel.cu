// Step 10: fragments are fetched one k ahead, into a second set of registers.
//
// Idea      Within a tile the compiler hoists loads by itself, but not across the barrier. With two sets of
//           fragment registers the first loads of the next tile overlap the FFMAs of the last k.
// Change    a[2], b[2]; the last k of a tile fetches the next tile's first fragments, past the barrier.
// Bound     The operands of the FFMAs: many wait for their registers, and what waits anyway gains little from
//           loads that arrive earlier. Step 11 puts that right.
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

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_prefetch(Gemm g) {
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

  __align__(16) float a[2][TM], b[2][TN];  // fragments for this k and for the next
  const auto load_fragments = [&](int set, int stage, int k) {
    for (int i = 0; i < TM; i += 4) float4_at(&a[set][i]) = float4_at(&As[stage][k][m + spread(i, LM * 4)]);
    for (int j = 0; j < TN; j += 4) float4_at(&b[set][j]) = float4_at(&Bs[stage][k][n + spread(j, LN * 4)]);
  };

  float sums[TM][TN] = {};
  copy_tiles(0);
  async_copy_wait<0>();
  __syncthreads();  // the first tiles have arrived
  load_fragments(0, 0, 0);
#pragma unroll 1
  for (int k0 = 0, stage = 0; k0 < g.K; k0 += BK, stage ^= 1) {
    if (left > 0) copy_tiles(stage ^ 1);

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k + 1 < BK) {
        load_fragments((k + 1) % 2, stage, k + 1);
      } else {
        async_copy_wait<0>();  // this thread's part of the next tiles has arrived ...
        __syncthreads();       // ... everybody's has, and nobody needs those of `stage` any more
        load_fragments(0, k0 + BK < g.K ? stage ^ 1 : stage, 0);  // at the end anything will do
      }
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) sums[i][j] += a[k % 2][i] * b[k % 2][j];
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
  launch(is_aligned(g) ? sgemm_prefetch<true> : sgemm_prefetch<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
