// Step 47: every shape: two tile shapes, TMA stores, launches that overlap, a faster way out.
//
// Idea      What parts 1 and 3 of the ladder have taught, put together: where tiles of 128 x 128 leave
//           multiprocessors idle, narrower ones do not; the epilogue leaves by TMA stores; a launch begins
//           while the one before it ends; and what the guard refuses is computed by step 11's kernel.
// Change    A template parameter for the tile's columns, step 36's epilogue, step 15's overlapping launches,
//           fp32_parts.hpp.
// Bound     The tensor cores' power. Of small matrices, the splitting pass and the launches.
// Needs     sm_90a: wgmma, setmaxnreg

#include "common/cuda/bulk_store.hpp"
#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/named_barrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/tf32.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"
#include "steps/47_every_shape/fp32_parts.hpp"
#include "steps/47_every_shape/parts.hpp"
#include "steps/47_every_shape/split.hpp"

namespace {

constexpr int BK = 64;  // terms (a k-tile) that a block has at a time
constexpr int MK = 16;  // terms of a wgmma, which has MM x BN of C
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of a consumer
constexpr int STORED = 32;           // columns of C in a store: 128 bytes
constexpr int BUFFERS = 2;           // of a warpgroup, for sums that are being stored
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
constexpr auto SWIZZLE = Swizzle::of_128_bytes;
constexpr int COUNTS_ATOM = 8 * 32;  // likewise, where a row has MK counts
constexpr auto COUNTS_SWIZZLE = Swizzle::of_32_bytes;

// With fewer terms, FP32 summation may round so seldom that hi and lo, which lose up to 2^-22 of an operand,
// are less accurate. A few large terms among many small ones are no such case: there, too, it rounds at every
// term.
constexpr int SHORTEST = 96;       // K
constexpr float LEAST_TERMS = 16;  // products that an element needs
constexpr float LEAST_SHOWN = 16;  // its magnitude, scaled, for each lossy operand

template <int BN>
struct alignas(1024) Tiles {
  static constexpr int STAGES = BN == 128 ? 3 : 4;
  fp16 A[STAGES][PARTS][BM][BK];            // [stage][hi, lo][row][k], swizzled
  fp16 B[STAGES][PARTS][BN][BK];            // [stage][hi, lo][column][k], swizzled
  float C[CONSUMERS][BUFFERS][MM][STORED];  // [warpgroup][buffer][row][column], swizzled: on their way to C
  std::uint64_t full[STAGES];               // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];              // all consumers have multiplied them
  unsigned worst[CONSUMERS][3];  // Path of a warpgroup's part: of the tile at hand, the one before, the next
};

// Where counts lie in a stage that has no tiles: [row or column][MK], swizzled.
template <int LINES>
__device__ __forceinline__ fp16 (&counts_in(fp16 (&parts)[PARTS][LINES][BK]))
    [LINES][MK] { return reinterpret_cast<fp16(&)[LINES][MK]>(parts); }

template <int BN, bool TMA>  // TMA: whether C is stored by it
__global__ void __launch_bounds__(THREADS, 1)
    gemm_split(Gemm g, const __grid_constant__ TensorMap parts_a, const __grid_constant__ TensorMap parts_b,
               const __grid_constant__ TensorMap counts_a, const __grid_constant__ TensorMap counts_b,
               const __grid_constant__ TensorMap map_c, const Line* lines_a, const Line* lines_b,
               unsigned* list, Ledger* ledger) {
  constexpr int STAGES = Tiles<BN>::STAGES;
  auto& [As, Bs, Cs, full, empty, worst] = dynamic_shared<Tiles<BN>>();

  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch, k_tiles = ceil_div(g.K, BK);
  const int count_tiles = ceil_div(ceil_div(g.K, COUNTED_K), MK);

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    for (int i = 0; i < CONSUMERS * 3; ++i) worst[i / 3][i % 3] = 0;
    mbarrier_fence_init();
  }
  __syncthreads();
  wait_for_previous_launch();  // A and B are split

  int stage = 0;
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
      const Place tile = find_tile<BN>(g, number);
      const bool backwards = number / gridDim.x % 2 == 1;
      for (int i = 0; i < k_tiles + count_tiles; ++i) {
        mbarrier_wait(&empty[stage], parity);
        if (i < k_tiles) {
          const int k0 = (backwards ? k_tiles - 1 - i : i) * BK;
          mbarrier_arrive_expect_tx(&full[stage], sizeof(fp16) * PARTS * BK * (BM + BN));
          for (int part = 0; part < PARTS; ++part) {
            const int matrix = tile.matrix * PARTS + part;
            tensor_copy(As[stage][part], parts_a, k0, tile.row0, matrix, &full[stage]);
            tensor_copy(Bs[stage][part], parts_b, k0, tile.col0, matrix, &full[stage]);
          }
        } else {
          const int first = (i - k_tiles) * MK;
          mbarrier_arrive_expect_tx(&full[stage], sizeof(fp16) * MK * (BM + BN));
          tensor_copy(counts_in(As[stage]), counts_a, first, tile.row0, tile.matrix, &full[stage]);
          tensor_copy(counts_in(Bs[stage]), counts_b, first, tile.col0, tile.matrix, &full[stage]);
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int thread = threadIdx.x % 128, warpgroup = threadIdx.x / 128 - 1;
  const int m = warpgroup * MM;  // its first row in the block's tile
  // Lanes of odd rows store their sums in another order, as in step 36.
  const int swap = thread / 4 % 2 * 8;
  int parity = 0;
  const auto a_at = [&](int part, int k) {
    return matrix_descriptor(&As[stage][part][m][k], SWIZZLE, 0, ATOM);
  };
  const auto b_at = [&](int part, int k) {
    return matrix_descriptor(&Bs[stage][part][0][k], SWIZZLE, 0, ATOM);
  };
  const auto release = [&] {
    if (thread == 0) mbarrier_arrive(&empty[stage]);
    if (++stage == STAGES) stage = 0, parity ^= 1;
  };
  int turn = 0;  // which of the three
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const Place tile = find_tile<BN>(g, number);
    float products[BN / 2], small[BN / 2], sums[BN / 2];
#pragma unroll
    for (int j = 0; j < BN / 2; ++j) sums[j] = 0.0f;
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      mbarrier_wait(&full[stage], parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK; k += MK) {
        wgmma_fp16(small, a_at(0, k), b_at(1, k), k_tile > 0 || k > 0);
        wgmma_fp16(small, a_at(1, k), b_at(0, k));
      }
#pragma unroll
      for (int k = 0; k < BK; k += MK) wgmma_fp16(products, a_at(0, k), b_at(0, k), k > 0);
      wgmma_commit();
      wgmma_wait<0>(products, small);
      release();
#pragma unroll
      for (int j = 0; j < BN / 2; ++j) sums[j] += products[j];
    }
#pragma unroll
    for (int j = 0; j < BN / 2; ++j) sums[j] += small[j] * (1 / LO_SCALE);

    for (int i = 0; i < count_tiles; ++i) {
      mbarrier_wait(&full[stage], parity);
      wgmma_fence();
      const auto a = matrix_descriptor(counts_in(As[stage])[m], COUNTS_SWIZZLE, 0, COUNTS_ATOM);
      const auto b = matrix_descriptor(counts_in(Bs[stage])[0], COUNTS_SWIZZLE, 0, COUNTS_ATOM);
      wgmma_fp16(products, a, b, i > 0);
      wgmma_commit();
      wgmma_wait<0>(products);
      release();
    }

    // A thread has two rows, eight apart, and of every eight columns two neighbours.
    const int rows = g.M - tile.row0 - m, cols = g.N - tile.col0;
    const Line* of_cols = lines_b + static_cast<std::int64_t>(tile.matrix) * g.N + tile.col0;
    Line of_row[2];
    bool exists[2];
    for (int r = 0; r < 2; ++r) {
      const int row = wgmma_place(thread, 2 * r).row;
      exists[r] = row < rows;
      of_row[r] = exists[r] ? lines_a[static_cast<std::int64_t>(tile.matrix) * g.M + tile.row0 + m + row]
                            : Line{0, 0};
    }
    auto path = Path::fast;
    const auto fall_back = [&](bool if_so, Path why) {
      if (if_so && why > path) path = why;
    };
#pragma unroll
    for (int j = 0; j < BN / 2; j += 4) {
      const int col = wgmma_place(thread, j).col;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        if (col + c >= cols) continue;
        const unsigned of_col = of_cols[col + c].lossy;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int i = j + 2 * r + c;
          const unsigned lossy = of_row[r].lossy + of_col;
          fall_back(exists[r] && products[i] < LEAST_TERMS, Path::few_terms);
          fall_back(exists[r] && fabsf(sums[i]) < LEAST_SHOWN * static_cast<float>(lossy),
                    lossy < SPECIAL ? Path::lossy : Path::special);
        }
      }
    }
    unsigned& of_part = worst[warpgroup][turn];
    if (path != Path::fast) atomicMax(&of_part, static_cast<unsigned>(path));
    named_barrier_sync(1 + warpgroup, 128);
    path = static_cast<Path>(of_part);
    turn = (turn + 1) % 3;
    // That of the tile before: all have read it, and nobody writes to it before the next tile's barrier.
    if (thread == 0) worst[warpgroup][(turn + 1) % 3] = 0;
    if (thread == 0 && rows > 0) {
      atomicAdd(&ledger->taken[static_cast<int>(path)], 1u);
      if (path != Path::fast) list[atomicAdd(&ledger->listed, 1u)] = number * CONSUMERS + warpgroup;
    }
    if (path != Path::fast) continue;

    const auto take_scales_out = [&](int j) {  // of two sums side by side
      for (int i = j; i < j + 2; ++i) {
        const int col = min(wgmma_place(thread, i).col, cols - 1);
        sums[i] = scaled(sums[i], -of_row[j / 2 % 2].scale - of_cols[col].scale);
      }
    };
    if constexpr (TMA) {
#pragma unroll
      for (int part = 0; part < BN / STORED; ++part) {
        auto& buffer = Cs[warpgroup][part % BUFFERS];
#pragma unroll
        for (int i = 0; i < STORED / 2; i += 2) take_scales_out(part * STORED / 2 + i);
        if (thread == 0) bulk_store_wait_read<BUFFERS - 1>();
        named_barrier_sync(1 + warpgroup, 128);  // the buffer may be written to
#pragma unroll
        for (int i = 0; i < STORED / 2; i += 2) {  // two sums side by side
          const int j = part * STORED / 2 + i;
          const auto [row, col] = wgmma_place(thread, i ^ swap);
          const float x = swap ? sums[j ^ 8] : sums[j], y = swap ? sums[(j ^ 8) + 1] : sums[j + 1];
          float2_at(&buffer[row][swizzle_128B(row, col)]) = make_float2(g.alpha * x, g.alpha * y);
        }
        fence_async_proxy();
        named_barrier_sync(1 + warpgroup, 128);  // it is full
        if (thread == 0) {
          tensor_store(map_c, tile.col0 + part * STORED, tile.row0 + m, tile.matrix, buffer);
          bulk_store_commit();
        }
      }
    } else {
      float* C = g.C + tile.matrix * g.strideC + (tile.row0 + m) * g.ldc + tile.col0;  // [MM][BN]
#pragma unroll
      for (int j = 0; j < BN / 2; j += 2) {
        const auto [row, col] = wgmma_place(thread, j);
        take_scales_out(j);
        update2<false>(&C[row * g.ldc + col], row < rows ? cols - col : 0, sums[j], sums[j + 1], g.alpha,
                       g.beta);
      }
    }
  }
  if (thread == 0) bulk_store_wait_read<0>();
}

// Blocks such that all of them have the same number of tiles, if fewer multiprocessors than there are take as
// many waves.
int blocks_for(int tiles) {
  const int waves = ceil_div(tiles, multiprocessors());
  return ceil_div(tiles, waves);
}

// Room for the parts of so many lines, and what else the splitting pass finds.
class Room {
 public:
  Room(const char* parts, const char* counts, const char* facts)
      : parts_(parts), counts_(counts), facts_(facts) {}
  SplitLines at_least(int lines, int K, int batch) {
    const std::int64_t pitch = ceil_div(K, 8) * 8, counts_pitch = ceil_div(ceil_div(K, COUNTED_K), 8) * 8;
    const std::size_t all = static_cast<std::size_t>(lines) * batch;
    return {parts_.at_least(all * PARTS * pitch), counts_.at_least(all * counts_pitch), facts_.at_least(all),
            pitch, counts_pitch};
  }

 private:
  Workspace<fp16> parts_, counts_;
  Workspace<Line> facts_;
};

TensorMap map_parts(const SplitLines& split, int lines, int K, int batch, int box) {
  return tensor_map(split.parts, lines, K, split.pitch, batch * PARTS, lines * split.pitch, box, BK, SWIZZLE);
}
TensorMap map_counts(const SplitLines& split, int lines, int K, int batch, int box) {
  return tensor_map(split.counts, lines, ceil_div(K, COUNTED_K), split.counts_pitch, batch,
                    lines * split.counts_pitch, box, MK, COUNTS_SWIZZLE);
}

// What a call leaves for the next one.
struct Memory {
  Room a{"parts of A", "counts of A", "rows of A"}, b{"parts of B", "counts of B", "columns of B"};
  Workspace<unsigned> list{"list"};
  Workspace<Ledger> ledger{"ledger"};
};

template <int BN>
void run(const Gemm& g, Memory& memory) {
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch, parts = tiles * CONSUMERS;
  const bool aligned = is_aligned(g);
  unsigned* list = memory.list.at_least(parts);
  Ledger* ledger = memory.ledger.at_least(1);
  latest_ledger = ledger;

  const int fp32_threads = fp32_parts::THREADS_OF<BN>;
  LaunchConfig fp32{dim3(min(parts, multiprocessors() * (fp32_parts::RESIDENT / fp32_threads))),
                    dim3(fp32_threads)};
  if (g.K < SHORTEST) {
    using fp32_parts::gemm_fp32;
    launch(aligned ? gemm_fp32<BN, true, true> : gemm_fp32<BN, true, false>, fp32, g, list, ledger, parts);
    return;
  }
  const SplitLines a = memory.a.at_least(g.M, g.K, g.batch), b = memory.b.at_least(g.N, g.K, g.batch);
  split({g.A, g.M, g.K, g.lda, g.strideA, aligned}, a, {g.B, g.N, g.K, g.ldb, g.strideB, aligned}, b, g.batch,
        ledger);

  const bool tma = aligned && g.beta == 0.0f;  // otherwise the threads store C themselves
  const TensorMap map_c =
      tma ? tensor_map(g.C, g.M, g.N, g.ldc, g.batch, g.strideC, MM, STORED, SWIZZLE) : TensorMap{};
  const LaunchConfig fast{dim3(blocks_for(tiles)), dim3(THREADS), sizeof(Tiles<BN>), {1, 1, 1}, true};
  launch(tma ? gemm_split<BN, true> : gemm_split<BN, false>, fast, g, map_parts(a, g.M, g.K, g.batch, BM),
         map_parts(b, g.N, g.K, g.batch, BN), map_counts(a, g.M, g.K, g.batch, BM),
         map_counts(b, g.N, g.K, g.batch, BN), map_c, a.facts, b.facts, list, ledger);
  fp32.overlaps_previous = true;
  using fp32_parts::gemm_fp32;
  launch(aligned ? gemm_fp32<BN, false, true> : gemm_fp32<BN, false, false>, fp32, g, list, ledger, parts);
}

void sgemm_emulated(const Gemm& g) {
  static Memory memory;
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  // A tile of half the columns takes somewhat more than half the time.
  const auto waves = [&](int BN) {
    return ceil_div(ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch, multiprocessors());
  };
  if (11 * waves(64) < 20 * waves(128)) {
    run<64>(g, memory);
  } else {
    run<128>(g, memory);
  }
}

}  // namespace
