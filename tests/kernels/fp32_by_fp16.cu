// FP32 from three products of FP16 numbers. Every element of A and B is split into two FP16 numbers
// (split.hpp beside this file), hi + lo / 2^11, and the tensor cores compute hi * hi, hi * lo and lo * hi. A
// block has both parts of A and of B in each stage of its pipeline, that of step 37.
//
// Tensor cores cut their sums off. So the sums of hi * hi are added to FP32 sums of the thread's own every BK
// terms; those of the small products, 2^-11 times as large, have an accumulator of their own.
//
// Where this would be less accurate than FP32 summation may be, nothing is stored, and the part of C goes
// onto a list for an FP32 kernel (fp32_parts.hpp). A part is computed in FP32 if K is below SHORTEST, or
//   - an element is the sum of few products: SGEMM then rounds seldom, while hi and lo have lost two bits of
//     each operand. The tensor cores multiply counts of elements, of rows and columns, block by block of 64
//     k;
//   - operands that are small in their row or column have lost more, and the element is so small that it may
//     show;
//   - its rows or columns have an infinity or a NaN.
//
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
#include "tests/kernels/fp32_by_fp16/fp32_parts.hpp"
#include "tests/kernels/fp32_by_fp16/paths.hpp"
#include "tests/kernels/fp32_by_fp16/split.hpp"

namespace {

constexpr int BN = 128, BK = 64;     // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int MM = 64, MK = 16;      // a wgmma's: MM x BN of C, MK terms
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of one of two consumers
constexpr int BAND = 16;             // rows of tiles processed together, column by column
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
constexpr auto SWIZZLE = Swizzle::of_128_bytes;

// With fewer terms, FP32 summation may round so seldom that hi and lo, which lose up to 2^-22 of an operand,
// are less accurate. A few large terms among many small ones are no such case: there, too, it rounds at every
// term.
constexpr int SHORTEST = 96;       // K
constexpr float LEAST_TERMS = 16;  // products that an element needs
constexpr float LEAST_SHOWN = 16;  // its magnitude, scaled, for each lossy operand

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
};

// A tile of C.
template <int BM>
__device__ __forceinline__ Part find_tile(const Gemm& g, int number) {
  const int tiles_m = ceil_div(g.M, BM), tiles_n = ceil_div(g.N, BN);
  const int in_matrix = number % (tiles_m * tiles_n);
  const int band = in_matrix / (BAND * tiles_n), in_band = in_matrix % (BAND * tiles_n);
  const int rows = min(BAND, tiles_m - band * BAND);
  const int column = band % 2 == 0 ? in_band / rows : tiles_n - 1 - in_band / rows;
  return {number / (tiles_m * tiles_n), (band * BAND + in_band % rows) * BM, column * BN};
}

// A warpgroup's part of it.
template <int CONSUMERS>
struct FindPart {
  __device__ __forceinline__ Part operator()(const Gemm& g, int number) const {
    const Part tile = find_tile<CONSUMERS * MM>(g, number / CONSUMERS);
    return {tile.matrix, tile.row0 + number % CONSUMERS * MM, tile.col0};
  }
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
               const Line* lines_a, const Line* lines_b, unsigned* list, Ledger* ledger) {
  using Shared = Tiles<CONSUMERS>;
  constexpr int BM = Shared::BM, STAGES = Shared::STAGES;
  auto& [As, Bs, full, empty, all_rows, all_cols, worst] = dynamic_shared<Shared>();

  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch, k_tiles = ceil_div(g.K, BK);
  const int count_tiles = ceil_div(ceil_div(g.K, COUNTED_K), BK);

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

  int stage = 0;
  if (threadIdx.x < 128) {
    if constexpr (CONSUMERS == 2) warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
      const Part tile = find_tile<BM>(g, number);
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
          const int first = (i - k_tiles) * BK;
          mbarrier_arrive_expect_tx(&full[stage], sizeof(fp16) * BK * (BM + BN));
          tensor_copy(As[stage][0], counts_a, first, tile.row0, tile.matrix, &full[stage]);
          tensor_copy(Bs[stage][0], counts_b, first, tile.col0, tile.matrix, &full[stage]);
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
  int turn = 0;  // this block's tiles so far
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const Part tile = find_tile<BM>(g, number);
    const int rows = g.M - tile.row0 - m, cols = g.N - tile.col0;
    // Requested before the products: behind them nothing would hide the latency.
    Line(&of_rows)[MM] = all_rows[warpgroup][turn % 2], (&of_cols)[BN] = all_cols[warpgroup][turn % 2];
    const std::int64_t row0 = static_cast<std::int64_t>(tile.matrix) * g.M + tile.row0 + m,
                       col0 = static_cast<std::int64_t>(tile.matrix) * g.N + tile.col0;
    if (thread < MM) async_copy<sizeof(Line)>(&of_rows[thread], lines_a + row0 + thread, thread < rows);
    async_copy<sizeof(Line)>(&of_cols[thread], lines_b + col0 + thread, thread < cols);
    async_copy_commit();
    float products[BN / 2], small[BN / 2], sums[BN / 2];
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
    for (int j = 0; j < BN / 2; ++j) sums[j] += small[j] * (1 / LO_SCALE);

    for (int i = 0; i < count_tiles; ++i) {
      mbarrier_wait(&full[stage], parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK; k += MK) wgmma_fp16(products, a_at(0, k), b_at(0, k), i > 0 || k > 0);
      wgmma_commit();
      wgmma_wait<0>(products);
      release(stage);
      next();
    }

    async_copy_wait<0>();
    named_barrier_sync(1 + warpgroup, 128);  // of_rows and of_cols are there
    // A thread has two rows, eight apart, and of every eight columns two neighbours.
    Line of_row[2];
    bool exists[2];
    for (int r = 0; r < 2; ++r) {
      const int row = wgmma_place(thread, 2 * r).row;
      exists[r] = row < rows;
      of_row[r] = of_rows[row];
    }
    bool few_terms = false, shows = false, special = false;
#pragma unroll
    for (int j = 0; j < BN / 2; j += 4) {
      const int col = wgmma_place(thread, j).col;
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const unsigned of_col = of_cols[col + c].lossy;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const int i = j + 2 * r + c;
          const bool here = exists[r] & (col + c < cols);
          const unsigned lossy = of_row[r].lossy + of_col;
          few_terms |= here & (products[i] < LEAST_TERMS);
          shows |= here & (fabsf(sums[i]) < LEAST_SHOWN * static_cast<float>(lossy));
          special |= here & (lossy >= SPECIAL);
        }
      }
    }
    auto path = special ? Path::special : shows ? Path::lossy : few_terms ? Path::few_terms : Path::fast;
    unsigned& of_part = worst[warpgroup][turn % 3];
    if (path != Path::fast) atomicMax(&of_part, static_cast<unsigned>(path));
    named_barrier_sync(1 + warpgroup, 128);
    path = static_cast<Path>(of_part);
    // That of the tile before: all have read it, and nobody writes to it before the next tile's barrier.
    ++turn;
    if (thread == 0) worst[warpgroup][(turn + 1) % 3] = 0;
    if (thread == 0 && rows > 0) {
      atomicAdd(&ledger->taken[static_cast<int>(path)], 1u);
      if (path != Path::fast) list[atomicAdd(&ledger->listed, 1u)] = number * CONSUMERS + warpgroup;
    }
    if (path != Path::fast) continue;

    float* C = g.C + tile.matrix * g.strideC + (tile.row0 + m) * g.ldc + tile.col0;  // [MM][BN]
#pragma unroll
    for (int j = 0; j < BN / 2; j += 4) {
      const int col = wgmma_place(thread, j).col;
      if (col >= cols) continue;
      const int exponent0 = of_cols[col].exponent, exponent1 = of_cols[col + 1].exponent;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (!exists[r]) continue;
        const int i = j + 2 * r;
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
                    lines * split.counts_pitch, box, BK, SWIZZLE);
}

int tiles_of(const Gemm& g, int BM) { return ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch; }

template <int CONSUMERS>
void multiply(const Gemm& g, const SplitLines& a, const SplitLines& b, unsigned* list, Ledger* ledger) {
  constexpr int BM = CONSUMERS * MM;
  const int tiles = tiles_of(g, BM), parts = tiles * CONSUMERS;
  const bool aligned = is_aligned(g);
  launch(aligned ? gemm_split<CONSUMERS, true> : gemm_split<CONSUMERS, false>,
         LaunchConfig{.grid = dim3(blocks_for(tiles)),
                      .block = dim3((1 + CONSUMERS) * 128),
                      .shared_bytes = sizeof(Tiles<CONSUMERS>),
                      .overlaps_previous = true},
         g, map_parts(a, g.M, g.K, g.batch, BM), map_parts(b, g.N, g.K, g.batch, BN),
         map_counts(a, g.M, g.K, g.batch, BM), map_counts(b, g.N, g.K, g.batch, BN), a.facts, b.facts, list,
         ledger);
  using Find = FindPart<CONSUMERS>;
  launch(aligned ? fp32_parts::gemm_fp32<false, true, Find> : fp32_parts::gemm_fp32<false, false, Find>,
         fp32_parts::config(parts), g, list, ledger, parts);
}

void sgemm(const Gemm& g) {
  static Room room_a("parts of A", "counts of A", "rows of A"),
      room_b("parts of B", "counts of B", "columns of B");
  static Workspace<unsigned> list_workspace("list");
  static Workspace<Ledger> ledger_workspace("ledger");
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  const int large = tiles_of(g, 2 * MM), small = tiles_of(g, MM);
  unsigned* list = list_workspace.at_least(2 * large);
  Ledger* ledger = ledger_workspace.at_least(1);
  latest_ledger = ledger;
  if (g.K < SHORTEST) {
    using Find = FindPart<1>;
    launch(is_aligned(g) ? fp32_parts::gemm_fp32<true, true, Find> : fp32_parts::gemm_fp32<true, false, Find>,
           fp32_parts::config(small), g, list, ledger, small);
    return;
  }
  const SplitLines a = room_a.at_least(g.M, g.K, g.batch), b = room_b.at_least(g.N, g.K, g.batch);
  split({g.A, g.M, g.K, g.lda, g.strideA, is_aligned(g)}, a, {g.B, g.N, g.K, g.ldb, g.strideB, is_aligned(g)},
        b, g.batch, ledger);
  // Half a tile takes more than half the time, by a fifth. It is worth it where it saves a half-empty wave.
  const auto waves = [](int tiles) { return ceil_div(tiles, multiprocessors()); };
  const auto multiply_by = 6 * waves(small) < 5 * 2 * waves(large) ? multiply<1> : multiply<2>;
  multiply_by(g, a, b, list, ledger);
}

}  // namespace
