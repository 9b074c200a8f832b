// Step 47: every shape: an epilogue that waits for nothing, tiles by size, and three accuracies.
//
// Idea      What the guard costs in step 46 is latency: for each column an element's thread loads what is
//           known of it, behind a branch, one load after the other. Here a warpgroup requests all of that
//           before it multiplies, and looks at it without branches. And what parts 1 and 3 of the ladder have
//           taught: tiles of 64 rows where those of 128 leave multiprocessors idle, launches that overlap, an
//           FP32 kernel like step 11's for what the guard refuses.
// Change    Rows' and columns' facts come by asynchronous copies. Counts come before the k-tiles: a tile of
//           which every part has an element of few products gets none. The tensor cores get the large
//           products of a k-tile first and never drain: those are added to the sums while the small products
//           run. Both operands are split by one launch. A template parameter for the tile's rows;
//           fp32_parts.hpp. `fast` looks at nothing but K; infinities and NaNs pass through the tensor cores.
//           In `strict` parts are computed in FP32, too, of which an element may be the sum of so few
//           products that the bound of FP32 summation, u for each of them, is below what is proved for FP16
//           products.
// Bound     The tensor cores' power. Of small matrices, the splitting pass and the launches.
// Needs     sm_90a: wgmma, setmaxnreg

#include "common/cuda/async_copy.hpp"
#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/named_barrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"
#include "steps/47_every_shape/fp32_parts.hpp"
#include "steps/47_every_shape/parts.hpp"
#include "steps/47_every_shape/split.hpp"

namespace {

constexpr int BK = 64;               // terms (a k-tile) that a block has at a time
constexpr int MK = 16;               // terms of a wgmma, which has MM x BN of C
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of one of two consumers
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
constexpr auto SWIZZLE = Swizzle::of_128_bytes;

// With fewer terms, FP32 summation may round so seldom that hi and lo, which lose up to 2^-22 of an operand,
// are less accurate. A few large terms among many small ones are no such case: there, too, it rounds at every
// term.
constexpr int SHORTEST = 96;       // K
constexpr float LEAST_TERMS = 16;  // products that an element needs
constexpr float LEAST_SHOWN = 16;  // its magnitude, scaled, for each lossy operand

// Products that are not zero of an element for whose sum FP32's bound, u |A||B| for each, is not below that
// of three products: 8u for what hi and lo lose and for lo * lo; in each block of BK terms four times 10u for
// cutting off; u for each k-tile and the small sums, 10/8192 u for each term of these; 2.1u for lossy
// operands (LEAST_SHOWN). Together less than 52u + K u / 59.
__host__ __device__ constexpr int least_proved(int K) { return 53 + K / 59; }

// CONSUMERS warpgroups multiply, MM rows each; the first one copies.
template <int CONSUMERS>
struct alignas(1024) Tiles {
  static constexpr int BM = CONSUMERS * MM, STAGES = CONSUMERS == 1 ? 4 : 3;
  fp16 A[STAGES][PARTS][BM][BK];   // [stage][hi, lo][row][k], swizzled
  fp16 B[STAGES][PARTS][BN][BK];   // [stage][hi, lo][column][k], swizzled
  std::uint64_t full[STAGES];      // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];     // all consumers have multiplied them
  Line of_rows[CONSUMERS][2][MM];  // what a warpgroup's epilogue needs to know, for a tile and the next
  Line of_cols[CONSUMERS][2][BN];
  unsigned worst[CONSUMERS]
                [3];  // Path of a warpgroup's part of C, for the tile at hand, the one before and after
  bool refused[CONSUMERS][2];  // the part needs no products; for a tile and the next
};

// sum * 2^exponent, with one rounding unless the result is subnormal; 2^exponent may be no float.
__device__ __forceinline__ float scaled(float sum, int exponent) {
  const int first = min(max(exponent, -126), 127), second = min(max(exponent - first, -126), 127);
  return sum * splitting::power_of_two(first) * splitting::power_of_two(second);
}

template <int CONSUMERS, bool ALIGNED>  // whether C is, to pairs
__global__ void __launch_bounds__((1 + CONSUMERS) * 128, 1)
    gemm_split(Gemm g, const __grid_constant__ TensorMap parts_a, const __grid_constant__ TensorMap parts_b,
               const __grid_constant__ TensorMap counts_a, const __grid_constant__ TensorMap counts_b,
               const Line* lines_a, const Line* lines_b, unsigned* list, Ledger* ledger, Accuracy accuracy) {
  using Shared = Tiles<CONSUMERS>;
  constexpr int BM = Shared::BM, STAGES = Shared::STAGES;
  constexpr int AHEAD = STAGES - 1;  // k-tiles that are copied before the counts have been looked at
  auto& [As, Bs, full, empty, all_rows, all_cols, worst, refused] = dynamic_shared<Shared>();

  const int tiles = tiles_of(g, BM), k_tiles = ceil_div(g.K, BK);
  const bool guarded = accuracy != Accuracy::fast;
  const int count_tiles = guarded ? ceil_div(ceil_div(g.K, COUNTED_K), BK) : 0;
  const unsigned most_zeros = accuracy == Accuracy::strict ? max(g.K - least_proved(g.K), 0) : ~0u;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    for (int i = 0; i < CONSUMERS * 3; ++i) worst[i / 3][i % 3] = 0;
    mbarrier_fence_init();
  }
  __syncthreads();
  let_next_launch_begin();
  wait_for_previous_launch();

  int stage = 0, turn = 0;  // turn: this block's tiles so far
  // Whether all parts of the tile need no products: known when the last counts' stage is empty.
  const auto skipped = [&] {
    bool all = true;
    for (int part = 0; part < CONSUMERS; ++part) all &= refused[part][turn % 2];
    return all;
  };
  if (threadIdx.x < 128) {
    if constexpr (CONSUMERS == 2) warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int number = blockIdx.x; number < tiles; number += gridDim.x, ++turn) {
      const Part tile = find_tile<BM>(g, number);
      const bool backwards = number / gridDim.x % 2 == 1;
      for (int i = -count_tiles; i < k_tiles; ++i) {
        mbarrier_wait(&empty[stage], parity);
        if (i < 0) {
          const int first = (i + count_tiles) * BK;
          mbarrier_arrive_expect_tx(&full[stage], sizeof(fp16) * BK * (BM + BN));
          tensor_copy(As[stage][0], counts_a, first, tile.row0, tile.matrix, &full[stage]);
          tensor_copy(Bs[stage][0], counts_b, first, tile.col0, tile.matrix, &full[stage]);
        } else {
          if (guarded && i == AHEAD && skipped()) break;  // this stage had the last counts
          const int k0 = (backwards ? k_tiles - 1 - i : i) * BK;
          mbarrier_arrive_expect_tx(&full[stage], sizeof(fp16) * PARTS * BK * (BM + BN));
          for (int part = 0; part < PARTS; ++part) {
            const int matrix = tile.matrix * PARTS + part;
            tensor_copy(As[stage][part], parts_a, k0, tile.row0, matrix, &full[stage]);
            tensor_copy(Bs[stage][part], parts_b, k0, tile.col0, matrix, &full[stage]);
          }
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    return;
  }
  if constexpr (CONSUMERS == 2) warpgroup_reg_alloc<MANY>();

  const int thread = threadIdx.x % 128, warpgroup = threadIdx.x / 128 - 1;
  const int m = warpgroup * MM;  // its first row in the block's tile
  int parity = 0;
  const auto a_at = [&](int part, int k) {
    return matrix_descriptor(&As[stage][part][m][k], SWIZZLE, 0, ATOM);
  };
  const auto b_at = [&](int part, int k) {
    return matrix_descriptor(&Bs[stage][part][0][k], SWIZZLE, 0, ATOM);
  };
  const auto next = [&] {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  };
  const auto release = [&](int read) {
    if (thread == 0) mbarrier_arrive(&empty[read]);
  };
  for (int number = blockIdx.x; number < tiles; number += gridDim.x, ++turn) {
    const Part tile = find_tile<BM>(g, number);
    const int rows = g.M - tile.row0 - m, cols = g.N - tile.col0;
    // A thread has two rows, eight apart, and of every eight columns two neighbours.
    const auto exists = [&](int j) {
      const auto [row, col] = wgmma_place(thread, j);
      return (row < rows) & (col < cols);
    };
    const auto conclude = [&](Path path) {
      if (thread > 0 || rows <= 0) return;
      atomicAdd(&ledger->taken[static_cast<int>(path)], 1u);
      if (path != Path::fast) list[atomicAdd(&ledger->listed, 1u)] = number * CONSUMERS + warpgroup;
    };
    float products[BN / 2], small[BN / 2], sums[BN / 2];

    unsigned& of_part = worst[warpgroup][turn % 3];
    if (guarded) {
      for (int i = 0; i < count_tiles; ++i) {
        if (i > 0) release(stage), next();
        mbarrier_wait(&full[stage], parity);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK; k += MK) wgmma_fp16(products, a_at(0, k), b_at(0, k), i > 0 || k > 0);
        wgmma_commit();
        wgmma_wait<0>(products);
      }
      bool few_terms = false;
#pragma unroll
      for (int j = 0; j < BN / 2; ++j) few_terms |= exists(j) & (products[j] < LEAST_TERMS);
      if (few_terms) atomicMax(&of_part, static_cast<unsigned>(Path::few_terms));
      named_barrier_sync(1 + warpgroup, 128);
      const bool no_products = rows <= 0 || of_part > 0;
      if (thread == 0) {
        refused[warpgroup][turn % 2] = no_products;
        // That of the tile before: all have read it, and nobody writes to it before the next tile's barrier.
        worst[warpgroup][(turn + 2) % 3] = 0;
      }
      const int counts = stage, phase = parity;
      release(stage), next();
      if (no_products) {
        mbarrier_wait(&empty[counts], phase);  // the other part's have been looked at, too
        if (skipped()) {
          for (int k_tile = 0; k_tile < min(k_tiles, AHEAD); ++k_tile) {
            mbarrier_wait(&full[stage], parity);
            release(stage), next();
          }
          conclude(Path::few_terms);
          continue;
        }
      }
    }

    // Requested before the products: behind them nothing would hide the latency.
    Line(&of_rows)[MM] = all_rows[warpgroup][turn % 2], (&of_cols)[BN] = all_cols[warpgroup][turn % 2];
    const std::int64_t row0 = static_cast<std::int64_t>(tile.matrix) * g.M + tile.row0 + m,
                       col0 = static_cast<std::int64_t>(tile.matrix) * g.N + tile.col0;
    if (thread < MM) async_copy<sizeof(Line)>(&of_rows[thread], lines_a + row0 + thread, thread < rows);
    async_copy<sizeof(Line)>(&of_cols[thread], lines_b + col0 + thread, thread < cols);
    async_copy_commit();
#pragma unroll
    for (int j = 0; j < BN / 2; ++j) sums[j] = 0.0f;
    int before = 0;  // the stage of the k-tile before
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      mbarrier_wait(&full[stage], parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK; k += MK) wgmma_fp16(products, a_at(0, k), b_at(0, k), k > 0);
      wgmma_commit();
      wgmma_wait<1>();  // for the small products of the k-tile before
      if (k_tile > 0) release(before);
#pragma unroll
      for (int k = 0; k < BK; k += MK) {
        wgmma_fp16(small, a_at(0, k), b_at(1, k), k_tile > 0 || k > 0);
        wgmma_fp16(small, a_at(1, k), b_at(0, k));
      }
      wgmma_commit();
      wgmma_wait<1>(products);  // while the small ones go on
#pragma unroll
      for (int j = 0; j < BN / 2; ++j) sums[j] += products[j];
      before = stage;
      next();
    }
    wgmma_wait<0>(small);
    release(before);
#pragma unroll
    for (int j = 0; j < BN / 2; ++j) {
      if (fabsf(sums[j]) < __uint_as_float(0x7f800000)) sums[j] += small[j] * (1 / LO_SCALE);
    }

    async_copy_wait<0>();
    named_barrier_sync(1 + warpgroup, 128);  // of_rows and of_cols are there
    Line of_row[2];
    for (int r = 0; r < 2; ++r) of_row[r] = of_rows[wgmma_place(thread, 2 * r).row];
    bool shows = false, special = false, unproved = false;
#pragma unroll
    for (int j = 0; j < BN / 2; j += 4) {
      const int col = wgmma_place(thread, j).col;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const unsigned of_col = of_cols[col + c].lossy;
        const unsigned zeros = of_cols[col + c].zeros;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int i = j + 2 * r + c;
          const bool here = exists(i);
          const unsigned lossy = of_row[r].lossy + of_col;
          shows |= here & (fabsf(sums[i]) < LEAST_SHOWN * static_cast<float>(lossy));
          special |= here & (lossy >= SPECIAL);
          unproved |= here & (of_row[r].zeros + zeros > most_zeros);
        }
      }
    }
    auto path = Path::fast;
    if (guarded) {
      path = unproved ? Path::unproved : special ? Path::special : shows ? Path::lossy : Path::fast;
      if (path != Path::fast) atomicMax(&of_part, static_cast<unsigned>(path));
      named_barrier_sync(1 + warpgroup, 128);
      path = static_cast<Path>(of_part);
    }
    conclude(path);
    if (path != Path::fast) continue;

    float* C = g.C + tile.matrix * g.strideC + (tile.row0 + m) * g.ldc + tile.col0;  // [MM][BN]
#pragma unroll
    for (int j = 0; j < BN / 2; j += 4) {
      const int col = wgmma_place(thread, j).col;
      if (col >= cols) continue;
      const int exponent0 = of_cols[col].exponent, exponent1 = of_cols[col + 1].exponent;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int i = j + 2 * r;
        if (!exists(i)) continue;
        update2<ALIGNED>(&C[wgmma_place(thread, i).row * g.ldc + col], cols - col,
                         scaled(sums[i], of_row[r].exponent + exponent0),
                         scaled(sums[i + 1], of_row[r].exponent + exponent1), g.alpha, g.beta);
      }
    }
  }
}

// Blocks such that all of them have the same number of tiles, if fewer multiprocessors than there are take as
// many waves.
int blocks_for(int tiles) {
  const int waves = ceil_div(tiles, multiprocessors());
  return ceil_div(tiles, waves);
}

TensorMap map_parts(const SplitLines& split, int lines, int K, int batch, int box) {
  return tensor_map(split.parts, lines, K, split.pitch, batch * PARTS, lines * split.pitch, box, BK, SWIZZLE);
}
TensorMap map_counts(const SplitLines& split, int lines, int K, int batch, int box) {
  return tensor_map(split.counts, lines, ceil_div(K, COUNTED_K), split.counts_pitch, batch,
                    lines * split.counts_pitch, box, BK, SWIZZLE);
}

// What a call needs in device memory.
struct Memory {
  SplitLines a, b;  // none if K is short
  unsigned* list;   // [parts of C]
  Ledger* ledger;
};

template <int CONSUMERS, bool ALL>
void launch_fp32(const Gemm& g, Transposed transposed, const Memory& memory) {
  const int parts = tiles_of(g, CONSUMERS * MM) * CONSUMERS;
  using Find = FindPart<CONSUMERS>;
  launch(is_aligned(g) ? fp32_parts::gemm_fp32<ALL, true, Find> : fp32_parts::gemm_fp32<ALL, false, Find>,
         fp32_parts::config(parts), g, transposed, memory.list, memory.ledger, parts);
}

template <int CONSUMERS>
void launch_all(const Gemm& g, Transposed transposed, Accuracy accuracy, const Memory& memory) {
  constexpr int BM = CONSUMERS * MM;
  const auto& [a, b, list, ledger] = memory;
  launch(is_aligned(g) ? gemm_split<CONSUMERS, true> : gemm_split<CONSUMERS, false>,
         LaunchConfig{.grid = dim3(blocks_for(tiles_of(g, BM))),
                      .block = dim3((1 + CONSUMERS) * 128),
                      .shared_bytes = sizeof(Tiles<CONSUMERS>),
                      .overlaps_previous = true},
         g, map_parts(a, g.M, g.K, g.batch, BM), map_parts(b, g.N, g.K, g.batch, BN),
         map_counts(a, g.M, g.K, g.batch, BM), map_counts(b, g.N, g.K, g.batch, BN), a.facts, b.facts, list,
         ledger, accuracy);
  if (accuracy != Accuracy::fast) launch_fp32<CONSUMERS, false>(g, transposed, memory);
}

// Launches it all; the ledger then has how many parts went which way.
void multiply(const Gemm& g, Transposed transposed, Accuracy accuracy, const Memory& memory) {
  const int large = tiles_of(g, 2 * MM), small = tiles_of(g, MM);
  if (small == 0) return;
  if (g.K < SHORTEST) {
    launch_fp32<1, true>(g, transposed, memory);
    return;
  }
  const bool aligned = is_aligned(g);
  split({g.A, g.M, g.K, g.lda, g.strideA, transposed.a, aligned && (!transposed.a || g.M % 4 == 0)}, memory.a,
        {g.B, g.N, g.K, g.ldb, g.strideB, !transposed.b, aligned}, memory.b, g.batch, memory.ledger);
  // Half a tile takes more than half the time, by a fifth. It is worth it where it saves a half-empty wave.
  const auto waves = [](int tiles) { return ceil_div(tiles, multiprocessors()); };
  const auto launches = 6 * waves(small) < 5 * 2 * waves(large) ? launch_all<1> : launch_all<2>;
  launches(g, transposed, accuracy, memory);
}

// Room for the parts of so many lines, and what else the splitting pass finds.
class Room {
 public:
  Room(const char* parts, const char* counts, const char* facts)
      : parts_(parts), counts_(counts), facts_(facts) {}
  SplitLines at_least(int lines, int K, int batch) {
    const SplitSizes size(lines, K, batch);
    return {parts_.at_least(size.parts), counts_.at_least(size.counts), facts_.at_least(size.facts),
            size.pitch, size.counts_pitch};
  }

 private:
  Workspace<fp16> parts_, counts_;
  Workspace<Line> facts_;
};

Ways sgemm_emulated(const Gemm& g, Accuracy accuracy) {
  static Room room_a("parts of A", "counts of A", "rows of A"),
      room_b("parts of B", "counts of B", "columns of B");
  static Workspace<unsigned> list_workspace("list");
  static Workspace<Ledger> ledger_workspace("ledger");
  if (g.M == 0 || g.N == 0 || g.batch == 0) return {};
  Memory memory{};
  memory.list = list_workspace.at_least(static_cast<std::size_t>(parts_at_most(g.M, g.N, g.batch)));
  memory.ledger = ledger_workspace.at_least(1);
  latest_ledger = memory.ledger;
  if (g.K >= SHORTEST) {
    memory.a = room_a.at_least(g.M, g.K, g.batch);
    memory.b = room_b.at_least(g.N, g.K, g.batch);
  }
  multiply(g, {}, accuracy, memory);
  return {memory.ledger->taken, path_names, PATHS};
}

}  // namespace
