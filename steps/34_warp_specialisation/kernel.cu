// Step 34: warp specialisation: one warpgroup only copies, two multiply.
//
// Idea      Warps that multiply wait for tiles, not for each other: mbarriers say which stages are full and
//           which are empty. A producer warpgroup requests the next copies as soon as a stage is empty.
// Change    The producer warpgroup, which hands most of its registers to the consumers (setmaxnreg); `empty`
//           replaces __syncthreads().
// Bound     Blocks come and go: while a tile's sums are stored, and the next block's first k-tiles are on
//           their way, the tensor cores of the SM idle.
// Needs     sm_90a: wgmma, setmaxnreg

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
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
constexpr int STAGES = 4;            // buffers for the tiles
constexpr int GROUP = 64;            // elements in the 128 bytes that are swizzled
constexpr int ATOM = 8 * 128;        // bytes from eight swizzled rows to the next eight
static_assert(BK == GROUP);

struct alignas(1024) Tiles {
  bf16 A[STAGES][BM][BK];                 // [stage][row][k], swizzled
  bf16 B[STAGES][BN / GROUP][BK][GROUP];  // [stage][group][k][column], swizzled
  std::uint64_t full[STAGES];             // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];            // all consumers have multiplied them
};

// map_a: boxes BM x BK. map_b: boxes BK x GROUP.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_specialised(GemmBf16 g, const __grid_constant__ TensorMap map_a,
                     const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full, empty] = dynamic_shared<Tiles>();

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], CONSUMERS);
    }
    mbarrier_fence_init();
  }
  __syncthreads();

  const int k_tiles = ceil_div(g.K, BK);
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > 0) return;
    for (int tile = 0; tile < k_tiles; ++tile) {
      const int stage = tile % STAGES;
      mbarrier_wait(&empty[stage], tile / STAGES % 2 ^ 1);  // passes at once in the first round
      mbarrier_arrive_expect_tx(&full[stage], sizeof(bf16) * BK * (BM + BN));
      tensor_copy(As[stage], map_a, tile * BK, row0, blockIdx.z, &full[stage]);
      for (int group = 0; group < BN / GROUP; ++group) {
        tensor_copy(Bs[stage][group], map_b, col0 + group * GROUP, tile * BK, blockIdx.z, &full[stage]);
      }
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int thread = threadIdx.x % 128, m = (threadIdx.x / 128 - 1) * MM;  // the warpgroup's first row
  float sums[BN / 2] = {};
  for (int tile = 0; tile < k_tiles; ++tile) {
    const int stage = tile % STAGES;
    mbarrier_wait(&full[stage], tile / STAGES % 2);
    wgmma_fence();
    for (int k = 0; k < BK; k += MK) {
      const auto a = matrix_descriptor(&As[stage][m][k], Swizzle::of_128_bytes, 0, ATOM);
      const auto b = matrix_descriptor(&Bs[stage][0][k][0], Swizzle::of_128_bytes, sizeof Bs[0][0], ATOM);
      wgmma_bf16<Major::K, Major::MN>(sums, a, b);
    }
    wgmma_commit();
    wgmma_wait<1>();  // the warpgroup is done with the k-tile before this one
    if (thread == 0 && tile > 0) mbarrier_arrive(&empty[(tile - 1) % STAGES]);
  }
  wgmma_wait<0>(sums);

#pragma unroll
  for (int j = 0; j < BN / 2; j += 2) {  // two sums side by side
    const auto [row, col] = wgmma_place(thread, j);
    update2<ALIGNED>(&C[(row0 + m + row) * g.ldc + (col0 + col)], m + row < rows ? cols - col : 0, sums[j],
                     sums[j + 1], g.alpha, g.beta);
  }
}

void gemm(const GemmBf16& g) {
  static Workspace<bf16> a_workspace("aligned A"), b_workspace("aligned B");
  if (g.M == 0 || g.N == 0) return;
  const TensorMap map_a = aligned_a(g, a_workspace).map(g.batch, BM, BK, Swizzle::of_128_bytes);
  const TensorMap map_b = aligned_b(g, b_workspace).map(g.batch, BK, GROUP, Swizzle::of_128_bytes);
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? gemm_specialised<true> : gemm_specialised<false>, grid, dim3(THREADS), sizeof(Tiles),
         g, map_a, map_b);
}

}  // namespace
