// Step 46: the guard: where the fast way might be less accurate than FP32, an FP32 kernel computes C.
//
// Idea      Two things can go wrong. An element of C may be the sum of few products: FP32 arithmetic then
//           rounds seldom, while hi and lo have lost two bits of each operand. Or operands that are small in
//           their row or column have lost more, and what they add to is so small that it shows. Both can be
//           counted: the tensor cores multiply counts of elements, as they multiply the elements.
// Change    The splitting pass counts; behind the k-tiles come tiles of counts; the epilogue looks at every
//           element, and a warpgroup whose part of C has a doubtful one stores nothing, but puts the part
//           onto a list. One more launch, of an FP32 kernel (fp32_parts.hpp), works it off. Rows and columns
//           with an infinity or a NaN take the same way, as do problems with a small K.
// Bound     As before; the counts cost the tensor cores one k-tile in 64, the epilogue more. Where all parts
//           fail, the time is that of both kernels.
// Needs     sm_90a: wgmma, setmaxnreg

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/named_barrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"
#include "steps/46_guard/fp32_parts.hpp"
#include "steps/46_guard/paths.hpp"
#include "steps/46_guard/split.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 64;  // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int MM = 64, MK = 16;             // a wgmma's: MM x BN of C, MK terms
constexpr int CONSUMERS = BM / MM;          // warpgroups that multiply, MM rows each; the first one copies
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of a consumer
constexpr int STAGES = 3;            // buffers for the tiles
constexpr int BAND = 16;             // rows of tiles processed together, column by column
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

struct alignas(1024) Tiles {
  fp16 A[STAGES][PARTS][BM][BK];  // [stage][hi, lo][row][k], swizzled
  fp16 B[STAGES][PARTS][BN][BK];  // [stage][hi, lo][column][k], swizzled
  std::uint64_t full[STAGES];     // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];    // all consumers have multiplied them
  unsigned worst[CONSUMERS]
                [3];  // Path of a warpgroup's part of C, for the tile at hand, the one before and after
};

// Where counts lie in a stage that has no tiles: [row or column][MK], swizzled.
template <int LINES>
__device__ __forceinline__ fp16 (&counts_in(fp16 (&parts)[PARTS][LINES][BK]))
    [LINES][MK] { return reinterpret_cast<fp16(&)[LINES][MK]>(parts); }

// A tile of C.
__device__ __forceinline__ Part find_tile(const Gemm& g, int number) {
  const int tiles_m = ceil_div(g.M, BM), tiles_n = ceil_div(g.N, BN);
  const int in_matrix = number % (tiles_m * tiles_n);
  const int band = in_matrix / (BAND * tiles_n), in_band = in_matrix % (BAND * tiles_n);
  const int rows = min(BAND, tiles_m - band * BAND);
  const int column = band % 2 == 0 ? in_band / rows : tiles_n - 1 - in_band / rows;
  return {number / (tiles_m * tiles_n), (band * BAND + in_band % rows) * BM, column * BN};
}

// A warpgroup's part of it.
struct FindPart {
  __device__ __forceinline__ Part operator()(const Gemm& g, int number) const {
    const Part tile = find_tile(g, number / CONSUMERS);
    return {tile.matrix, tile.row0 + number % CONSUMERS * MM, tile.col0};
  }
};

template <bool ALIGNED>  // whether C is, to pairs
__global__ void __launch_bounds__(THREADS, 1)
    gemm_split(Gemm g, const __grid_constant__ TensorMap parts_a, const __grid_constant__ TensorMap parts_b,
               const __grid_constant__ TensorMap counts_a, const __grid_constant__ TensorMap counts_b,
               const Line* lines_a, const Line* lines_b, unsigned* list, Ledger* ledger) {
  auto& [As, Bs, full, empty, worst] = dynamic_shared<Tiles>();

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

  int stage = 0;
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
      const Part tile = find_tile(g, number);
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
    const Part tile = find_tile(g, number);
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

    float* C = g.C + tile.matrix * g.strideC + (tile.row0 + m) * g.ldc + tile.col0;  // [MM][BN]
#pragma unroll
    for (int j = 0; j < BN / 2; j += 4) {
      const int col = wgmma_place(thread, j).col;
      if (col >= cols) continue;
      const int scale0 = of_cols[col].scale, scale1 = of_cols[min(col + 1, cols - 1)].scale;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (!exists[r]) continue;
        const int i = j + 2 * r;
        update2<ALIGNED>(&C[wgmma_place(thread, i).row * g.ldc + col], cols - col,
                         scaled(sums[i], -of_row[r].scale - scale0),
                         scaled(sums[i + 1], -of_row[r].scale - scale1), g.alpha, g.beta);
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
                    lines * split.counts_pitch, box, MK, COUNTS_SWIZZLE);
}

void sgemm_emulated(const Gemm& g) {
  static Room room_a("parts of A", "counts of A", "rows of A"),
      room_b("parts of B", "counts of B", "columns of B");
  static Workspace<unsigned> list_workspace("list");
  static Workspace<Ledger> ledger_workspace("ledger");
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch, parts = tiles * CONSUMERS;
  unsigned* list = list_workspace.at_least(parts);
  Ledger* ledger = ledger_workspace.at_least(1);
  latest_ledger = ledger;
  const dim3 fp32_grid(min(parts, 8 * multiprocessors())), fp32_block(fp32_parts::THREADS);
  if (g.K < SHORTEST) {
    launch(fp32_parts::gemm_fp32<true, FindPart>, fp32_grid, fp32_block, 0, g, list, ledger, parts);
    return;
  }
  const SplitLines a = room_a.at_least(g.M, g.K, g.batch), b = room_b.at_least(g.N, g.K, g.batch);
  split({g.A, g.M, g.K, g.lda, g.strideA, is_aligned(g)}, a, {g.B, g.N, g.K, g.ldb, g.strideB, is_aligned(g)},
        b, g.batch, ledger);
  launch(is_aligned(g) ? gemm_split<true> : gemm_split<false>, dim3(blocks_for(tiles)), dim3(THREADS),
         sizeof(Tiles), g, map_parts(a, g.M, g.K, g.batch, BM), map_parts(b, g.N, g.K, g.batch, BN),
         map_counts(a, g.M, g.K, g.batch, BM), map_counts(b, g.N, g.K, g.batch, BN), a.facts, b.facts, list,
         ledger);
  launch(fp32_parts::gemm_fp32<false, FindPart>, fp32_grid, fp32_block, 0, g, list, ledger, parts);
}

}  // namespace
