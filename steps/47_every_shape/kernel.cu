// Step 47: every shape: an epilogue that waits for nothing, tiles by size, and three accuracies.
//
// Idea      What the guard costs in step 46 is latency: for each column an element's thread loads what is
//           known of it, behind a branch, one load after the other; and a launch that works through the list
//           of refused parts, most often for nothing. Here a warpgroup requests all of that before it
//           multiplies, and looks at the lines' maxima first, which nearly always is enough; and the blocks
//           that have refused parts compute them when their tiles are done. And what parts 1 and 3 of the
//           ladder have taught: tiles of 64 rows where those of 128 leave multiprocessors idle, launches that
//           overlap, FP32 tiles like step 12's for what the guard refuses, like step 11's for a short K.
// Change    Rows' and columns' facts come by asynchronous copies. If they show that each element may expect
//           enough products, counts are not multiplied; otherwise they are, before the k-tiles, which are
//           left out if the guard refuses the whole tile. The tensor cores get the large products of a k-tile
//           first, which need only hi, and do not drain between k-tiles: those are added to the sums while
//           the small products run. A bit for each part that is refused; the block that takes it clears it,
//           and four teams of its threads share the part's terms. One launch splits both operands, whose
//           elements wait in shared memory while other blocks compute. Blocks keep step, so that what one
//           copies should still be in the L2 when the others need it. A template parameter for the tile's
//           rows; fp32_parts.hpp. `fast` counts nothing and looks at nothing but K; infinities and
//           NaNs pass through the tensor cores. In `strict` parts are computed in FP32, too, of which an
//           element may be the sum of so few products that the bound of FP32 summation, u for each of them,
//           is below what is proved for FP16 products.
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
#include "steps/47_every_shape/guard.hpp"
#include "steps/47_every_shape/parts.hpp"
#include "steps/47_every_shape/split.hpp"

namespace {

constexpr int BK = 64;               // terms (a k-tile) that a block has at a time
constexpr int MK = 16;               // terms of a wgmma, which has MM x BN of C
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of one of two consumers
constexpr int PACE = 16;             // k-tiles from one wait of blocks for each other to the next
constexpr int FEW_WAVES = 8;         // up to which that gains nothing
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
constexpr auto SWIZZLE = Swizzle::of_128_bytes;
static_assert(SHORTEST > BK);  // a tile fills three stages or more, so two slots of `needless` are enough

// CONSUMERS warpgroups multiply, MM rows each, and compute refused parts; the first one copies, and helps one
// consumer with refused parts.
template <int CONSUMERS>
struct alignas(1024) Tiles {
  static constexpr int BM = CONSUMERS * MM;
  static constexpr int STAGES = CONSUMERS == 1 ? 4 : 3;  // buffers for k-tiles: as many as have room
  fp16 A[STAGES][PARTS][BM][BK];                         // [stage][hi, lo][row][k], swizzled
  fp16 B[STAGES][PARTS][BN][BK];                         // [stage][hi, lo][column][k], swizzled
  std::uint64_t full[STAGES][PARTS];  // mbarriers: its hi and lo are there, or counts of A and counts of B
  std::uint64_t empty[STAGES];        // all consumers have multiplied them
  // What a warpgroup needs to know, for a tile and the next: warps drift apart.
  Line of_rows[CONSUMERS][2][MM];
  Line of_cols[CONSUMERS][2][BN];
  unsigned worst[CONSUMERS][3];  // Path that a warpgroup agrees on: of this time, those before and after
  bool needless[CONSUMERS][2];   // whether a warpgroup refuses its part whatever the products are
  int own[CONSUMERS];  // the latest part a warpgroup has refused, counted among the block's own; -1: none
  int taken;           // the refused part that the block computes in FP32
};

// sum * 2^exponent, with one rounding unless the result is subnormal; 2^exponent may be no float.
__device__ __forceinline__ float scaled(float sum, int exponent) {
  const int first = min(max(exponent, -126), 127), second = min(max(exponent - first, -126), 127);
  return sum * splitting::power_of_two(first) * splitting::power_of_two(second);
}

// Waits until all blocks together have begun so many paces, so that what one copies should still be in the L2
// when others need it; not for long, since nothing depends on it. Returns whether they have.
__device__ __forceinline__ bool await_others(unsigned* begun, unsigned paces) {
  for (int looks = 0; looks < 100; ++looks) {
    if (atomicAdd(begun, 0u) >= paces) return true;
  }
  return false;
}

// Whether no warpgroup of the block needs the products of its turn-th tile.
template <int CONSUMERS>
__device__ __forceinline__ bool all_needless(const bool (&needless)[CONSUMERS][2], int turn) {
  bool all = true;
  for (int w = 0; w < CONSUMERS; ++w) all &= needless[w][turn % 2];
  return all;
}

template <int CONSUMERS, bool ALIGNED>  // whether A, B and C are, to float4, and B is not transposed
__global__ void __launch_bounds__((1 + CONSUMERS) * 128, 1)
    gemm_split(Gemm g, const __grid_constant__ TensorMap parts_a, const __grid_constant__ TensorMap parts_b,
               const __grid_constant__ TensorMap counts_a, const __grid_constant__ TensorMap counts_b,
               const Line* lines_a, const Line* lines_b, Transposed transposed, unsigned* refused,
               Ledger* ledger, Accuracy accuracy) {
  using Shared = Tiles<CONSUMERS>;
  constexpr int BM = Shared::BM, STAGES = Shared::STAGES;
  static_assert(STAGES <= PACE);     // a tile whose products are needless has begun one pace
  constexpr int AHEAD = STAGES - 1;  // k-tiles on their way before it is known whether they are needed
  auto& [As, Bs, full, empty, all_rows, all_cols, worst, needless, own, taken] = dynamic_shared<Shared>();

  const int tiles = tiles_of(g, BM), k_tiles = ceil_div(g.K, BK);
  const bool guarded = accuracy != Accuracy::fast;
  const int count_tiles = guarded ? ceil_div(ceil_div(g.K, COUNTED_K), BK) : 0;
  const unsigned most_zeros = accuracy == Accuracy::strict ? max(g.K - least_proved(g.K), 0) : ~0u;

  if (threadIdx.x == 0) {
    prefetch_tensor_map(parts_a);
    prefetch_tensor_map(parts_b);
    for (int stage = 0; stage < STAGES; ++stage) {
      for (int part = 0; part < PARTS; ++part) mbarrier_init(&full[stage][part], 1);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    for (int i = 0; i < CONSUMERS * 3; ++i) worst[i / 3][i % 3] = 0;
    for (int w = 0; w < CONSUMERS; ++w) own[w] = -1;
    mbarrier_fence_init();
  }
  __syncthreads();

  int stage = 0;
  if (threadIdx.x < 128) {
    if constexpr (CONSUMERS == 2) warpgroup_reg_dealloc<FEW>();
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    const int end = threadIdx.x == 0 ? tiles : 0;  // one thread copies
    const int blocks = static_cast<int>(gridDim.x);
    const int paces = ceil_div(k_tiles, PACE);  // of a tile
    const bool keeps_step = CONSUMERS == 2 && tiles > FEW_WAVES * blocks;
    bool waits = true;  // until it has waited in vain: other blocks are late, or not running
    for (int number = blockIdx.x, turn = 0; number < end; number += gridDim.x, ++turn) {
      const Part tile = find_tile<BM>(g, number);
      wait_for_previous_launch();  // not before the first copies; behind other tiles it returns at once
      for (int i = 0; i < count_tiles + k_tiles; ++i) {
        mbarrier_wait(&empty[stage], parity);
        // The stage just given back has held the last counts: `needless` is written by then.
        if (guarded && i == count_tiles + AHEAD && all_needless(needless, turn)) {
          if (keeps_step) atomicAdd(&ledger->begun, paces - 1u);  // those it skips
          break;
        }
        if (i < count_tiles) {
          mbarrier_arrive_expect_tx(&full[stage][0], sizeof(fp16) * BK * BM);
          tensor_copy(As[stage][0], counts_a, i * BK, tile.row0, tile.matrix, &full[stage][0]);
          mbarrier_arrive_expect_tx(&full[stage][1], sizeof(fp16) * BK * BN);
          tensor_copy(Bs[stage][0], counts_b, i * BK, tile.col0, tile.matrix, &full[stage][1]);
        } else {
          const int k_tile = i - count_tiles, k0 = (turn % 2 == 1 ? k_tiles - 1 - k_tile : k_tile) * BK;
          if (keeps_step && k_tile % PACE == 0) {
            atomicAdd(&ledger->begun, 1u);
            const unsigned begun_by_each = turn * paces + k_tile / PACE + 1;
            waits =
                waits && (turn + 1) * blocks <= tiles && await_others(&ledger->begun, begun_by_each * blocks);
          }
          for (int part = 0; part < PARTS; ++part) {
            const int matrix = tile.matrix * PARTS + part;
            mbarrier_arrive_expect_tx(&full[stage][part], sizeof(fp16) * BK * (BM + BN));
            tensor_copy(As[stage][part], parts_a, k0, tile.row0, matrix, &full[stage][part]);
            tensor_copy(Bs[stage][part], parts_b, k0, tile.col0, matrix, &full[stage][part]);
          }
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    if constexpr (CONSUMERS == 2) return;
  } else {
    if constexpr (CONSUMERS == 2) warpgroup_reg_alloc<MANY>();

    // From lane 0, so that the compiler knows that it is uniform and keeps descriptors in uniform registers.
    const int thread = threadIdx.x % 128, warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1;
    const int m = warpgroup * MM;  // its first row in the block's tile
    int parity = 0;
    // The warpgroup's operands in the first stage.
    const auto first_a = matrix_descriptor(As[0][0][m], SWIZZLE, 0, ATOM),
               first_b = matrix_descriptor(Bs[0][0], SWIZZLE, 0, ATOM);
    const auto a_at = [&](int part, int k) {
      return first_a +
             (stage * unsigned{sizeof As[0]} + part * unsigned{sizeof As[0][0]} + k * unsigned{sizeof(fp16)});
    };
    const auto b_at = [&](int part, int k) {
      return first_b +
             (stage * unsigned{sizeof Bs[0]} + part * unsigned{sizeof Bs[0][0]} + k * unsigned{sizeof(fp16)});
    };
    const auto next = [&] {
      if (++stage == STAGES) stage = 0, parity ^= 1;
    };
    const auto release = [&](int read) {
      if (thread == 0) mbarrier_arrive(&empty[read]);
    };
    int agreed = 0;  // times so far
    // The worst path for a part of C that any of the warpgroup's threads has found.
    const auto agree = [&](Path path) {
      unsigned& of_part = worst[warpgroup][agreed % 3];
      if (path != Path::fast) atomicMax(&of_part, static_cast<unsigned>(path));
      named_barrier_sync(1 + warpgroup, 128);
      path = static_cast<Path>(__shfl_sync(~0u, of_part, 0));
      // That of the time before: all have read it, and nobody writes to it before the next time's barrier.
      if (thread == 0) worst[warpgroup][(agreed + 2) % 3] = 0;
      ++agreed;
      return path;
    };
    int turn = 0;  // this block's tiles so far
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
      const Part tile = find_tile<BM>(g, number);
      const int rows = g.M - tile.row0 - m, cols = g.N - tile.col0;
      // Requested all at once; a block's first tile is on its way meanwhile.
      Line(&of_rows)[MM] = all_rows[warpgroup][turn % 2], (&of_cols)[BN] = all_cols[warpgroup][turn % 2];
      const std::int64_t row0 = static_cast<std::int64_t>(tile.matrix) * g.M + tile.row0 + m,
                         col0 = static_cast<std::int64_t>(tile.matrix) * g.N + tile.col0;
      wait_for_previous_launch();
      if (thread < MM) async_copy<sizeof(Line)>(&of_rows[thread], lines_a + row0 + thread, thread < rows);
      async_copy<sizeof(Line)>(&of_cols[thread], lines_b + col0 + thread, thread < cols);
      async_copy_commit();
      float products[BN / 2], small[BN / 2], sums[BN / 2];

      async_copy_wait<0>();
      named_barrier_sync(1 + warpgroup, 128);  // of_rows and of_cols are there
      const Most most = most_of(of_rows) + most_of(of_cols);
      auto path = Path::fast;
      int wanted = k_tiles;
      if (guarded) {
        // All threads find the same; the shuffles tell the compiler so.
        const auto of_lines = most.zeros > most_zeros ? Path::unproved
                              : most.lossy >= SPECIAL ? Path::special
                                                      : Path::fast;
        path = static_cast<Path>(__shfl_sync(~0u, static_cast<unsigned>(of_lines), 0));
        const bool dense = __shfl_sync(~0u, most.sparse, 0) == 0;  // each element may expect enough products
        for (int i = 0; i < count_tiles; ++i) {
          for (int part = 0; part < PARTS; ++part) mbarrier_wait(&full[stage][part], parity);
          if (dense) {
            // All have seen that it is full, before it is filled again.
            named_barrier_sync(1 + warpgroup, 128);
          } else {
            wgmma_fence();
#pragma unroll
            for (int k = 0; k < BK; k += MK) wgmma_fp16(products, a_at(0, k), b_at(0, k), i > 0 || k > 0);
            wgmma_commit();
            wgmma_wait<0>(products);
          }
          if (i + 1 < count_tiles) {
            release(stage);
            next();
          }
        }
        if (!dense) {
          bool few_terms = false;
          if (rows >= MM && cols >= BN) {
            float least = products[0];
#pragma unroll
            for (int i = 1; i < BN / 2; ++i) least = fminf(least, products[i]);
            few_terms = least < LEAST_TERMS;
          } else {
#pragma unroll
            for (int i = 0; i < BN / 2; ++i) {
              const auto [row, col] = wgmma_place(thread, i);
              few_terms |= (row < rows) & (col < cols) & (products[i] < LEAST_TERMS);
            }
          }
          path = agree(path == Path::fast && few_terms ? Path::few_terms : path);
        }
        const bool needless_here = path != Path::fast || rows <= 0;
        if (thread == 0) needless[warpgroup][turn % 2] = needless_here;
        release(stage);
        if (needless_here) {
          mbarrier_wait(&empty[stage], parity);  // the other warpgroup has decided, too
          wanted = __shfl_sync(~0u, all_needless(needless, turn) ? 0 : k_tiles, 0);
        }
        next();
        if (wanted == 0) {  // k-tiles that are on their way nevertheless
          for (int i = 0; i < min(k_tiles, AHEAD); ++i) {
            for (int part = 0; part < PARTS; ++part) mbarrier_wait(&full[stage][part], parity);
            named_barrier_sync(1 + warpgroup, 128);
            release(stage);
            next();
          }
        }
      }

#pragma unroll
      for (int j = 0; j < BN / 2; ++j) sums[j] = 0.0f;
      int before = 0;  // the stage of the k-tile before
      for (int k_tile = 0; k_tile < wanted; ++k_tile) {
        mbarrier_wait(&full[stage][0], parity);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < BK; k += MK) wgmma_fp16(products, a_at(0, k), b_at(0, k), k > 0);
        wgmma_commit();
        wgmma_wait<1>();  // for the small products of the k-tile before
        if (k_tile > 0) release(before);
        mbarrier_wait(&full[stage][1], parity);
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
      let_next_launch_begin();  // at the beginning of the kernel it gains nothing
      if (wanted > 0) release(before);
#pragma unroll
      for (int j = 0; j < BN / 2; ++j) {
        if (fabsf(sums[j]) < __uint_as_float(0x7f800000)) sums[j] += small[j] * (1 / LO_SCALE);
      }

      // The compiler has to know it to be uniform: otherwise the barrier behind this branch would cost the
      // main loop its uniform registers.
      if (guarded && __shfl_sync(~0u, most.lossy, 0) > 0) {
        bool shows = false;
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) {
          const auto [row, col] = wgmma_place(thread, i);
          const auto lossy = static_cast<float>(of_rows[row].lossy + of_cols[col].lossy);
          shows |= (row < rows) & (col < cols) & (fabsf(sums[i]) < LEAST_SHOWN * lossy);
        }
        path = agree(path == Path::fast && shows ? Path::lossy : path);
      }
      if (thread == 0 && rows > 0) {
        atomicAdd(&ledger->taken[static_cast<int>(path)], 1u);
        if (path != Path::fast) {
          const int part = number * CONSUMERS + warpgroup;
          atomicOr(&refused[part / 32], 1u << part % 32);
          own[warpgroup] = turn * CONSUMERS + warpgroup;
        }
      }
      ++turn;
      if (path != Path::fast) continue;

      float* C = g.C + tile.matrix * g.strideC + (tile.row0 + m) * g.ldc + tile.col0;  // [MM][BN]
      const auto exponent = [&](int i) {
        const auto [row, col] = wgmma_place(thread, i);
        return of_rows[row].exponent + of_cols[col].exponent;
      };
      if (most.exponent <= 126) {
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) sums[i] *= splitting::power_of_two(exponent(i));
      } else {
#pragma unroll
        for (int i = 0; i < BN / 2; ++i) sums[i] = scaled(sums[i], exponent(i));
      }
#pragma unroll
      for (int i = 0; i < BN / 2; i += 2) {
        const auto [row, col] = wgmma_place(thread, i);
        update2<ALIGNED>(&C[row * g.ldc + col], row < rows ? cols - col : 0, sums[i], sums[i + 1], g.alpha,
                         g.beta);
      }
    }
  }

  if (!guarded) return;
  // Parts that have been refused, by this block or others, now that no tile of this one needs the stages.
  using Shape = fp32_parts::Together;
  constexpr int WORKERS = Shape::TEAMS * Shape::THREADS, BARRIER = 2 + CONSUMERS;
  static_assert(WORKERS == 256 && sizeof(Shape::Memory) <= sizeof(Shared::A) + sizeof(Shared::B));
  const int worker = threadIdx.x - (CONSUMERS == 2 ? 128 : 0);
  auto* const memory = reinterpret_cast<Shape::Memory*>(&As);
  wait_for_previous_launch();  // the first warpgroup's other 127 threads have not waited yet
  named_barrier_sync(BARRIER, WORKERS);
  int latest = max(own[0], own[CONSUMERS - 1]);
  if (latest < 0) return;
  for (;;) {
    if (worker < 32) {
      const int part = fp32_parts::take_refused<CONSUMERS>(refused, tiles * CONSUMERS, latest);
      if (worker == 0) taken = part;
    }
    named_barrier_sync(BARRIER, WORKERS);
    const int part = taken;
    if (part < 0) return;
    fp32_parts::compute<Shape, ALIGNED>(g, transposed, find_part<CONSUMERS>(g, part), *memory, worker,
                                        BARRIER);
  }
}

// No more blocks than needed for as many waves as a block on every multiprocessor would have: so all have
// about as many tiles.
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
  SplitLines a, b;    // none if K is short
  unsigned* refused;  // a bit for each part of C
  Ledger* ledger;
};

template <int CONSUMERS>
void launch_all(const Gemm& g, Transposed transposed, Accuracy accuracy, const Memory& memory) {
  constexpr int BM = CONSUMERS * MM;
  const auto& [a, b, refused, ledger] = memory;
  // In a large product, blocks that begin before the splitting has ended gain nothing.
  const bool early = tiles_of(g, BM) <= 2 * multiprocessors();
  launch(is_aligned(g) && !transposed.b ? gemm_split<CONSUMERS, true> : gemm_split<CONSUMERS, false>,
         LaunchConfig{.grid = dim3(blocks_for(tiles_of(g, BM))),
                      .block = dim3((1 + CONSUMERS) * 128),
                      .shared_bytes = sizeof(Tiles<CONSUMERS>),
                      .overlaps_previous = early},
         g, map_parts(a, g.M, g.K, g.batch, BM), map_parts(b, g.N, g.K, g.batch, BN),
         map_counts(a, g.M, g.K, g.batch, BM), map_counts(b, g.N, g.K, g.batch, BN), a.facts, b.facts,
         transposed, refused, ledger, accuracy);
}

// Launches it all; the ledger then has how many parts went which way.
void multiply(const Gemm& g, Transposed transposed, Accuracy accuracy, const Memory& memory) {
  const int large = tiles_of(g, 2 * MM), small = tiles_of(g, MM);
  if (small == 0) return;
  if (g.K < SHORTEST) {
    fp32_parts::launch_all(g, transposed, memory.ledger);
    return;
  }
  const Lines rows_of_a{g.A, g.M, g.K, g.lda, g.strideA, transposed.a},
      columns_of_b{g.B, g.N, g.K, g.ldb, g.strideB, !transposed.b};
  split({{{rows_of_a, memory.a}, {columns_of_b, memory.b}}}, is_aligned(g) && (!transposed.a || g.M % 4 == 0),
        accuracy != Accuracy::fast, g.batch, memory.refused, words_of_parts(g.M, g.N, g.batch),
        memory.ledger);
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
  static Workspace<unsigned> refused_workspace("refused parts");
  static Workspace<Ledger> ledger_workspace("ledger");
  if (g.M == 0 || g.N == 0 || g.batch == 0) return {};
  Memory memory{};
  memory.refused = refused_workspace.at_least(words_of_parts(g.M, g.N, g.batch));
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
