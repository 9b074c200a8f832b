// Step 12: a thread computes 8 x 16 elements, a block 128 x 256, and an SM holds one block.
//
// Idea      With one block per SM, a thread may use up to 255 registers, enough for 8 x 16 sums. 6 shared
//           loads then serve 128 FFMAs instead of 4 serving 64, and a block copies three quarters as much
//           per element of C.
// Change    TN and BN; shared memory is sized at launch. The larger tile also needs loads that stay where
//           they are written, where the compiler would defer them to save registers; sums in registers of
//           another order; lanes numbered along rows; and BK = 8, a shorter loop.
// Bound     Stalls, of which two warps per scheduler hide few; and the last wave, which is not full.
// Needs     sm_80+: cp.async

#include "common/cuda/async_copy.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 256, BK = 8;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 16;             // the thread's tile: TM x TN of C
constexpr int LM = 2, LN = 16;             // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;  // the warp's tile: WM x WN of C
constexpr int WARPS_N = BN / WN;           // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
static_assert(LM * LN == 32 && BM % WM == 0 && BN % WN == 0);
constexpr int PAD = 4;                    // shifts each row of As by 4 banks from the row before
constexpr int STAGES = 2;                 // buffers for the tiles
constexpr int COPY_K = 8;                 // terms of a row of A that adjacent lanes copy: 32 bytes
constexpr int A_ROWS = THREADS / COPY_K;  // rows of A that the block copies at once
constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B likewise
static_assert(BM % A_ROWS == 0 && BK % COPY_K == 0 && BK % B_ROWS == 0);

struct Tiles {
  float A[STAGES][BK][BM + PAD];  // [k][row]: A transposed
  float B[STAGES][BK][BN];        // [k][col]
};

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) sgemm_larger_tiles(Gemm g) {
  auto& [As, Bs] = dynamic_shared<Tiles>();

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // The lanes are numbered along rows again. In pairs, as in step 08, a load from Bs takes two passes through
  // shared memory instead of four; but that gains nothing here, and makes the next steps slower.
  const int m = warp / WARPS_N * WM + lane / LN * 4;  // the thread's rows: m + spread(i, LM * 4)
  const int n = warp % WARPS_N * WN + lane % LN * 4;  // its columns: n + spread(j, LN * 4)

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
    for (int i = 0; i < TM; i += 4) float4_at(&a[set][i]) = load4_now(&As[stage][k][m + spread(i, LM * 4)]);
    for (int j = 0; j < TN; j += 4) float4_at(&b[set][j]) = load4_now(&Bs[stage][k][n + spread(j, LN * 4)]);
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
      // Down one column of the thread's tile, up the next: consecutive FFMAs always share an operand, and a
      // shared operand is not read from the registers again.
      for (int j = 0; j < TN; ++j) {
        for (int i = 0; i < TM; ++i) {
          const int row = j % 2 == 0 ? i : TM - 1 - i;
          sums[row][j] += a[k % 2][row] * b[k % 2][j];
        }
      }
    }
  }

  if (g.batch < 0) {  // never runs: asks for registers, as in step 11, but with the sums swapped in pairs
#pragma unroll
    for (int j = 0; j < TN; ++j) request_registers<1, 0, 3, 2>(C, sums, j, THREADS);
  }

#pragma unroll
  for (int i = 0; i < TM; ++i) {
#pragma unroll
    for (int j = 0; j < TN; j += 4) {
      const int row = m + spread(i, LM * 4), col = n + spread(j, LN * 4);  // within the block's tile
      update4<ALIGNED>(&C[(row0 + row) * g.ldc + col0 + col], row < rows ? cols - col : 0, &sums[i][j],
                       g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_larger_tiles<true> : sgemm_larger_tiles<false>, grid, dim3(THREADS),
         sizeof(Tiles), g);
}

}  // namespace
