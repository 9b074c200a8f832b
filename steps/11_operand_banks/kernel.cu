// Step 11: the order of the FFMAs, and the registers of their sums, chosen so that operands arrive in time.
//
// Idea      Registers lie in two banks, by the parity of their numbers, and a bank delivers one operand per
//           cycle. An FFMA needs three. FFMAs can issue every cycle if each finds one operand in the reuse
//           cache (.reuse) and takes the other two from different banks.
// Change    The FFMAs go down one column of the thread's tile and up the next. And the compiler is coaxed to
//           put each sum in a register of the opposite parity to the element of A that it meets.
// Bound     What is left besides the FFMAs: loads, copies, addresses, each in an issue slot of its own.
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
__global__ void __launch_bounds__(THREADS, 2) sgemm_operand_banks(Gemm g) {
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

  // Never runs, as batch is not negative, but asks for registers: four sums that one instruction stores must
  // lie side by side, from a multiple of 4 on. In reverse order sums[i][j] gets an odd register where a[i]
  // has an even one, and vice versa, as far as the compiler keeps to it: one operand from each bank.
  if (g.batch < 0) {
    for (int j = 0; j < TN; ++j) {
      for (int i = 0; i < TM; i += 4) {
        float4_at(&C[(j * TM + i) * THREADS + threadIdx.x * 4]) =
            make_float4(sums[i + 3][j], sums[i + 2][j], sums[i + 1][j], sums[i][j]);
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
  launch(is_aligned(g) ? sgemm_operand_banks<true> : sgemm_operand_banks<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
