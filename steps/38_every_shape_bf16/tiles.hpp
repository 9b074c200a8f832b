#pragma once

// Step 37's pipeline for tiles of several sizes, whose terms may be split among blocks. A tile of less than
// 128 rows is computed as one of C transposed: the columns of B are the rows of the tensor cores' A, of which
// a product always has 64.

#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/step.hpp"
#include "steps/38_every_shape_bf16/passes.hpp"
#include "steps/38_every_shape_bf16/stores.hpp"

namespace {
namespace tiles {

// A's map, or one for each row with which a tile may begin.
template <int APART>
struct Maps {
  TensorMap of[APART];
};

// Columns of A's map before the first of the tile's rows.
template <int APART>
__device__ __forceinline__ int shift_of(const Product& p, const Work& work) {
  return work.row0 % APART * p.shift % APART;
}

// Makes zeros of the first columns of the warpgroup's rows of A, before it multiplies them.
template <typename S>
__device__ __forceinline__ void clear_columns(bf16 (&A)[S::BM][BK], int warpgroup, int columns) {
  const int thread = threadIdx.x % 128, row = warpgroup * MM + thread;
  for (int k = 0; thread < MM && k < columns; ++k) A[row][k ^ row % 8 * 8] = bf16{};  // swizzled
  fence_async_proxy();
  named_barrier_sync(1 + warpgroup, 128);
}

// SHARERS: 1, or the blocks of a cluster that have tiles one below the other: each copies its part of B's
// tile to all of them, and may do so when all of their consumers are done with the stage.
// APART: the rows of a tile are neighbours (1), or every eighth row, which all begin as many elements behind
// a multiple of 16 bytes: `shift`. A's map of such rows begins there, and row k of B meets column shift + k.
// maps_a: boxes BM x BK, for each row that a tile may begin with. map_b: boxes BK / SHARERS x GROUP. map_c:
// boxes MM x STORED of C, if TMA stores it.
template <typename S, int SHARERS, Storing HOW, int APART>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_tiles(Product p, const __grid_constant__ Maps<APART> maps_a, const __grid_constant__ TensorMap map_b,
               const __grid_constant__ TensorMap map_c) {
  constexpr int BM = S::BM, BN = S::BN, STAGES = S::STAGES;
  auto& tiles = dynamic_shared<typename S::Tiles>();

  const int units = units_of<S, SHARERS, APART>(p),
            rank = SHARERS > 1 ? static_cast<int>(cluster_block_rank()) : 0;
  const int first_unit = blockIdx.x / SHARERS, step = gridDim.x / SHARERS;
  if (threadIdx.x == 0) {
    for (const TensorMap& map : maps_a.of) prefetch_tensor_map(map);
    prefetch_tensor_map(map_b);
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&tiles.full[stage], 1);
      mbarrier_init(&tiles.empty[stage], SHARERS * CONSUMERS);
    }
    mbarrier_fence_init();
  }
  if constexpr (SHARERS > 1) {
    cluster_sync();  // the mbarriers of all blocks are there
  } else {
    __syncthreads();
  }
  let_next_launch_begin();
  wait_for_previous_launch();  // it may write A and B, and read or write C

  int stage = 0;
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int number = first_unit; number < units; number += step) {
      const Work work = find_work<S, SHARERS, APART>(p, number, rank);
      const TensorMap& map_a = maps_a.of[work.row0 % APART];
      const int shift = shift_of<APART>(p, work);
      const bool backwards = number / step % 2 == 1;
      for (int i = 0; i < work.count; ++i) {
        const int k0 = (work.first + (backwards ? work.count - 1 - i : i)) * BK;
        std::uint64_t* full = &tiles.full[stage];
        mbarrier_wait(&tiles.empty[stage], parity);
        mbarrier_arrive_expect_tx(full, sizeof(bf16) * BK * (BM + BN));
        tensor_copy(tiles.A[stage], map_a, k0, work.row0 / APART, work.matrix, full);
        for (int group = 0; group < BN / GROUP; ++group) {
          const int col = work.col0 + group * GROUP, first = rank * (BK / SHARERS);
          if constexpr (SHARERS > 1) {
            tensor_copy_multicast(tiles.B[stage][group][first], map_b, col, k0 + first - shift, work.matrix,
                                  full, (1 << SHARERS) - 1);
          } else {
            tensor_copy(tiles.B[stage][group], map_b, col, k0 - shift, work.matrix, full);
          }
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    if constexpr (SHARERS > 1) cluster_sync();  // as the consumers do
    return;
  }
  warpgroup_reg_alloc<MANY>();

  // From lane 0, so that the compiler knows that it is uniform and keeps descriptors in uniform registers.
  const int thread = threadIdx.x % 128, warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1;
  // The warpgroup's operands in the first stage.
  const auto first_a =
      matrix_descriptor(tiles.A[0][S::TRANSPOSED ? 0 : warpgroup * MM], Swizzle::of_128_bytes, 0, ATOM);
  const auto first_b = matrix_descriptor(tiles.B[0][S::TRANSPOSED ? warpgroup : 0], Swizzle::of_128_bytes,
                                         sizeof tiles.B[0][0], ATOM);
  int parity = 0;
  const auto is_free = [&](int stage) {  // as far as this warpgroup is concerned
    if constexpr (SHARERS > 1) {
      if (thread < SHARERS) mbarrier_arrive_remote_after_reads(&tiles.empty[stage], thread);
    } else {
      if (thread == 0) mbarrier_arrive(&tiles.empty[stage]);
    }
  };
  Work next = find_work<S, SHARERS, APART>(p, first_unit, rank);
  for (int number = first_unit; number < units; number += step) {
    const Work work = next;
    float sums[S::SUMS];
    const int first_k_tile = number / step % 2 == 1 ? work.count - 1 : 0;  // when k = 0 comes
    int before = 0;                                                        // the stage of the k-tile before
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(&tiles.full[stage], parity);
      if (APART > 1 && i == first_k_tile) {
        clear_columns<S>(tiles.A[stage], warpgroup, shift_of<APART>(p, work));
      }
      wgmma_fence();
      const auto a = first_a + stage * unsigned{sizeof tiles.A[0]},
                 b = first_b + stage * unsigned{sizeof tiles.B[0]};
      for (int k = 0; k < BK; k += MK) {
        const auto a_k = a + k * unsigned{sizeof(bf16)}, b_k = b + k * unsigned{sizeof tiles.B[0][0][0]};
        if constexpr (S::TRANSPOSED) {
          wgmma_bf16<Major::MN, Major::K>(sums, b_k, a_k, i > 0 || k > 0);
        } else {
          wgmma_bf16<Major::K, Major::MN>(sums, a_k, b_k, i > 0 || k > 0);
        }
      }
      wgmma_commit();
      wgmma_wait<1>();  // the warpgroup is done with the k-tile before this one
      if (i > 0) is_free(before);
      before = stage;
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    // find_work divides: while the last products run.
    if (number + step < units) next = find_work<S, SHARERS, APART>(p, number + step, rank);
    wgmma_wait<0>(sums);
    is_free(before);
    if constexpr (S::TRANSPOSED) {
      store_transposed<S>(p, work, warpgroup, sums);
    } else {
      store<S, HOW, APART>(p, map_c, work, warpgroup, tiles.C[warpgroup], sums);
    }
  }
  if (HOW == Storing::by_tma && thread == 0) bulk_store_wait_read<0>();
  if constexpr (SHARERS > 1) cluster_sync();  // the other blocks may still arrive here
}

// Computes the product g of operands that TMA can reach, in `splits` parts, for which `parts` has a matrix
// each if there are several. c_is_aligned: TMA can store C.
template <typename S, int SHARERS = 1, int APART = 1>
void run(const GemmBf16& g, const passes::Operand& a, const passes::Operand& b, const Choice& choice,
         float* parts, bool c_is_aligned, bool overlaps) {
  if constexpr (SHARERS == 1 && APART == 1 && !S::TRANSPOSED) {
    if (choice.in_pairs) return run<S, PAIR>(g, a, b, choice, parts, c_is_aligned, overlaps);
    if (choice.apart > 1) return run<S, 1, EIGHTH>(g, a, b, choice, parts, c_is_aligned, overlaps);
  }
  const int splits = choice.splits;
  Product p{.M = g.M,
            .N = g.N,
            .k_tiles = ceil_div(g.K + APART - 1, BK),
            .batch = g.batch,
            .splits = splits,
            .alpha = g.alpha,
            .beta = g.beta,
            .C = g.C,
            .ldc = g.ldc,
            .strideC = g.strideC,
            .shift = static_cast<int>(a.ld % APART)};
  bool by_tma = c_is_aligned && g.beta == 0.0f;  // C is stored
  if (splits > 1) {  // C is a workspace, whose rows hold multiples of four columns
    p.alpha = 1.0f, p.beta = 0.0f;
    p.C = parts, p.N = ceil_div(g.N, 4) * 4, p.ldc = p.N, p.strideC = p.ldc * p.M;
    by_tma = true;
  }
  const auto map_of = [&](const passes::Operand& m, int rows, int cols) {
    return tensor_map(m.data, m.rows, m.cols, m.ld, m.batch, m.stride, rows, cols, Swizzle::of_128_bytes);
  };
  Maps<APART> maps_a{};
  for (int row = 0; row < APART; ++row) {
    passes::Operand rows = a;  // every APART-th, with the columns before them
    const int shift = row * p.shift % APART;
    rows.data += row * a.ld - shift, rows.cols += shift;
    rows.rows = ceil_div(a.rows - row, APART), rows.ld *= APART;
    maps_a.of[row] = map_of(rows, S::BM, BK);
  }
  const int units = units_of<S, SHARERS, APART>(p), waves = ceil_div(units, multiprocessors() / SHARERS);
  LaunchConfig config{.grid = dim3(ceil_div(units, waves) * SHARERS),  // all have as many tiles, if they can
                      .block = dim3(THREADS),
                      .shared_bytes = sizeof(typename S::Tiles),
                      .cluster = dim3(SHARERS),
                      .overlaps_previous = overlaps};
  auto kernel = gemm_tiles<S, SHARERS, Storing::by_threads, APART>;
  if constexpr (!S::TRANSPOSED) {  // whose tiles have no buffers: their threads store and add alike
    if (p.beta != 0.0f) kernel = gemm_tiles<S, SHARERS, Storing::onto_c, APART>;
  }
  TensorMap map_c{};
  if constexpr (!S::TRANSPOSED && APART == 1) {
    if (by_tma) {
      kernel = gemm_tiles<S, SHARERS, Storing::by_tma, APART>;
      map_c =
          tensor_map(p.C, p.M, p.N, p.ldc, p.batch * splits, p.strideC, MM, STORED, Swizzle::of_128_bytes);
    }
  }
  launch(kernel, config, p, maps_a, map_of(b, BK / SHARERS, GROUP), map_c);
}

}  // namespace tiles
}  // namespace
