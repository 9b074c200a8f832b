// Step 33: a larger tile, by two warpgroups.
//
// Idea      Of what is copied, A serves BN columns and B BM rows: a tile of 128 x 256 needs three quarters of
//           the bytes per product of one of 128 x 128. Its sums fill the registers of two warpgroups; there
//           is one block on an SM, with four stages.
// Change    BN = 256, and a second warpgroup, each with 64 rows. Nothing else.
// Bound     All threads meet at every k-tile, and thread 0 requests copies in between.
// Needs     sm_90a: wgmma

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/wgmma.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 256, BK = 64;  // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int MM = 64, MK = 16;             // a wgmma's: MM x BN of C, MK terms
constexpr int THREADS = BM / MM * 128;      // a warpgroup for each MM rows
constexpr int STAGES = 4;                   // buffers for the tiles
constexpr int GROUP = 64;                   // elements in the 128 bytes that are swizzled
constexpr int ATOM = 8 * 128;               // bytes from eight swizzled rows to the next eight
static_assert(BK == GROUP);

struct alignas(1024) Tiles {
  bf16 A[STAGES][BM][BK];                 // [stage][row][k], swizzled
  bf16 B[STAGES][BN / GROUP][BK][GROUP];  // [stage][group][k][column], swizzled
  std::uint64_t full[STAGES];             // mbarriers: the tiles of the stage have arrived
};

// map_a: boxes BM x BK. map_b: boxes BK x GROUP.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 1)
    gemm_two_warpgroups(GemmBf16 g, const __grid_constant__ TensorMap map_a,
                        const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full] = dynamic_shared<Tiles>();

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int m = threadIdx.x / 128 * MM;  // the warpgroup's first row of the block's

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&full[stage], 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  const int k_tiles = ceil_div(g.K, BK);
  const auto copy_tile = [&](int tile) {
    if (threadIdx.x != 0 || tile >= k_tiles) return;
    const int stage = tile % STAGES;
    mbarrier_arrive_expect_tx(&full[stage], sizeof(bf16) * BK * (BM + BN));
    tensor_copy(As[stage], map_a, tile * BK, row0, blockIdx.z, &full[stage]);
    for (int group = 0; group < BN / GROUP; ++group) {
      tensor_copy(Bs[stage][group], map_b, col0 + group * GROUP, tile * BK, blockIdx.z, &full[stage]);
    }
  };

  float sums[BN / 2] = {};
  for (int tile = 0; tile < STAGES - 1; ++tile) copy_tile(tile);
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
    wgmma_wait<1>();
    __syncthreads();  // nobody needs the k-tile before this one any more
    copy_tile(tile + STAGES - 1);
  }
  wgmma_wait<0>(sums);

#pragma unroll
  for (int j = 0; j < BN / 2; j += 2) {  // two sums side by side
    const auto [row, col] = wgmma_place(threadIdx.x % 128, j);
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
  launch(is_aligned(g) ? gemm_two_warpgroups<true> : gemm_two_warpgroups<false>, grid, dim3(THREADS),
         sizeof(Tiles), g, map_a, map_b);
}

}  // namespace
