// Step 39: TF32 once more, by wgmma: the pipeline of step 37, with B in registers.
//
// Idea      wgmma wants TF32 operands whose terms lie side by side: rows of A do, columns of B do not. But
//           it takes one operand from registers, too, which threads load from any layout. So it multiplies
//           C^T = B^T * A^T, B^T from registers, A^T from the rows of A. Nothing has to be transposed.
// Change    Against step 37: floats, rounded by the TMA; columns of B in registers, loaded ahead; sums of
//           C^T, of which a thread has neighbours in a row of C.
// Bound     The clock, which the power of the tensor cores limits.
// Needs     sm_90a: wgmma, setmaxnreg

#include "common/cuda/bulk_store.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/named_barrier.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/tf32.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 256, BN = 128, BK = 32;  // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int MN = 64, MK = 8;              // a wgmma's: BM x MN of C, MK terms
constexpr int CONSUMERS = BN / MN;          // warpgroups that multiply, MN columns each; the first one copies
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of a consumer
constexpr int STAGES = 4;            // buffers for the tiles
constexpr int GROUP = 32;            // elements in the 128 bytes that are swizzled; columns of two warps
constexpr int STEPS = BK / MK;       // wgmma of a warpgroup for a k-tile
constexpr int PENDING = 1;           // wgmma under way while the registers of the one before them are loaded
constexpr int BAND = 8;              // rows of tiles processed together, column by column
constexpr int STORED = 32;           // rows of C in a store
constexpr int BUFFERS = 2;           // of two warps, for sums that are being stored
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
static_assert(BK == GROUP && MN == 2 * GROUP && PENDING > 0 && PENDING < STEPS);

struct alignas(1024) Tiles {
  float A[STAGES][BM][BK];                      // [stage][row][k], rounded, swizzled
  float B[STAGES][BN / GROUP][BK][GROUP];       // [stage][group][k][column], rounded, swizzled
  float C[BN / GROUP][BUFFERS][STORED][GROUP];  // [group][buffer][row][column], swizzled: on their way to C
  std::uint64_t full[STAGES];                   // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];                  // all consumers' warps are done with them
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

// The first of the two neighbouring columns, of 16 in a group of 32, that a lane loads: chosen so that 16
// lanes, with four values of `quad` among them, find theirs in 32 different banks.
__device__ __forceinline__ int b_column(int quad) { return quad % 2 * 2 + quad / 2 % 2 * 16 + quad / 4 * 4; }

// map_a: boxes BM x BK. map_b: boxes BK x GROUP. map_c: boxes STORED x GROUP.
template <bool TMA>  // whether C is stored by TMA
__global__ void __launch_bounds__(THREADS, 1)
    gemm_persistent(Gemm g, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
                    const __grid_constant__ TensorMap map_c) {
  auto& [As, Bs, Cs, full, empty] = dynamic_shared<Tiles>();

  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch, k_tiles = ceil_div(g.K, BK);

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], CONSUMERS * 4);
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
        mbarrier_arrive_expect_tx(&full[stage], sizeof(float) * BK * (BM + BN));
        tensor_copy(As[stage], map_a, k0, tile.row0, tile.matrix, &full[stage]);
        for (int group = 0; group < BN / GROUP; ++group) {
          tensor_copy(Bs[stage][group], map_b, tile.col0 + group * GROUP, k0, tile.matrix, &full[stage]);
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32;
  const int quad = lane / 4, t = lane % 4;  // the lane's quad, and its place in it
  // Rows of C^T can be any columns of C: a thread's two are neighbours, `column` of a group and the next.
  const int group = warp / 2, column = b_column(quad) + warp % 2 * 8;
  // Half of the lanes store their rows in another order, or two of 16 would write to the same bank.
  const bool swap = t >= 2;
  const bool first = threadIdx.x % 64 == 0;  // of the two warps that have a group

  std::uint32_t b[STEPS][4];  // the thread's part of B^T for each wgmma of a k-tile
  const auto load = [&](int step, int from) {
#pragma unroll
    for (int r = 0; r < 4; r += 2) {
      const int k = step * MK + t + r * 2;
      const float2 two = float2_at(&Bs[from][group][k][swizzle_128B(k, column)]);
      b[step][r] = __float_as_uint(two.x), b[step][r + 1] = __float_as_uint(two.y);
    }
  };

  int parity = 0;
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const Tile tile = find_tile(g, number);
    float sums[BM / 2];
    if (k_tiles > 0) {
      mbarrier_wait(&full[stage], parity);
#pragma unroll
      for (int step = 0; step < STEPS - PENDING; ++step) load(step, stage);
    }
    int before = 0;  // the stage of the k-tile before
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      const int next = stage + 1 < STAGES ? stage + 1 : 0;
      const int next_parity = next > 0 ? parity : parity ^ 1;
#pragma unroll
      for (int step = 0; step < STEPS; ++step) {
        wgmma_fence();
        const auto a = matrix_descriptor(&As[stage][0][step * MK], Swizzle::of_128_bytes, 0, ATOM);
        wgmma_tf32(sums, b[step], a, k_tile > 0 || step > 0);
        wgmma_commit();
        wgmma_wait<PENDING>();
        const int done = (step + STEPS - PENDING) % STEPS;  // the latest, whose registers are free now
        if (step == PENDING - 1) {
          __syncwarp();  // all lanes have loaded what the wgmma that are done were given
          if (lane == 0 && k_tile > 0) mbarrier_arrive(&empty[before]);
        }
        if (step < PENDING) {
          load(done, stage);
        } else if (k_tile + 1 < k_tiles) {
          if (step == PENDING) mbarrier_wait(&full[next], next_parity);
          load(done, next);
        }
      }
      before = stage, stage = next, parity = next_parity;
    }
    wgmma_wait<0>(sums);
    __syncwarp();
    if (lane == 0 && k_tiles > 0) mbarrier_arrive(&empty[before]);

#pragma unroll
    for (int j = 0; j < BM / 2; ++j) {
      if (k_tiles == 0) sums[j] = 0.0f;
    }
    if constexpr (TMA) {
#pragma unroll
      for (int part = 0; part < BM / STORED; ++part) {
        auto& buffer = Cs[group][part % BUFFERS];
        if (first) bulk_store_wait_read<BUFFERS - 1>();
        named_barrier_sync(1 + group, 64);  // the buffer may be written to
#pragma unroll
        for (int i = 0; i < STORED / 4; ++i) {  // eight rows have two of the thread's pairs
          const int j = part * STORED / 2 + i / 2 * 4 + i % 2;
          const int row = i / 2 * 8 + t * 2 + (i % 2 ^ swap);
          const float x = swap ? sums[j ^ 1] : sums[j], y = swap ? sums[(j ^ 1) + 2] : sums[j + 2];
          float2_at(&buffer[row][swizzle_128B(row, column)]) = make_float2(g.alpha * x, g.alpha * y);
        }
        fence_async_proxy();
        named_barrier_sync(1 + group, 64);  // it is full
        if (first) {
          tensor_store(map_c, tile.col0 + group * GROUP, tile.row0 + part * STORED, tile.matrix, buffer);
          bulk_store_commit();
        }
      }
    } else {
      float* C = g.C + tile.matrix * g.strideC;  // [M][N]
      const int rows = g.M - tile.row0, col = tile.col0 + group * GROUP + column;
#pragma unroll
      for (int i = 0; i < BM / 4; ++i) {
        const int j = i / 2 * 4 + i % 2, row = i / 2 * 8 + t * 2 + i % 2;
        update2<false>(&C[(tile.row0 + row) * g.ldc + col], row < rows ? g.N - col : 0, sums[j], sums[j + 2],
                       g.alpha, g.beta);
      }
    }
  }
  if (first) bulk_store_wait_read<0>();
}

// Blocks such that all of them have the same number of tiles, if fewer multiprocessors than there are take as
// many waves.
int blocks_for(int tiles) {
  const int waves = ceil_div(tiles, multiprocessors());
  return ceil_div(tiles, waves);
}

void gemm_tf32(const Gemm& g) {
  static Workspace<float> a_workspace("aligned A"), b_workspace("aligned B");
  if (g.M == 0 || g.N == 0) return;
  const TensorMap map_a = aligned_a(g, a_workspace).tf32_map(g.batch, BM, BK);
  const TensorMap map_b = aligned_b(g, b_workspace).tf32_map(g.batch, BK, GROUP);
  const bool tma = is_aligned(g) && g.beta == 0.0f;  // otherwise the threads store C themselves
  const TensorMap map_c =
      tma ? tensor_map(g.C, g.M, g.N, g.ldc, g.batch, g.strideC, STORED, GROUP, Swizzle::of_128_bytes)
          : TensorMap{};
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  launch(tma ? gemm_persistent<true> : gemm_persistent<false>, dim3(blocks_for(tiles)), dim3(THREADS),
         sizeof(Tiles), g, map_a, map_b, map_c);
}

}  // namespace
