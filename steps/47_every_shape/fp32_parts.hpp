#pragma once

// Parts of C in FP32: those that the guard refuses or, where K is short, all.

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

constexpr int BM = 64, BN = 128;        // a part
constexpr int TM = 8;                   // rows of a thread's tile
constexpr int LM = 8, LN = 4;           // the lanes of a warp: LM down, LN across
constexpr int PAD = 4;                  // shifts each row in shared memory by 4 banks from the row before
constexpr int STAGES = 2;               // buffers for the tiles
constexpr int COPY_K = 8;               // terms of a row of A that adjacent lanes copy: 32 bytes
static_assert(BM == MM && BN == ::BN);  // a part is a warpgroup's
static_assert(LM * LN == 32 && LM * TM == BM);

// TEAMS teams of THREADS threads share a part: each sums up every TEAMS-th tile of BK terms.
template <int TN_, int BK_, int TEAMS_>
struct Shape {
  static constexpr int TN = TN_, BK = BK_, TEAMS = TEAMS_;
  static constexpr int WN = LN * TN;               // columns of a warp's tile, which has all BM rows
  static constexpr int THREADS = BN / WN * 32;     // of a team
  static constexpr int A_ROWS = THREADS / COPY_K;  // rows of A that a team copies at once
  static constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B likewise
  static_assert(BM % A_ROWS == 0 && BK % COPY_K == 0 && BK % B_ROWS == 0);

  struct Tiles {
    alignas(16) float A[STAGES][BK][BM + PAD];
    float B[STAGES][BK][BN];
  };
  union Memory {
    Tiles tiles[TEAMS];
    float sums[TEAMS][BM][BN + PAD];
  };
};
using Alone = Shape<8, 16, 1>;     // as in step 11
using Together = Shape<16, 8, 4>;  // as in step 12
constexpr int PER_SM = 3;          // blocks of gemm_fp32 on a multiprocessor

// Computes a part with TEAMS * THREADS threads, of which this is one, in memory that nobody else needs. Named
// barriers from `barrier` on are theirs: one for all, and behind it one for each team. ALIGNED: A, B and C
// are, to float4, and B is not transposed.
template <class Shape, bool ALIGNED>
__device__ __forceinline__ void compute(const Gemm& g, Transposed transposed, const Part& part,
                                        typename Shape::Memory& memory, int thread, int barrier) {
  constexpr int TN = Shape::TN, BK = Shape::BK, TEAMS = Shape::TEAMS, THREADS = Shape::THREADS;
  constexpr int A_ROWS = Shape::A_ROWS, B_ROWS = Shape::B_ROWS;
  const int team = TEAMS > 1 ? __shfl_sync(~0u, thread / THREADS, 0) : 0, in_team = thread % THREADS;
  const int warp = in_team / 32, lane = in_team % 32;
  auto& [As, Bs] = memory.tiles[team];
  const auto sync_team = [&] { named_barrier_sync(barrier + 1 + team, THREADS); };
  const int lane_m = lane / (2 * LN) * 2 + lane % 2, lane_n = lane / 2 % LN;  // as in step 08
  const int m = lane_m * 4;                     // the thread's rows: m + spread(i, LM * 4)
  const int n = warp * Shape::WN + lane_n * 4;  // its columns: n + spread(j, LN * 4)
  const int a_row = in_team / COPY_K, a_k = in_team % COPY_K;
  const int b_k = in_team / (BN / 4), b_col = in_team % (BN / 4) * 4;
  // How far apart in memory a row or column and the next are, and a k and the next.
  const std::int64_t a_apart = transposed.a ? 1 : g.lda, a_along = transposed.a ? g.lda : 1;
  const std::int64_t b_apart = transposed.b ? g.ldb : 1, b_along = transposed.b ? 1 : g.ldb;

  const int rows = g.M - part.row0, cols = g.N - part.col0;
  const int first_k = team * BK;
  const float* a_from =
      g.A + part.matrix * g.strideA + (part.row0 + a_row) * a_apart + (first_k + a_k) * a_along;
  const float* b_from =
      g.B + part.matrix * g.strideB + (first_k + b_k) * b_along + (part.col0 + b_col) * b_apart;
  const std::int64_t a_step = A_ROWS * a_apart, b_step = B_ROWS * b_along;
  int left = g.K - first_k;  // terms not yet requested, and those of other teams between them

  // Requests the next tiles, with zeros past the last term.
  const auto copy_tiles = [&](int stage) {
    float* to = &As[stage][a_k][a_row];
    for (int k = 0; k < BK; k += COPY_K) {
      const int there = a_k + k < left ? rows - a_row : 0;
      const float* from = a_from + k * a_along;
#pragma unroll
      for (int r = 0; r < BM; r += A_ROWS, from += a_step) {
        async_copy<4>(to + k * (BM + PAD) + r, from, r < there);
      }
    }
    a_from += TEAMS * BK * a_along;
    to = &Bs[stage][b_k][b_col];
    const float* from = b_from;
#pragma unroll
    for (int k = 0; k < BK; k += B_ROWS, to += B_ROWS * BN, from += b_step) {
      const int there = k < left - b_k ? cols - b_col : 0;
      if constexpr (ALIGNED) {
        copy4<true>(to, from, there);
      } else {
        for (int c = 0; c < 4; ++c) async_copy<4>(to + c, from + c * b_apart, c < there);
      }
    }
    b_from += TEAMS * BK * b_along;
    left -= TEAMS * BK;
    async_copy_commit();
  };

  __align__(16) float a[2][TM], b[2][TN];  // fragments for this k and for the next
  const auto load_fragments = [&](int set, int stage, int k) {
    for (int r = 0; r < TM; r += 4) float4_at(&a[set][r]) = load4_now(&As[stage][k][m + spread(r, LM * 4)]);
    for (int c = 0; c < TN; c += 4) float4_at(&b[set][c]) = load4_now(&Bs[stage][k][n + spread(c, LN * 4)]);
  };

  float sums[TM][TN] = {};
  copy_tiles(0);
  async_copy_wait<0>();
  sync_team();
  load_fragments(0, 0, 0);
#pragma unroll 1
  for (int k0 = first_k, stage = 0; k0 < g.K; k0 += TEAMS * BK, stage ^= 1) {
    copy_tiles(stage ^ 1);  // at the end zeros, which nobody needs: cheaper than a branch
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k + 1 < BK) {
        load_fragments((k + 1) % 2, stage, k + 1);
      } else {
        async_copy_wait<0>();  // this thread's part of the next tiles has arrived ...
        sync_team();           // ... the whole team's has, and nobody needs those of `stage`
        load_fragments(0, k0 + TEAMS * BK < g.K ? stage ^ 1 : stage, 0);  // at the end anything will do
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
  if (g.batch < 0) {  // never runs: asks for registers, as in steps 11 and 12
#pragma unroll
    for (int c = 0; c < TN; ++c) {
      if constexpr (TN == 8) {
        request_registers<3, 2, 1, 0>(C, sums, c, THREADS);
      } else {
        request_registers<1, 0, 3, 2>(C, sums, c, THREADS);
      }
    }
  }
  if constexpr (TEAMS == 1) {
#pragma unroll
    for (int r = 0; r < TM; ++r) {
#pragma unroll
      for (int c = 0; c < TN; c += 4) {
        const int row = m + spread(r, LM * 4), col = n + spread(c, LN * 4);
        update4<ALIGNED>(&C[row * g.ldc + col], row < rows ? cols - col : 0, &sums[r][c], g.alpha, g.beta);
      }
    }
  } else {
    named_barrier_sync(barrier, TEAMS * THREADS);  // nobody needs the tiles
#pragma unroll
    for (int r = 0; r < TM; ++r) {
#pragma unroll
      for (int c = 0; c < TN; c += 4) {
        float4_at(&memory.sums[team][m + spread(r, LM * 4)][n + spread(c, LN * 4)]) = float4_at(&sums[r][c]);
      }
    }
    named_barrier_sync(barrier, TEAMS * THREADS);
    for (int i = thread * 4; i < BM * BN; i += TEAMS * THREADS * 4) {
      const int row = i / BN, col = i % BN;
      __align__(16) float all[4] = {};
      for (int t = 0; t < TEAMS; ++t) {
        const float4 of_team = float4_at(&memory.sums[t][row][col]);
        all[0] += of_team.x, all[1] += of_team.y, all[2] += of_team.z, all[3] += of_team.w;
      }
      update4<ALIGNED>(&C[row * g.ldc + col], row < rows ? cols - col : 0, all, g.alpha, g.beta);
    }
  }
}

// All parts of C, one after the other.
template <bool ALIGNED>
__global__ void __launch_bounds__(Alone::THREADS, PER_SM)
    gemm_fp32(Gemm g, Transposed transposed, Ledger* ledger, int parts) {
  __shared__ Alone::Memory memory;
  let_next_launch_begin();
  wait_for_previous_launch();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *ledger = {};
    ledger->taken[static_cast<int>(Path::short_k)] = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  }
  for (int i = blockIdx.x; i < parts; i += gridDim.x) {
    __syncthreads();  // nobody needs the memory for the part before
    compute<Alone, ALIGNED>(g, transposed, find_part<1>(g, i), memory, threadIdx.x, 1);
  }
}

void launch_all(const Gemm& g, Transposed transposed, Ledger* ledger) {
  const int parts = tiles_of(g, BM);
  launch(is_aligned(g) && !transposed.b ? gemm_fp32<true> : gemm_fp32<false>,
         LaunchConfig{.grid = dim3(min(parts, PER_SM * multiprocessors())),
                      .block = dim3(Alone::THREADS),
                      .overlaps_previous = true},
         g, transposed, ledger, parts);
}

// Takes a waiting part of C for the calling warp's block; -1 if none is left. First those that the block has
// refused: `own` is the latest of its parts that may be among them (-1: none). Then any of all `parts`.
template <int CONSUMERS>
__device__ __forceinline__ int take_refused(unsigned* refused, int parts, int& own) {
  const int words = ceil_div(parts, 32), lane = threadIdx.x % 32;
  const auto take = [&](int part) {  // whether nobody else has taken it
    const unsigned bit = 1u << part % 32, before = lane == 0 ? atomicAnd(&refused[part / 32], ~bit) : 0;
    return (__shfl_sync(~0u, before, 0) & bit) != 0;
  };
  while (own >= 0) {
    const int number = static_cast<int>(blockIdx.x + own / CONSUMERS * gridDim.x);
    const int part = number * CONSUMERS + own % CONSUMERS;
    --own;
    if (take(part)) return part;
  }
  const int first = static_cast<int>(std::int64_t{words} * blockIdx.x / gridDim.x);  // word
  for (int i = 0; i < words; i += 32) {
    const int word = (first + i + lane) % words;
    unsigned bits =
        i + lane < words ? atomicOr(&refused[word], 0u) : 0;  // reads where others write: in the L2
    for (;;) {
      const int nearest = __reduce_min_sync(~0u, bits != 0 ? lane : 32);
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
