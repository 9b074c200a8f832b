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

// map_a: boxes BM x BK. map_b: boxes BK x GROUP. map_c: boxes MM x STORED of C, if TMA stores it.
template <typename S, Output OUTPUT>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_tiles(Product p, const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
               const __grid_constant__ TensorMap map_c) {
  constexpr int BM = S::BM, BN = S::BN, STAGES = S::STAGES;
  auto& tiles = dynamic_shared<typename S::Tiles>();

  const int units = units_of<S>(p);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&tiles.full[stage], 1);
      mbarrier_init(&tiles.empty[stage], CONSUMERS);
    }
    mbarrier_fence_init();
  }
  __syncthreads();
  let_next_launch_begin();
  wait_for_previous_launch();  // it may write A and B, and read or write C

  int stage = 0;
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    int parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int number = blockIdx.x; number < units; number += gridDim.x) {
      const Work work = find_work<S>(p, number);
      const bool backwards = number / gridDim.x % 2 == 1;
      for (int i = 0; i < work.count; ++i) {
        const int k0 = (work.first + (backwards ? work.count - 1 - i : i)) * BK;
        std::uint64_t* full = &tiles.full[stage];
        mbarrier_wait(&tiles.empty[stage], parity);
        mbarrier_arrive_expect_tx(full, sizeof(bf16) * BK * (BM + BN));
        tensor_copy(tiles.A[stage], map_a, k0, work.row0, work.matrix, full);
        for (int group = 0; group < BN / GROUP; ++group) {
          tensor_copy(tiles.B[stage][group], map_b, work.col0 + group * GROUP, k0, work.matrix, full);
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
      }
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int thread = threadIdx.x % 128, warpgroup = threadIdx.x / 128 - 1;
  // The warpgroup's operands in the first stage.
  const auto first_a =
      matrix_descriptor(tiles.A[0][S::TRANSPOSED ? 0 : warpgroup * MM], Swizzle::of_128_bytes, 0, ATOM);
  const auto first_b = matrix_descriptor(tiles.B[0][S::TRANSPOSED ? warpgroup : 0], Swizzle::of_128_bytes,
                                         sizeof tiles.B[0][0], ATOM);
  int parity = 0;
  for (int number = blockIdx.x; number < units; number += gridDim.x) {
    const Work work = find_work<S>(p, number);
    float sums[S::SUMS];
    int before = 0;  // the stage of the k-tile before
    for (int i = 0; i < work.count; ++i) {
      mbarrier_wait(&tiles.full[stage], parity);
      wgmma_fence();
      const auto a = first_a + stage * sizeof tiles.A[0], b = first_b + stage * sizeof tiles.B[0];
      for (int k = 0; k < BK; k += MK) {
        const auto a_k = a + k * sizeof(bf16), b_k = b + k * sizeof tiles.B[0][0][0];
        if constexpr (S::TRANSPOSED) {
          wgmma_bf16<Major::MN, Major::K>(sums, b_k, a_k, i > 0 || k > 0);
        } else {
          wgmma_bf16<Major::K, Major::MN>(sums, a_k, b_k, i > 0 || k > 0);
        }
      }
      wgmma_commit();
      wgmma_wait<1>();  // the warpgroup is done with the k-tile before this one
      if (thread == 0 && i > 0) mbarrier_arrive(&tiles.empty[before]);
      before = stage;
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    wgmma_wait<0>(sums);
    if (thread == 0 && work.count > 0) mbarrier_arrive(&tiles.empty[before]);
#pragma unroll
    for (int j = 0; j < S::SUMS; ++j) {
      if (work.count == 0) sums[j] = 0.0f;
    }
    if constexpr (OUTPUT == Output::cluster) {
      add_in_cluster<S>(p, tiles, work, warpgroup, sums);
    } else if constexpr (S::TRANSPOSED) {
      store_transposed<S>(p, work, warpgroup, sums);
    } else {
      store<S, OUTPUT == Output::tma>(p, map_c, work, warpgroup, tiles.C[warpgroup], sums);
    }
  }
  if (OUTPUT == Output::tma && thread == 0) bulk_store_wait_read<0>();
}

// Computes the product g of operands that TMA can reach, in `splits` parts: which a cluster adds up, or for
// which `parts` has a matrix each. c_is_aligned: TMA can store C.
template <typename S>
void run(const GemmBf16& g, const passes::Operand& a, const passes::Operand& b, int splits, bool in_cluster,
         float* parts, bool c_is_aligned) {
  Product p{.M = g.M,
            .N = g.N,
            .k_tiles = ceil_div(g.K, BK),
            .batch = g.batch,
            .splits = splits,
            .alpha = g.alpha,
            .beta = g.beta,
            .C = g.C,
            .ldc = g.ldc,
            .strideC = g.strideC,
            .c_is_aligned = c_is_aligned};
  if (splits > 1 && !in_cluster) {  // C is a workspace, whose rows hold multiples of four columns
    p.alpha = 1.0f, p.beta = 0.0f;
    p.C = parts, p.N = ceil_div(g.N, 4) * 4, p.ldc = p.N, p.strideC = p.ldc * p.M;
    p.c_is_aligned = true;
  }
  const auto map_of = [&](const passes::Operand& m, int rows, int cols) {
    return tensor_map(m.data, m.rows, m.cols, m.ld, m.batch, m.stride, rows, cols, Swizzle::of_128_bytes);
  };
  const int units = units_of<S>(p), waves = ceil_div(units, multiprocessors());
  LaunchConfig config{
      .grid = dim3(ceil_div(units, waves)),  // blocks that all have as many tiles, if they can
      .block = dim3(THREADS),
      .shared_bytes = sizeof(typename S::Tiles),
      .overlaps_previous = true};
  auto kernel = gemm_tiles<S, Output::threads>;
  TensorMap map_c{};
  if (in_cluster) {
    kernel = gemm_tiles<S, Output::cluster>;
    config.grid = dim3(units), config.cluster = dim3(splits);
  } else if constexpr (!S::TRANSPOSED) {
    if (p.c_is_aligned && p.beta == 0.0f) {
      kernel = gemm_tiles<S, Output::tma>;
      map_c =
          tensor_map(p.C, p.M, p.N, p.ldc, p.batch * splits, p.strideC, MM, STORED, Swizzle::of_128_bytes);
    }
  }
  launch(kernel, config, p, map_of(a, S::BM, BK), map_of(b, BK, GROUP), map_c);
}

}  // namespace tiles
}  // namespace
