#pragma once

// Parts of C in FP32, as step 11 computes a tile: those that the guard refuses or, where K is short, all.

#include "common/cuda/async_copy.hpp"
#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/named_barrier.hpp"
#include "common/step.hpp"
#include "steps/47_every_shape/parts.hpp"

namespace {

// A is [K][M] in memory, B is [N][K].
struct Transposed {
  bool a, b;
};

namespace fp32_parts {

constexpr int BM = 64, BN = 128, BK = 16;  // a part, and its terms in a tile
constexpr int TM = 8, TN = 8;              // the thread's tile
constexpr int LM = 8, LN = 4;              // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;  // the warp's tile
constexpr int WARPS_N = BN / WN;           // warps across the part
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int PER_SM = 3;                 // blocks of gemm_fp32 on a multiprocessor
constexpr int PAD = 4;                    // shifts each row of As by 4 banks from the row before
constexpr int STAGES = 2;                 // buffers for the tiles
constexpr int COPY_K = 8;                 // terms of a row of A that adjacent lanes copy: 32 bytes
constexpr int A_ROWS = THREADS / COPY_K;  // rows of A that all threads copy at once
constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B likewise
static_assert(BM == MM && BN == ::BN && THREADS == 128);  // a part is a warpgroup's
static_assert(LM * LN == 32 && BM % A_ROWS == 0 && BK % COPY_K == 0 && BK % B_ROWS == 0);

// Where the tiles of a part lie.
struct Tiles {
  alignas(16) float A[STAGES][BK][BM + PAD];
  float B[STAGES][BK][BN];
};

// Computes a part with THREADS threads, which have a named barrier to themselves.
template <bool ALIGNED>
__device__ __forceinline__ void compute(const Gemm& g, Transposed transposed, const Part& part, Tiles& tiles,
                                        int thread, int barrier) {
  auto& [As, Bs] = tiles;
  const int warp = thread / 32, lane = thread % 32;
  const int lane_m = lane / (2 * LN) * 2 + lane % 2, lane_n = lane / 2 % LN;  // as in step 08
  const int m = warp / WARPS_N * WM + lane_m * 4;  // the thread's rows: m + spread(i, LM * 4)
  const int n = warp % WARPS_N * WN + lane_n * 4;  // its columns: n + spread(j, LN * 4)
  const int a_row = thread / COPY_K, a_k = thread % COPY_K;
  const int b_k = thread / (BN / 4), b_col = thread % (BN / 4) * 4;
  // How far apart in memory a row or column and the next are, and a k and the next.
  const std::int64_t a_apart = transposed.a ? 1 : g.lda, a_along = transposed.a ? g.lda : 1;
  const std::int64_t b_apart = transposed.b ? g.ldb : 1, b_along = transposed.b ? 1 : g.ldb;

  const int rows = g.M - part.row0, cols = g.N - part.col0;
  const float* a_from = g.A + part.matrix * g.strideA + (part.row0 + a_row) * a_apart + a_k * a_along;
  const float* b_from = g.B + part.matrix * g.strideB + b_k * b_along + (part.col0 + b_col) * b_apart;
  int left = g.K;  // terms not yet requested

  // Requests the next tiles, with zeros past the last term.
  const auto copy_tiles = [&](int stage) {
#pragma unroll
    for (int r = 0; r < BM; r += A_ROWS) {
#pragma unroll
      for (int k = 0; k < BK; k += COPY_K) {
        async_copy<4>(&As[stage][a_k + k][a_row + r], a_from + r * a_apart + k * a_along,
                      a_row + r < rows && a_k + k < left);
      }
    }
#pragma unroll
    for (int k = 0; k < BK; k += B_ROWS) {
      float* to = &Bs[stage][b_k + k][b_col];
      const int there = b_k + k < left ? cols - b_col : 0;  // columns of B
      if (transposed.b) {
        for (int c = 0; c < 4; ++c) async_copy<4>(to + c, b_from + k * b_along + c * b_apart, c < there);
      } else {
        copy4<ALIGNED>(to, b_from + k * b_along, there);
      }
    }
    a_from += BK * a_along;
    b_from += BK * b_along;
    left -= BK;
    async_copy_commit();
  };

  __align__(16) float a[2][TM], b[2][TN];  // fragments for this k and for the next
  const auto load_fragments = [&](int set, int stage, int k) {
    for (int r = 0; r < TM; r += 4) float4_at(&a[set][r]) = float4_at(&As[stage][k][m + spread(r, LM * 4)]);
    for (int c = 0; c < TN; c += 4) float4_at(&b[set][c]) = float4_at(&Bs[stage][k][n + spread(c, LN * 4)]);
  };

  float sums[TM][TN] = {};
  named_barrier_sync(barrier, THREADS);  // nobody needs the tiles of the part before
  copy_tiles(0);
  async_copy_wait<0>();
  named_barrier_sync(barrier, THREADS);
  load_fragments(0, 0, 0);
#pragma unroll 1
  for (int k0 = 0, stage = 0; k0 < g.K; k0 += BK, stage ^= 1) {
    if (left > 0) copy_tiles(stage ^ 1);
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k + 1 < BK) {
        load_fragments((k + 1) % 2, stage, k + 1);
      } else {
        async_copy_wait<0>();                  // this thread's part of the next tiles has arrived ...
        named_barrier_sync(barrier, THREADS);  // ... everybody's has, and nobody needs those of `stage`
        load_fragments(0, k0 + BK < g.K ? stage ^ 1 : stage, 0);  // at the end anything will do
      }
      for (int c = 0; c < TN; ++c) {
        for (int r = 0; r < TM; ++r) {
          const int row = c % 2 == 0 ? r : TM - 1 - r;
          sums[row][c] = __fmaf_rn(a[k % 2][row], b[k % 2][c], sums[row][c]);
        }
      }
    }
  }

  float* C = g.C + part.matrix * g.strideC + part.row0 * g.ldc + part.col0;
  if (g.batch < 0) {  // never runs: asks for registers, as in step 11
#pragma unroll
    for (int c = 0; c < TN; ++c) request_registers<3, 2, 1, 0>(C, sums, c, THREADS);
  }
#pragma unroll
  for (int r = 0; r < TM; ++r) {
#pragma unroll
    for (int c = 0; c < TN; c += 4) {
      const int row = m + spread(r, LM * 4), col = n + spread(c, LN * 4);
      update4<ALIGNED>(&C[row * g.ldc + col], row < rows ? cols - col : 0, &sums[r][c], g.alpha, g.beta);
    }
  }
}

// All parts of C, one after the other.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, PER_SM)
    gemm_fp32(Gemm g, Transposed transposed, Ledger* ledger, int parts) {
  __shared__ Tiles tiles;
  let_next_launch_begin();
  wait_for_previous_launch();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *ledger = {};
    ledger->taken[static_cast<int>(Path::short_k)] = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  }
  for (int i = blockIdx.x; i < parts; i += gridDim.x) {
    compute<ALIGNED>(g, transposed, find_part<1>(g, i), tiles, threadIdx.x, 1);
  }
}

void launch_all(const Gemm& g, Transposed transposed, Ledger* ledger) {
  const int parts = tiles_of(g, BM);
  launch(is_aligned(g) ? gemm_fp32<true> : gemm_fp32<false>,
         LaunchConfig{.grid = dim3(min(parts, PER_SM * multiprocessors())),
                      .block = dim3(THREADS),
                      .overlaps_previous = true},
         g, transposed, ledger, parts);
}

// Takes a waiting part of C for the calling warp; -1 if none is left. First those that its warpgroup has
// refused: `own` is the latest (-1: none), the others are among those at multiples of `apart` before it. Then
// any of all `parts`, searched from `first` on.
__device__ __forceinline__ int take_refused(unsigned* refused, int parts, int& own, int apart, int first) {
  const int words = ceil_div(parts, 32), lane = threadIdx.x % 32;
  const auto take = [&](int part) {  // whether nobody else has taken it
    const unsigned bit = 1u << part % 32, before = lane == 0 ? atomicAnd(&refused[part / 32], ~bit) : 0;
    return (__shfl_sync(~0u, before, 0) & bit) != 0;
  };
  for (; own >= 0; own -= apart) {
    if (take(own)) return own;
  }
  for (int i = 0; i < words; i += 32) {
    const int word = (first / 32 + i + lane) % words;
    unsigned bits =
        i + lane < words ? atomicOr(&refused[word], 0u) : 0;  // reads where others write: in the L2
    for (;;) {
      int nearest = bits != 0 ? lane : 32;
      for (int lanes = 1; lanes < 32; lanes *= 2)
        nearest = min(nearest, __shfl_xor_sync(~0u, nearest, lanes));
      if (nearest == 32) break;
      const int part = __shfl_sync(~0u, word * 32 + __ffs(static_cast<int>(bits)) - 1, nearest);
      if (take(part)) return part;
      if (lane == nearest) bits &= bits - 1;  // somebody else has taken it
    }
  }
  return -1;
}

}  // namespace fp32_parts

}  // namespace
