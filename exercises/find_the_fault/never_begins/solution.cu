// The fault: the producer waited for a phase of `empty` that nobody could complete.
//
// A wait names a phase by its parity, and a fresh mbarrier takes the phase before its first, of parity 1, for
// complete. The producer's first wait for each stage must name that one, as nobody has to empty a stage that
// was never filled. It named parity 0, the first phase: this one ends when the consumers have emptied the
// stage, and they waited for the producer to fill it.

#include "common/cuda/bulk_store.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/named_barrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/tf32.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 64, BK = 64;  // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int MM = 64, MK = 16;            // a wgmma's: MM x BN of C, MK terms
constexpr int CONSUMERS = BM / MM;         // warpgroups that multiply, MM rows each; the first one copies
constexpr int THREADS = (1 + CONSUMERS) * 128;
constexpr int FEW = 40, MANY = 232;  // registers of a producer thread, and of a consumer
constexpr int STAGES = 2;            // buffers for the tiles
constexpr int STORED = 32;           // columns of C in a store: 128 bytes
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
constexpr int SIDE = 16;             // of a tile of plain_product

struct alignas(1024) Tiles {
  bf16 A[STAGES][BM][BK];          // [stage][row][k], swizzled
  bf16 B[STAGES][BK][BN];          // [stage][k][column], swizzled
  float C[CONSUMERS][MM][STORED];  // [warpgroup][row][column], swizzled: on their way to C
  std::uint64_t full[STAGES];      // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];     // all consumers have multiplied them
};

// map_a: boxes BM x BK. map_b: boxes BK x BN. map_c: boxes MM x STORED.
__global__ void __launch_bounds__(THREADS, 1)
    gemm_pipeline(GemmBf16 g, const __grid_constant__ TensorMap map_a,
                  const __grid_constant__ TensorMap map_b, const __grid_constant__ TensorMap map_c) {
  auto& [As, Bs, Cs, full, empty] = dynamic_shared<Tiles>();

  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, matrix = blockIdx.z;
  const int k_tiles = ceil_div(g.K, BK);

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    mbarrier_fence_init();
  }
  __syncthreads();

  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    for (int tile = 0; tile < k_tiles; ++tile) {
      const int stage = tile % STAGES;
      mbarrier_wait(&empty[stage], tile / STAGES % 2 ^ 1);
      mbarrier_arrive_expect_tx(&full[stage], sizeof(bf16) * BK * (BM + BN));
      tensor_copy(As[stage], map_a, tile * BK, row0, matrix, &full[stage]);
      tensor_copy(Bs[stage], map_b, col0, tile * BK, matrix, &full[stage]);
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int thread = threadIdx.x % 128, warpgroup = threadIdx.x / 128 - 1;
  const int m = warpgroup * MM;  // its first row in the block's tile
  float sums[BN / 2] = {};
  for (int tile = 0; tile < k_tiles; ++tile) {
    const int stage = tile % STAGES;
    mbarrier_wait(&full[stage], tile / STAGES % 2);
    wgmma_fence();
    for (int k = 0; k < BK; k += MK) {
      const auto a = matrix_descriptor(&As[stage][m][k], Swizzle::of_128_bytes, 0, ATOM);
      const auto b = matrix_descriptor(&Bs[stage][k][0], Swizzle::of_128_bytes, sizeof Bs[0], ATOM);
      wgmma_bf16<Major::K, Major::MN>(sums, a, b);
    }
    wgmma_commit();
    wgmma_wait<1>();  // the warpgroup is done with the k-tile before this one
    if (thread == 0 && tile > 0) mbarrier_arrive(&empty[(tile - 1) % STAGES]);
  }
  wgmma_wait<0>(sums);

#pragma unroll
  for (int j = 0; j < BN / 2; j += 2) {  // two sums side by side
    auto& buffer = Cs[warpgroup];
    if (j % (STORED / 2) == 0) {
      if (thread == 0) bulk_store_wait_read<0>();
      named_barrier_sync(1 + warpgroup, 128);  // the buffer may be written to
    }
    const auto [row, col] = wgmma_place(thread, j);
    float2_at(&buffer[row][swizzle_128B(row, col % STORED)]) =
        make_float2(g.alpha * sums[j], g.alpha * sums[j + 1]);
    if (j % (STORED / 2) == STORED / 2 - 2) {
      fence_async_proxy();
      named_barrier_sync(1 + warpgroup, 128);  // it is full
      if (thread == 0) {
        tensor_store(map_c, col0 + col / STORED * STORED, row0 + m, matrix, buffer);
        bulk_store_commit();
      }
    }
  }
  if (thread == 0) bulk_store_wait_read<0>();
}

// The same for any problem, an element of C for each thread.
__global__ void __launch_bounds__(SIDE* SIDE) plain_product(GemmBf16 g) {
  const int row = blockIdx.y * SIDE + threadIdx.y, col = blockIdx.x * SIDE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;
  const bf16* a = g.A + blockIdx.z * g.strideA + row * g.lda;
  const bf16* b = g.B + blockIdx.z * g.strideB + col;
  float sum = 0.0f;
  for (int k = 0; k < g.K; ++k) sum += a[k] * b[k * g.ldb];
  float& c = g.C[blockIdx.z * g.strideC + row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void gemm(const GemmBf16& g) {
  if (is_aligned(g) && g.beta == 0.0f && g.M > 0 && g.N > 0 && g.K > 0) {
    launch(gemm_pipeline, dim3(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch), dim3(THREADS), sizeof(Tiles),
           g, tensor_map(g.A, g.M, g.K, g.lda, g.batch, g.strideA, BM, BK, Swizzle::of_128_bytes),
           tensor_map(g.B, g.K, g.N, g.ldb, g.batch, g.strideB, BK, BN, Swizzle::of_128_bytes),
           tensor_map(g.C, g.M, g.N, g.ldc, g.batch, g.strideC, MM, STORED, Swizzle::of_128_bytes));
  } else {
    const dim3 grid(ceil_div(g.N, SIDE), ceil_div(g.M, SIDE), g.batch);
    launch(plain_product, grid, dim3(SIDE, SIDE), 0, g);
  }
}

}  // namespace
