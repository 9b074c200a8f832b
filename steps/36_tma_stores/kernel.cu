// Step 36: the epilogue leaves by TMA stores, which drain while the next tile is multiplied.
//
// Idea      A warpgroup writes its sums to shared memory, 64 rows by 32 columns in the 128-byte swizzle, and
//           one thread asks for a tensor store. It need not wait for the memory: only until the store has
//           read the buffer, which the next one of the same buffer needs.
// Change    The epilogue of aligned problems without beta, and a tensor map for C. Three stages make room for
//           the buffers.
// Bound     The consumers multiply nothing while they write to shared memory.
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

constexpr int BM = 128, BN = 256, BK = 64;  // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int MM = 64, MK = 16;             // a wgmma's: MM x BN of C, MK terms
constexpr int CONSUMERS = BM / MM;          // warpgroups that multiply, MM rows each; the first one copies
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of a consumer
constexpr int STAGES = 3;            // buffers for the tiles
constexpr int GROUP = 64;            // elements in the 128 bytes that are swizzled
constexpr int BAND = 16;             // rows of tiles processed together, column by column
constexpr int STORED = 32;           // columns of C in a store: 128 bytes
constexpr int BUFFERS = 2;           // of a warpgroup, for sums that are being stored
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
static_assert(BK == GROUP);

struct alignas(1024) Tiles {
  bf16 A[STAGES][BM][BK];                   // [stage][row][k], swizzled
  bf16 B[STAGES][BN / GROUP][BK][GROUP];    // [stage][group][k][column], swizzled
  float C[CONSUMERS][BUFFERS][MM][STORED];  // [warpgroup][buffer][row][column], swizzled: on their way to C
  std::uint64_t full[STAGES];               // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];              // all consumers have multiplied them
};

// A tile of C.
struct Tile {
  int matrix, row0, col0;
};

__device__ __forceinline__ Tile find_tile(const GemmBf16& g, int number) {
  const int tiles_m = ceil_div(g.M, BM), tiles_n = ceil_div(g.N, BN);
  const int in_matrix = number % (tiles_m * tiles_n);
  const int band = in_matrix / (BAND * tiles_n), in_band = in_matrix % (BAND * tiles_n);
  const int rows = min(BAND, tiles_m - band * BAND);
  return {number / (tiles_m * tiles_n), (band * BAND + in_band % rows) * BM, in_band / rows * BN};
}

// map_a: boxes BM x BK. map_b: boxes BK x GROUP.
template <bool TMA>  // whether C is stored by TMA
__global__ void __launch_bounds__(THREADS, 1)
    gemm_persistent(GemmBf16 g, const __grid_constant__ TensorMap map_a,
                    const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  auto& [As, Bs, Cs, full, empty] = dynamic_shared<Tiles>();

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
      for (int k0 = 0; k0 < g.K; k0 += BK) {
        mbarrier_wait(&empty[stage], parity);
        mbarrier_arrive_expect_tx(&full[stage], sizeof(bf16) * BK * (BM + BN));
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

  const int thread = threadIdx.x % 128, warpgroup = threadIdx.x / 128 - 1;
  const int m = warpgroup * MM;  // its first row in the block's tile
  // Lanes of odd rows store their sums in another order. Otherwise, as the swizzle leaves two neighbouring
  // rows the same eight columns' banks, two of 16 lanes would write to the same bank.
  const int swap = thread / 4 % 2 * 8;
  int parity = 0;
  for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
    const Tile tile = find_tile(g, number);
    float sums[BN / 2];
    int before = 0;  // the stage of the k-tile before
    for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
      mbarrier_wait(&full[stage], parity);
      wgmma_fence();
      for (int k = 0; k < BK; k += MK) {
        const auto a = matrix_descriptor(&As[stage][m][k], Swizzle::of_128_bytes, 0, ATOM);
        const auto b = matrix_descriptor(&Bs[stage][0][k][0], Swizzle::of_128_bytes, sizeof Bs[0][0], ATOM);
        wgmma_bf16<Major::K, Major::MN>(sums, a, b, k_tile > 0 || k > 0);
      }
      wgmma_commit();
      wgmma_wait<1>();  // the warpgroup is done with the k-tile before this one
      if (thread == 0 && k_tile > 0) mbarrier_arrive(&empty[before]);
      before = stage;
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    wgmma_wait<0>(sums);
    if (thread == 0 && k_tiles > 0) mbarrier_arrive(&empty[before]);

#pragma unroll
    for (int j = 0; j < BN / 2; ++j) {
      if (k_tiles == 0) sums[j] = 0.0f;
    }
    if constexpr (TMA) {
#pragma unroll
      for (int part = 0; part < BN / STORED; ++part) {
        auto& buffer = Cs[warpgroup][part % BUFFERS];
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
      float* C = g.C + tile.matrix * g.strideC;  // [M][N]
      const int rows = g.M - tile.row0, cols = g.N - tile.col0;
#pragma unroll
      for (int j = 0; j < BN / 2; j += 2) {
        const auto [row, col] = wgmma_place(thread, j);
        update2<false>(&C[(tile.row0 + m + row) * g.ldc + (tile.col0 + col)], m + row < rows ? cols - col : 0,
                       sums[j], sums[j + 1], g.alpha, g.beta);
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

void gemm(const GemmBf16& g) {
  static Workspace<bf16> a_workspace("aligned A"), b_workspace("aligned B");
  if (g.M == 0 || g.N == 0) return;
  const TensorMap map_a = aligned_a(g, a_workspace).map(g.batch, BM, BK, Swizzle::of_128_bytes);
  const TensorMap map_b = aligned_b(g, b_workspace).map(g.batch, BK, GROUP, Swizzle::of_128_bytes);
  const bool tma = is_aligned(g) && g.beta == 0.0f;  // otherwise the threads store C themselves
  const TensorMap map_c =
      tma ? tensor_map(g.C, g.M, g.N, g.ldc, g.batch, g.strideC, MM, STORED, Swizzle::of_128_bytes)
          : TensorMap{};
  const int tiles = ceil_div(g.M, BM) * ceil_div(g.N, BN) * g.batch;
  launch(tma ? gemm_persistent<true> : gemm_persistent<false>, dim3(blocks_for(tiles)), dim3(THREADS),
         sizeof(Tiles), g, map_a, map_b, map_c);
}

}  // namespace
