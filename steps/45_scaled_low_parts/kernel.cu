// Step 45: lo is stored 2^11 times as large, and the small products have an accumulator of their own.
//
// Idea      lo is at least 2^11 times smaller than hi, and leaves FP16's range first: where an element is
//           more than 2^16 times smaller than its line's largest, lo loses bits; where it is 2^28 times
//           smaller, lo is zero. Stored 2^11 times as large, lo lies where hi does. Its products then cannot
//           be added to those of hi * hi before they are divided by 2^11, so they have an accumulator of
//           their own.
// Change    A factor in the splitting pass, and a third set of sums. What the tensor cores truncate of the
//           small products is 2^11 times smaller beside the result, and does not show: they need no
//           promotion.
// Bound     Of the accuracy: elements more than 2^27 times smaller than their line's largest, and sums of few
//           products. Nothing tells when that happens.
// Needs     sm_90a: wgmma, setmaxnreg

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/cuda/workspace.hpp"
#include "common/fp16.hpp"
#include "common/step.hpp"
#include "steps/45_scaled_low_parts/split.hpp"

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

struct alignas(1024) Tiles {
  fp16 A[STAGES][PARTS][BM][BK];  // [stage][hi, lo][row][k], swizzled
  fp16 B[STAGES][PARTS][BN][BK];  // [stage][hi, lo][column][k], swizzled
  std::uint64_t full[STAGES];     // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];    // all consumers have multiplied them
};

// A tile of C.
struct Tile {
  int matrix, row0, col0;
};

__device__ __forceinline__ Tile find_tile(const Gemm& g, int number) {
  const int tiles_m = ceil_div(g.M, BM), tiles_n = ceil_div(g.N, BN);
  const int in_matrix = number % (tiles_m * tiles_n);
  const int band = in_matrix / (BAND * tiles_n), in_band = in_matrix % (BAND * tiles_n);
  const int rows = min(BAND, tiles_m - band * BAND);
  const int column = band % 2 == 0 ? in_band / rows : tiles_n - 1 - in_band / rows;
  return {number / (tiles_m * tiles_n), (band * BAND + in_band % rows) * BM, column * BN};
}

// map_a: boxes BM x BK. map_b: boxes BN x BK, of B's columns.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_split(Gemm g, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               const int* scales_a, const int* scales_b) {
  auto& [As, Bs, full, empty] = dynamic_shared<Tiles>();

  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch, k_tiles = ceil_div(g.K, BK);

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    mbarrier_fence_init();
  }
  __syncthreads();

  int stage = 0;
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
      const Tile tile = find_tile(g, number);
      const bool backwards = number / gridDim.x % 2 == 1;
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        const int k0 = (backwards ? k_tiles - 1 - k_tile : k_tile) * BK;
        mbarrier_wait(&empty[stage], parity);
        mbarrier_arrive_expect_tx(&full[stage], sizeof(fp16) * PARTS * BK * (BM + BN));
        for (int part = 0; part < PARTS; ++part) {
          const int matrix = tile.matrix * PARTS + part;
          tensor_copy(As[stage][part], map_a, k0, tile.row0, matrix, &full[stage]);
          tensor_copy(Bs[stage][part], map_b, k0, tile.col0, matrix, &full[stage]);
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int thread = threadIdx.x % 128, m = (threadIdx.x / 128 - 1) * MM;  // the warpgroup's first row
  int parity = 0;
  const auto a_at = [&](int part, int k) {
    return matrix_descriptor(&As[stage][part][m][k], SWIZZLE, 0, ATOM);
  };
  const auto b_at = [&](int part, int k) {
    return matrix_descriptor(&Bs[stage][part][0][k], SWIZZLE, 0, ATOM);
  };
  const auto multiply = [&](float (&d)[BN / 2], int part_a, int part_b, int k, bool adds = true) {
    wgmma_fp16(d, a_at(part_a, k), b_at(part_b, k), adds);
  };
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const Tile tile = find_tile(g, number);
    float products[BN / 2];    // hi * hi, of a k-tile
    float small[BN / 2] = {};  // hi * lo and lo * hi, times LO_SCALE
    float sums[BN / 2] = {};   // FP32
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      mbarrier_wait(&full[stage], parity);
      wgmma_fence();
#pragma unroll
      for (int k = 0; k < BK; k += MK) {
        multiply(small, 0, 1, k);
        multiply(small, 1, 0, k);
      }
#pragma unroll
      for (int k = 0; k < BK; k += MK) multiply(products, 0, 0, k, k > 0);
      wgmma_commit();
      wgmma_wait<0>(products, small);  // meanwhile the other warpgroup's products keep the tensor cores busy
      if (thread == 0) mbarrier_arrive(&empty[stage]);
      if (++stage == STAGES) stage = 0, parity ^= 1;
#pragma unroll
      for (int j = 0; j < BN / 2; ++j) sums[j] += products[j];
    }
#pragma unroll
    for (int j = 0; j < BN / 2; ++j) sums[j] += small[j] * (1 / LO_SCALE);

    float* C = g.C + tile.matrix * g.strideC;  // [M][N]
    const int rows = g.M - tile.row0, cols = g.N - tile.col0;
    // A thread has two rows, eight apart, and of every eight columns two neighbours.
    const int* of_cols = scales_b + static_cast<std::int64_t>(tile.matrix) * g.N + tile.col0;
    int of_row[2];
    for (int r = 0; r < 2; ++r) {
      const int row = min(m + wgmma_place(thread, 2 * r).row, rows - 1);
      of_row[r] = scales_a[static_cast<std::int64_t>(tile.matrix) * g.M + tile.row0 + row];
    }
#pragma unroll
    for (int j = 0; j < BN / 2; j += 2) {  // two sums side by side
      const auto [row, col] = wgmma_place(thread, j);
      if (m + row >= rows || col >= cols) continue;
      const int s = of_row[j / 2 % 2];
      update2<ALIGNED>(&C[(tile.row0 + m + row) * g.ldc + (tile.col0 + col)], cols - col,
                       scaled(sums[j], -s - of_cols[col]),
                       scaled(sums[j + 1], -s - of_cols[min(col + 1, cols - 1)]), g.alpha, g.beta);
    }
  }
}

// Blocks such that all of them have the same number of tiles, if fewer multiprocessors than there are take as
// many waves.
int blocks_for(int tiles) {
  const int waves = ceil_div(tiles, multiprocessors());
  return ceil_div(tiles, waves);
}

// Room for the parts of so many lines, and their scales.
class Room {
 public:
  Room(const char* parts, const char* scales) : parts_(parts), scales_(scales) {}
  SplitLines at_least(int lines, int K, int batch) {
    const std::int64_t pitch = ceil_div(K, 8) * 8;
    const std::size_t all = static_cast<std::size_t>(lines) * batch;
    return {parts_.at_least(all * PARTS * pitch), scales_.at_least(all), pitch};
  }

 private:
  Workspace<fp16> parts_;
  Workspace<int> scales_;
};

TensorMap map_parts(const SplitLines& split, int lines, int K, int batch, int box) {
  return tensor_map(split.parts, lines, K, split.pitch, batch * PARTS, lines * split.pitch, box, BK, SWIZZLE);
}

void gemm_fp16x3(const Gemm& g) {
  static Room room_a("parts of A", "scales of A"), room_b("parts of B", "scales of B");
  if (g.M == 0 || g.N == 0 || g.batch == 0) return;
  const bool aligned = is_aligned(g);
  const SplitLines a = room_a.at_least(g.M, g.K, g.batch), b = room_b.at_least(g.N, g.K, g.batch);
  split({g.A, g.M, g.K, g.lda, g.strideA, aligned}, a, {g.B, g.N, g.K, g.ldb, g.strideB, aligned}, b,
        g.batch);
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  launch(aligned ? gemm_split<true> : gemm_split<false>, dim3(blocks_for(tiles)), dim3(THREADS),
         sizeof(Tiles), g, map_parts(a, g.M, g.K, g.batch, BM), map_parts(b, g.N, g.K, g.batch, BN), a.scales,
         b.scales);
}

}  // namespace
