#pragma once

// Parts of C in FP32, those on the list or all: step 11's kernel, with blocks that take one part after the
// other, each as many rows as a part.

#include "common/cuda/async_copy.hpp"
#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/float4.hpp"
#include "common/step.hpp"
#include "steps/47_every_shape/parts.hpp"

namespace {
namespace fp32_parts {

constexpr int BM = MM, BK = 16;            // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;              // the thread's tile: TM x TN of C
constexpr int LM = 8, LN = 4;              // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;  // the warp's tile: WM x WN of C
constexpr int PAD = 4;                     // shifts each row of As by 4 banks from the row before
constexpr int STAGES = 2;                  // buffers for the tiles
constexpr int COPY_K = 8;                  // terms of a row of A that adjacent lanes copy: 32 bytes
constexpr int RESIDENT = 512;              // threads of a multiprocessor: what the registers allow
static_assert(WM == BM);

template <int BN>
constexpr int THREADS_OF = BN / WN * 32;
// Blocks that share a multiprocessor. At edges, and with short rows, addresses take more registers.
template <int BN, bool ALIGNED>
constexpr int BLOCKS_OF = RESIDENT / THREADS_OF<BN> * (ALIGNED && BN == 128 ? 4 : 3) / 4;

template <int BN, bool ALL, bool ALIGNED>  // ALL: all parts, otherwise those on the list
__global__ void __launch_bounds__(THREADS_OF<BN>, (BLOCKS_OF<BN, ALIGNED>))
    gemm_fp32(Gemm g, const unsigned* list /* [ledger->listed] */, Ledger* ledger, int parts) {
  constexpr int THREADS = THREADS_OF<BN>;
  constexpr int A_ROWS = THREADS / COPY_K;  // rows of A that the block copies at once
  constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B likewise
  static_assert(BM % A_ROWS == 0 && BK % COPY_K == 0 && BK % B_ROWS == 0);
  __shared__ __align__(16) float As[STAGES][BK][BM + PAD];  // [k][row]: A transposed
  __shared__ __align__(16) float Bs[STAGES][BK][BN];        // [k][col]

  wait_for_previous_launch();
  if (ALL && blockIdx.x == 0 && threadIdx.x == 0) {
    *ledger = {};
    ledger->taken[static_cast<int>(Path::short_k)] = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Neighbouring lanes take the same columns, lanes two apart the same rows, as in step 11.
  const int lane_m = lane / (2 * LN) * 2 + lane % 2, lane_n = lane / 2 % LN;
  const int m = lane_m * 4;              // the thread's rows: m + spread(i, LM * 4)
  const int n = warp * WN + lane_n * 4;  // its columns: n + spread(j, LN * 4)
  const int a_row = threadIdx.x / COPY_K, a_k = threadIdx.x % COPY_K;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
  const std::int64_t a_step = A_ROWS * g.lda, b_step = B_ROWS * g.ldb;

  const int count = ALL ? parts : static_cast<int>(ledger->listed);
  for (int number = blockIdx.x; number < count; number += gridDim.x) {
    const Place part = find_part<BN>(g, ALL ? number : static_cast<int>(list[number]));
    const int rows = g.M - part.row0, cols = g.N - part.col0;
    if (rows <= 0) continue;  // the lower half of the last tile
    const float* a_from = g.A + part.matrix * g.strideA + (part.row0 + a_row) * g.lda + a_k;
    const float* b_from = g.B + part.matrix * g.strideB + b_k * g.ldb + part.col0 + b_col;
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
      for (int i = 0; i < TM; i += 4) {
        float4_at(&a[set][i]) = float4_at(&As[stage][k][m + spread(i, LM * 4)]);
      }
      for (int j = 0; j < TN; j += 4) {
        float4_at(&b[set][j]) = float4_at(&Bs[stage][k][n + spread(j, LN * 4)]);
      }
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
        for (int j = 0; j < TN; ++j) {
          for (int i = 0; i < TM; ++i) {
            const int row = j % 2 == 0 ? i : TM - 1 - i;
            sums[row][j] = __fmaf_rn(a[k % 2][row], b[k % 2][j], sums[row][j]);
          }
        }
      }
    }

    float* C = g.C + part.matrix * g.strideC;
    if (g.batch < 0) {  // never runs: asks for registers, as in step 11
      for (int j = 0; j < TN; ++j) {
        for (int i = 0; i < TM; i += 4) {
          float4_at(&C[(j * TM + i) * THREADS + threadIdx.x * 4]) =
              make_float4(sums[i + 3][j], sums[i + 2][j], sums[i + 1][j], sums[i][j]);
        }
      }
    }
    for (int i = 0; i < TM; ++i) {
      for (int j = 0; j < TN; j += 4) {
        const int row = m + spread(i, LM * 4), col = n + spread(j, LN * 4);  // within the part
        update4<ALIGNED>(&C[(part.row0 + row) * g.ldc + part.col0 + col], row < rows ? cols - col : 0,
                         &sums[i][j], g.alpha, g.beta);
      }
    }
    __syncthreads();  // nobody reads fragments any more
  }
}

}  // namespace fp32_parts
}  // namespace
