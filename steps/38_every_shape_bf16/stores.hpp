#pragma once

// The tiles of several sizes, how they are shared out, and how their sums get to C.

#include "common/cuda/bulk_store.hpp"
#include "common/cuda/cluster.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/named_barrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/tf32.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/step.hpp"
#include "steps/38_every_shape_bf16/choose.hpp"

namespace {
namespace tiles {

constexpr int BK = 64;           // terms that a block multiplies at a time (a k-tile)
constexpr int MM = 64, MK = 16;  // a wgmma's: 64 rows, or columns of C if the tile is transposed; 16 terms
constexpr int CONSUMERS = 2;     // warpgroups that multiply; the first one copies
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of a consumer
constexpr int GROUP = 64;            // elements in the 128 bytes that are swizzled
constexpr int BAND = 16;             // rows of tiles processed together, column by column
constexpr int STORED = 32;           // columns of C in a store: 128 bytes
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
static_assert(BK == GROUP);

// A block's shared memory.
template <int BM, int BN, int STAGES, int BUFFERS, bool TRANSPOSED>
struct alignas(1024) Tiles {
  bf16 A[STAGES][BM][BK];                   // [stage][row][k], swizzled
  bf16 B[STAGES][BN / GROUP][BK][GROUP];    // [stage][group][k][column], swizzled
  float C[CONSUMERS][BUFFERS][MM][STORED];  // [warpgroup][buffer][row][column], swizzled: on their way to C
  std::uint64_t full[STAGES];               // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];              // all consumers have multiplied them
};
template <int BM, int BN, int STAGES, int BUFFERS>
struct alignas(1024) Tiles<BM, BN, STAGES, BUFFERS, true> {  // whose sums go to C from where they are
  bf16 A[STAGES][BM][BK];
  bf16 B[STAGES][BN / GROUP][BK][GROUP];
  std::uint64_t full[STAGES], empty[STAGES];
};

// The block's tile is BM_ x BN_ of C. STAGES_: buffers for the tiles of A and B. BUFFERS_: per warpgroup, for
// sums on their way to C.
template <int BM_, int BN_, int STAGES_, int BUFFERS_ = 2>
struct Shape {
  static constexpr int BM = BM_, BN = BN_, STAGES = STAGES_, BUFFERS = BUFFERS_;
  static constexpr bool TRANSPOSED = BM < CONSUMERS * MM;
  static constexpr int SUMS = (TRANSPOSED ? BM : BN) / 2;  // of a thread
  static_assert(TRANSPOSED ? BN == CONSUMERS * MM && BM % 8 == 0 : BM == CONSUMERS * MM && BN % GROUP == 0);
  using Tiles = tiles::Tiles<BM, BN, STAGES, BUFFERS, TRANSPOSED>;
};

// Sums get to C by TMA, or are stored by the threads, to which beta times what C has may be added.
enum class Storing { by_tma, by_threads, onto_c };

// What the blocks compute: splits parts of each matrix of the batch, for which C has a matrix each.
struct Product {
  int M, N, k_tiles, batch, splits;
  float alpha, beta;
  float* C;  // [batch][splits][M][N]
  std::int64_t ldc, strideC;
  int shift;  // of A's second row against multiples of 16 bytes, in elements
};

// A part of a tile of C, whose rows are row0, row0 + APART, …: k-tiles first to first + count - 1.
struct Work {
  int matrix, split, row0, col0, first, count;
};

// The part with that number. SHARERS blocks of a cluster have tiles one below the other; this one's has that
// rank among them.
template <typename S, int SHARERS, int APART>
__device__ __forceinline__ Work find_work(const Product& p, int number, int rank) {
  constexpr int height = BAND / SHARERS;
  const int tiles_m = ceil_div(p.M, SHARERS * S::BM * APART) * APART, tiles_n = ceil_div(p.N, S::BN);
  const int split = number % p.splits, tile = number / p.splits;  // a cluster has all parts of a tile
  const int in_matrix = tile % (tiles_m * tiles_n);
  const int band = in_matrix / (height * tiles_n), in_band = in_matrix % (height * tiles_n);
  const int rows = min(height, tiles_m - band * height);
  const int column = band % 2 == 0 ? in_band / rows : tiles_n - 1 - in_band / rows;
  const int row = (band * height + in_band % rows) * SHARERS + rank;
  const int share = p.k_tiles / p.splits, longer = p.k_tiles % p.splits;  // the first ones take one more
  return {tile / (tiles_m * tiles_n),
          split,
          row / APART * APART * S::BM + row % APART,
          column * S::BN,
          split * share + min(split, longer),
          share + (split < longer ? 1 : 0)};
}
template <typename S, int SHARERS, int APART>
__host__ __device__ int units_of(const Product& p) {
  return ceil_div(p.M, SHARERS * S::BM * APART) * APART * ceil_div(p.N, S::BN) * p.batch * p.splits;
}

// C = alpha * sums + beta * C for a thread's sums of a transposed tile. Eight lanes have neighbours in a row
// of C: 32 bytes, which is what memory moves at least.
template <typename S>
__device__ __forceinline__ void store_transposed(const Product& p, const Work& work, int warpgroup,
                                                 const float (&sums)[S::SUMS]) {
  float* C = p.C + (std::int64_t{work.matrix} * p.splits + work.split) * p.strideC;  // [M][N]
#pragma unroll
  for (int j = 0; j < S::SUMS; ++j) {
    const auto [column, row] = wgmma_place(threadIdx.x % 128, j);
    const int m = work.row0 + row, n = work.col0 + warpgroup * MM + column;
    if (m < p.M && n < p.N) update(C[m * p.ldc + n], sums[j], p.alpha, p.beta);
  }
}

// The same of a tile as it is, by way of buffers in shared memory: from there TMA takes all 64 rows of a
// warpgroup, or each warp its 16 rows, each row as 128 bytes side by side.
template <typename S, Storing HOW, int APART>
__device__ __forceinline__ void store(const Product& p, const TensorMap& map_c, const Work& work,
                                      int warpgroup, float (&buffers)[S::BUFFERS][MM][STORED],
                                      float (&sums)[S::SUMS]) {
  constexpr bool TMA = HOW == Storing::by_tma, READS_C = HOW == Storing::onto_c;
  constexpr int BUFFERS = S::BUFFERS, TOGETHER = BUFFERS / 2;  // TMA reads half, the others are filled
  const int thread = threadIdx.x % 128, matrix = work.matrix * p.splits + work.split;
  const int row0 = work.row0 + warpgroup * MM * APART;  // the warpgroup's first row
  const int swap = thread / 4 % 2 * 8;                  // as in step 36: of lanes of odd rows, another order
  if (TMA && p.alpha != 1.0f) {
#pragma unroll
    for (float& sum : sums) sum *= p.alpha;
  }
  // Without TMA, a warp has 16 rows of C, a lane one column of a part.
  constexpr int ROWS = 16, PARTS = S::BN / STORED;
  const int first = thread / 32 * ROWS, lane = thread % 32, top = row0 + first * APART;
  float* C = p.C + matrix * p.strideC + top * p.ldc + work.col0 + lane;  // [M][N]
#pragma unroll
  for (int part = 0; part < PARTS; ++part) {
    const int col0 = work.col0 + part * STORED;
    if (!TMA && col0 >= p.N) break;
    auto& buffer = buffers[part % BUFFERS];
    if (TMA && part % TOGETHER == 0) {
      if (thread == 0) bulk_store_wait_read<1>();
      named_barrier_sync(1 + warpgroup, 128);  // the buffers may be written to
    }
#pragma unroll
    for (int i = 0; i < STORED / 2; i += 2) {  // two sums side by side
      const int j = part * STORED / 2 + i;
      const auto [row, col] = wgmma_place(thread, i ^ swap);
      const float x = swap ? sums[j ^ 8] : sums[j], y = swap ? sums[(j ^ 8) + 1] : sums[j + 1];
      float2_at(&buffer[row][swizzle_128B(row, col)]) = make_float2(x, y);
    }
    if constexpr (TMA) {
      if (part % TOGETHER < TOGETHER - 1) continue;
      fence_async_proxy();
      named_barrier_sync(1 + warpgroup, 128);  // they are full
      if (thread == 0) {
        for (int i = TOGETHER - 1; i >= 0; --i) {
          tensor_store(map_c, col0 - i * STORED, row0, matrix, buffers[(part - i) % BUFFERS]);
        }
        bulk_store_commit();
      }
    } else {
      // The warp's rows are full, and all its lanes are done with the one before. All are read before the
      // first is stored, and so are C's: a load does not wait for a store, nor for the load before.
      __syncwarp();
      float own[ROWS], old[ROWS] = {};
#pragma unroll
      for (int row = 0; row < ROWS; ++row) {
        own[row] = p.alpha * load_now(&buffer[first + row][swizzle_128B(first + row, lane)]);
      }
      if (col0 + lane >= p.N) continue;
      if constexpr (READS_C) {
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
          if (row * APART < p.M - top) old[row] = C[row * APART * p.ldc + part * STORED];
        }
      }
#pragma unroll
      for (int row = 0; row < ROWS; ++row) {
        if constexpr (READS_C) own[row] += p.beta * old[row];
        if (row * APART < p.M - top) C[row * APART * p.ldc + part * STORED] = own[row];
      }
    }
  }
  if constexpr (!TMA) __syncwarp();  // the next tile may be written to any buffer
}

}  // namespace tiles
}  // namespace
