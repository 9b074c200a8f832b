#pragma once

// Tiles of any size, filled by cp.async as in step 09, for shapes on which large tiles leave the GPU idle.
// The K terms of a tile may be split among several blocks (split-K). Two of them are a cluster, and add up
// their sums through each other's shared memory; the sums of more are added up by a second kernel. Blocks
// start while the last ones of the launch before end, and wait for what those write. But not with more than
// two splits: so launched, the kernel was up to 1.4 times slower (4096 x 16 x 4096, where the launch before
// lets it start early).

#include "common/cuda/async_copy.hpp"
#include "common/cuda/cluster.hpp"
#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {
namespace small_tiles {

// A block's tile is BM_ x BN_ of C, BK_ terms at a time; a thread's TM_ x TN_; a warp has LM_ lanes down.
template <int BM_, int BN_, int BK_, int TM_, int TN_, int LM_, int STAGES_, int BLOCKS_>
struct Shape {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, TM = TM_, TN = TN_, LM = LM_, LN = 32 / LM;
  static constexpr int STAGES = STAGES_;  // buffers for the tiles
  static constexpr int BLOCKS = BLOCKS_;  // that an SM holds at the same time
  static constexpr int WM = LM * TM, WN = LN * TN, WARPS_N = BN / WN, THREADS = BM / WM * WARPS_N * 32;
  static constexpr int PAD = 4, COPY_K = 8, A_ROWS = THREADS / COPY_K;
  static_assert(LM * LN == 32 && BM % WM == 0 && BN % WN == 0 && BK % COPY_K == 0);

  struct Tiles {
    float A[STAGES][BK][BM + PAD];  // [k][row]: A transposed
    float B[STAGES][BK][BN];        // [k][col]
  };
  // In place of the tiles, after the last of them: what the block stores in the order of C.
  struct Sums {
    float C[BM][BN + PAD];  // [row][col], rows shifted by 4 banks as those of A
  };
};

// C = alpha * sums + beta * C for the tile, by way of shared memory: neighbouring lanes store neighbours in a
// row of C, and the sums of the other block of a cluster are added. Each block of a cluster does so for half
// of the tile.
template <typename S, bool ALIGNED>
__device__ __forceinline__ void store_in_order(float* C, std::int64_t ldc, int rows, int cols, int m, int n,
                                               const float (&sums)[S::TM][S::TN], float alpha, float beta) {
  constexpr int VEC = ALIGNED ? 4 : 1, ACROSS = S::BN / VEC;  // elements stored at once, in a row of the tile
  constexpr int EACH = S::TM * S::TN / VEC / 2;               // times that a thread of two blocks does so
  constexpr int BATCH = EACH < 8 ? EACH : 8;                  // loaded before the first of them is stored
  static_assert(EACH % BATCH == 0);
  auto& [mine] = dynamic_shared<typename S::Sums>();
  __syncthreads();  // nobody needs the tiles any more
  // Scaled here already: the scaled sums have registers of their own. If four sums were stored as they are,
  // at once, they would have to lie side by side, which does not suit the main loop (step 11).
#pragma unroll
  for (int i = 0; i < S::TM; ++i) {
#pragma unroll
    for (int j = 0; j < S::TN; j += 4) {
      float4_at(&mine[m + spread(i, S::LM * 4)][n + spread(j, S::LN * 4)]) = make_float4(
          alpha * sums[i][j], alpha * sums[i][j + 1], alpha * sums[i][j + 2], alpha * sums[i][j + 3]);
    }
  }
  const int blocks = cluster_size(), step = blocks * S::THREADS;
  blocks > 1 ? cluster_sync() : __syncthreads();  // everybody's sums are there
  for (int first = cluster_block_rank() * S::THREADS + threadIdx.x; first < S::BM * ACROSS;
       first += BATCH * step) {
    __align__(16) float total[BATCH][VEC] = {};
    for (int other = 0; other < blocks; ++other) {
      const float* theirs = cluster_map_shared(&mine[0][0], other);
#pragma unroll
      for (int i = 0; i < BATCH; ++i) {
        const int row = (first + i * step) / ACROSS, col = (first + i * step) % ACROSS * VEC;
        const float* from = &theirs[row * (S::BN + S::PAD) + col];
        if constexpr (ALIGNED) {
          const float4 v = *reinterpret_cast<const float4*>(from);
          total[i][0] += v.x, total[i][1] += v.y, total[i][2] += v.z, total[i][3] += v.w;
        } else {
          total[i][0] += *from;
        }
      }
    }
#pragma unroll
    for (int i = 0; i < BATCH; ++i) {
      const int row = (first + i * step) / ACROSS, col = (first + i * step) % ACROSS * VEC;
      float* c = &C[row * ldc + col];
      if constexpr (ALIGNED) {
        update4<true>(c, row < rows ? cols - col : 0, total[i], 1.0f, beta);
      } else if (row < rows && col < cols) {
        update(*c, total[i][0], 1.0f, beta);
      }
    }
  }
  if (blocks > 1) cluster_sync();  // nobody reads this block's sums any more
}

// The terms [split * terms, (split + 1) * terms) of a tile. Two splits are a cluster; more write their sums
// to partial[matrix][split][M][N].
template <typename S, bool ALIGNED>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS)
    sgemm_small_tiles(Gemm g, int splits, int terms, float* partial) {
  constexpr int BM = S::BM, BN = S::BN, BK = S::BK, TM = S::TM, TN = S::TN, LM = S::LM, LN = S::LN;
  constexpr int STAGES = S::STAGES;
  auto& [As, Bs] = dynamic_shared<typename S::Tiles>();

  const int matrix = blockIdx.z / splits, split = blockIdx.z % splits;
  const float* A = g.A + matrix * g.strideA;  // [M][K]
  const float* B = g.B + matrix * g.strideB;  // [K][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int first = split * terms, end = min(g.K, first + terms);  // the block's terms
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int lane_m = lane / (2 * LN) * 2 + lane % 2, lane_n = lane / 2 % LN;  // as in step 08
  const int m = warp / S::WARPS_N * S::WM + lane_m * 4;  // the thread's rows: m + spread(i, LM * 4)
  const int n = warp % S::WARPS_N * S::WN + lane_n * 4;  // its columns: n + spread(j, LN * 4)

  // What this thread copies: of A as in step 09; of B four neighbours, or single elements if rows are not
  // aligned. Neighbouring lanes take what follows in a row, so that no two want the same bank.
  constexpr int VEC = ALIGNED ? 4 : 1;
  constexpr int B_COLS = S::THREADS * VEC < BN ? S::THREADS * VEC : BN,
                B_ROWS = S::THREADS * VEC / B_COLS;  // copied at once
  static_assert(BN % B_COLS == 0 && BK % B_ROWS == 0);
  const int a_row = threadIdx.x / S::COPY_K, a_k = threadIdx.x % S::COPY_K;
  const int b_k = threadIdx.x / (B_COLS / VEC), b_col = threadIdx.x % (B_COLS / VEC) * VEC;
  const float* a_from = A + (row0 + a_row) * g.lda + first + a_k;
  const float* b_from = B + (first + b_k) * g.ldb + col0 + b_col;
  const std::int64_t a_step = S::A_ROWS * g.lda, b_step = B_ROWS * g.ldb;
  int left = end - first;  // terms not yet requested
  wait_for_previous_launch();

  const auto copy_tiles = [&](int stage) {
#pragma unroll
    for (int i = 0; i < ceil_div(BM, S::A_ROWS); ++i) {
      const int row = a_row + i * S::A_ROWS;
      if (BM % S::A_ROWS != 0 && row >= BM) continue;  // no such row
#pragma unroll
      for (int k = 0; k < BK; k += S::COPY_K) {
        async_copy<4>(&As[stage][a_k + k][row], a_from + i * a_step + k, row < rows && a_k + k < left);
      }
    }
#pragma unroll
    for (int k = 0; k < BK; k += B_ROWS, b_from += b_step) {
#pragma unroll
      for (int j = 0; j < BN; j += B_COLS) {
        async_copy<4 * VEC>(&Bs[stage][b_k + k][b_col + j], b_from + j, b_k + k < left && b_col + j < cols);
      }
    }
    a_from += BK;
    left -= BK;
    async_copy_commit();
  };

  __align__(16) float a[2][TM], b[2][TN];  // fragments for this k and for the next
  const auto load_fragments = [&](int set, int stage, int k) {
#pragma unroll
    for (int i = 0; i < TM; i += 4) float4_at(&a[set][i]) = float4_at(&As[stage][k][m + spread(i, LM * 4)]);
#pragma unroll
    for (int j = 0; j < TN; j += 4) float4_at(&b[set][j]) = float4_at(&Bs[stage][k][n + spread(j, LN * 4)]);
  };

  float sums[TM][TN] = {};
  // Down one column of the thread's tile, up the next, as in step 11.
  const auto multiply = [&](int set) {
#pragma unroll
    for (int j = 0; j < TN; ++j) {
#pragma unroll
      for (int i = 0; i < TM; ++i) {
        const int row = j % 2 == 0 ? i : TM - 1 - i;
        sums[row][j] += a[set][row] * b[set][j];
      }
    }
  };
#pragma unroll 1
  for (int stage = 0; stage < STAGES - 1; ++stage) copy_tiles(stage);
  async_copy_wait<STAGES - 2>();
  __syncthreads();  // the first tiles have arrived
  load_fragments(0, 0, 0);
  int stage = 0, stage_to_fill = STAGES - 1, k0 = first;
#pragma unroll 1
  for (; k0 + BK <= end; k0 += BK) {
    copy_tiles(stage_to_fill);  // past the last term: zeros
    stage_to_fill = stage_to_fill + 1 == STAGES ? 0 : stage_to_fill + 1;
    const int next = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      if (k + 1 < BK) {
        load_fragments((k + 1) % 2, stage, k + 1);
      } else {
        async_copy_wait<STAGES - 2>();  // this thread's part of the next tiles has arrived ...
        __syncthreads();                // ... everybody's has, and nobody needs those of `stage` any more
        load_fragments(0, next, 0);
      }
      multiply(k % 2);
    }
    stage = next;
  }
#pragma unroll 1
  for (int k = 0; k < end - k0; ++k) {  // the terms that fill no tile
    load_fragments(0, stage, k);
    multiply(0);
  }
  async_copy_wait<0>();

  const std::int64_t size = static_cast<std::int64_t>(g.M) * g.N;
  const std::int64_t ldc = partial != nullptr ? g.N : g.ldc;
  float* C =
      (partial != nullptr ? partial + blockIdx.z * size : g.C + matrix * g.strideC) + row0 * ldc + col0;
  const float alpha = partial != nullptr ? 1.0f : g.alpha, beta = partial != nullptr ? 0.0f : g.beta;
  if (ALIGNED && cluster_size() == 1) {  // a lane stores four neighbours: that is in order enough
#pragma unroll
    for (int i = 0; i < TM; ++i) {
#pragma unroll
      for (int j = 0; j < TN; j += 4) {
        const int row = m + spread(i, LM * 4), col = n + spread(j, LN * 4);
        update4<true>(&C[row * ldc + col], row < rows ? cols - col : 0, &sums[i][j], alpha, beta);
      }
    }
  } else {
    store_in_order<S, ALIGNED>(C, ldc, rows, cols, m, n, sums, alpha, beta);
  }
}

// C = alpha * (the sum of the splits) + beta * C. A block adds up 32 float4; SHARERS threads share the splits
// of each.
constexpr int SHARERS = 8;
template <bool ALIGNED>
__global__ void __launch_bounds__(32 * SHARERS) add_splits(Gemm g, int splits, const float* partial) {
  __shared__ __align__(16) float parts[SHARERS][32 * 4];
  const std::int64_t size = static_cast<std::int64_t>(g.M) * g.N, matrix = blockIdx.y;
  const int across = ceil_div(g.N, 4), x = threadIdx.x % 32, y = threadIdx.x / 32;
  const std::int64_t vec4 = static_cast<std::int64_t>(blockIdx.x) * 32 + x;
  const std::int64_t row = vec4 / across;
  const int col = static_cast<int>(vec4 % across) * 4, left = row < g.M ? g.N - col : 0;
  const float* from = partial + matrix * splits * size + row * g.N + col;
  float sums[4] = {};
  wait_for_previous_launch();
#pragma unroll 4
  for (int split = y; split < splits; split += SHARERS) {
    const float4 v = load4<ALIGNED>(from + split * size, left);
    sums[0] += v.x, sums[1] += v.y, sums[2] += v.z, sums[3] += v.w;
  }
  float4_at(&parts[y][x * 4]) = make_float4(sums[0], sums[1], sums[2], sums[3]);
  __syncthreads();
  if (y > 0) return;
  for (int other = 1; other < min(SHARERS, splits); ++other) {
    const float4 v = float4_at(&parts[other][x * 4]);
    sums[0] += v.x, sums[1] += v.y, sums[2] += v.z, sums[3] += v.w;
  }
  update4<ALIGNED>(g.C + matrix * g.strideC + row * g.ldc + col, left, sums, g.alpha, g.beta);
}

template <typename S>
void run(const Gemm& g, int splits) {
  static Workspace<float> workspace("partial sums");
  const int terms = ceil_div(ceil_div(g.K, splits), S::BK) * S::BK;  // of a split
  splits = max(ceil_div(g.K, max(terms, 1)), 1);
  const std::size_t size = static_cast<std::size_t>(g.M) * g.N * g.batch;
  float* partial = splits <= 2 ? nullptr : workspace.at_least(size * splits);
  const dim3 grid(ceil_div(g.N, S::BN), ceil_div(g.M, S::BM), g.batch * splits);
  const std::size_t tiles = sizeof(typename S::Tiles), sums = sizeof(typename S::Sums);
  const bool aligned = is_aligned(g), pairs = splits == 2;
  const LaunchConfig config{grid, dim3(S::THREADS), pairs || !aligned ? max(tiles, sums) : tiles,
                            dim3(1, 1, pairs ? 2 : 1), splits <= 2};
  launch(aligned ? sgemm_small_tiles<S, true> : sgemm_small_tiles<S, false>, config, g, splits, terms,
         partial);
  if (splits <= 2) return;
  const std::int64_t vec4s = static_cast<std::int64_t>(g.M) * ceil_div(g.N, 4);
  const dim3 blocks(static_cast<unsigned>((vec4s + 31) / 32), g.batch);
  launch(aligned ? add_splits<true> : add_splits<false>,
         LaunchConfig{blocks, dim3(32 * SHARERS), 0, {1, 1, 1}, true}, g, splits,
         static_cast<const float*>(partial));
}

}  // namespace small_tiles
}  // namespace
