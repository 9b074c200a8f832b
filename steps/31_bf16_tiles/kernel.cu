// Step 31: tiles of BF16 by the Tensor Memory Accelerator, multiplied by mma.sync.
//
// Idea      What part 2x has taught carries over: TMA fills a ring of stages, mbarriers say when a tile has
//           arrived, ldmatrix loads fragments from swizzled tiles. BF16 makes two things easier. A product
//           takes 16 terms instead of 8, and ldmatrix transposes 16-bit elements, so B needs no trick.
// Change    Against step 27: the type, and a second set of fragments. A lane's are pairs of BF16 numbers, by
//           ldmatrix for A and ldmatrix.trans for B.
// Bound     mma.sync: it takes its operands from registers, and reaches two thirds of the tensor cores' peak.
// Needs     sm_90+: mbarriers, tensor copies

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/mma.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 64;  // the block's tile: BM x BN of C, BK terms (a k-tile) at a time
constexpr int WM = 64, WN = 64;             // the warp's tile of C
constexpr int MM = 16, MN = 8, MK = 16;     // an mma's: MM x MN of C, MK terms
constexpr int MMAS_M = WM / MM, MMAS_N = WN / MN;  // down and across the warp's tile
constexpr int WARPS_N = BN / WN;                   // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int STAGES = 3;  // buffers for the tiles
constexpr int GROUP = 64;  // elements in the 128 bytes that are swizzled
static_assert(BK == GROUP && WN % GROUP == 0);

struct alignas(1024) Tiles {
  bf16 A[STAGES][BM][BK];                 // [stage][row][swizzled k]
  bf16 B[STAGES][BN / GROUP][BK][GROUP];  // [stage][group][k][swizzled column]
  std::uint64_t full[STAGES];             // mbarriers: the tiles of the stage have arrived
};

// Where an element lies in its row of 128 bytes: group of eight g of a row lies where group g XOR row % 8
// would.
__device__ __forceinline__ int swizzled(int row, int col) { return col ^ row % 8 * 8; }

// map_a: boxes BM x BK. map_b: boxes BK x GROUP.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2)
    gemm_bf16_tiles(GemmBf16 g, const __grid_constant__ TensorMap map_a,
                    const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full] = dynamic_shared<Tiles>();

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp / WARPS_N * WM, n = warp % WARPS_N * WN;  // where the warp's tile begins in the block's

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

  std::uint32_t a[2][MMAS_M][4], b[2][MMAS_N / 2][4];  // for this k and for the next; b: of two mmas
  const auto load_fragments = [&](int set, int stage, int k) {
    for (int i = 0; i < MMAS_M; ++i) {
      const int row = m + i * MM + lane % 16;
      ldmatrix(a[set][i], &As[stage][row][swizzled(row, k + lane / 16 * 8)]);
    }
    for (int j = 0; j < MMAS_N; j += 2) {
      const int row = k + lane % 16, col = n + j * MN + lane / 16 * 8;
      ldmatrix_trans(b[set][j / 2], &Bs[stage][col / GROUP][row][swizzled(row, col % GROUP)]);
    }
  };

  float sums[MMAS_M][MMAS_N][4] = {};
  const auto multiply = [&](int set) {
    for (int i = 0; i < MMAS_M; ++i) {
      for (int j = 0; j < MMAS_N; ++j) {
        const std::uint32_t one[] = {b[set][j / 2][j % 2 * 2], b[set][j / 2][j % 2 * 2 + 1]};
        mma_bf16(sums[i][j], a[set][i], one);
      }
    }
  };

  for (int tile = 0; tile < STAGES - 1; ++tile) copy_tile(tile);
  if (k_tiles > 0) {
    mbarrier_wait(&full[0], 0);
    load_fragments(0, 0, 0);
  }
  for (int tile = 0; tile < k_tiles; ++tile) {
#pragma unroll
    for (int k = 0; k < BK; k += MK) {
      const int set = k / MK % 2;
      if (k + MK < BK) {
        load_fragments(set ^ 1, tile % STAGES, k + MK);
        if (k == 0) copy_tile(tile + STAGES - 1);
      } else if (tile + 1 < k_tiles) {
        mbarrier_wait(&full[(tile + 1) % STAGES], (tile + 1) / STAGES % 2);
        __syncthreads();  // nobody needs this tile any more
        load_fragments(0, (tile + 1) % STAGES, 0);
      }
      multiply(set);
    }
  }

  const int quad = lane / 4, t = lane % 4;  // the lane's quad (its row of C) and place in it (two columns)
#pragma unroll
  for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
    for (int j = 0; j < MMAS_N; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = m + i * MM + r * 8 + quad, col = n + j * MN + t * 2;  // in the block's tile
        update2<ALIGNED>(&C[(row0 + row) * g.ldc + (col0 + col)], row < rows ? cols - col : 0,
                         sums[i][j][r * 2], sums[i][j][r * 2 + 1], g.alpha, g.beta);
      }
    }
  }
}

void gemm(const GemmBf16& g) {
  static Workspace<bf16> a_workspace("aligned A"), b_workspace("aligned B");
  if (g.M == 0 || g.N == 0) return;
  const TensorMap map_a = aligned_a(g, a_workspace).map(g.batch, BM, BK, Swizzle::of_128_bytes);
  const TensorMap map_b = aligned_b(g, b_workspace).map(g.batch, BK, GROUP, Swizzle::of_128_bytes);
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? gemm_bf16_tiles<true> : gemm_bf16_tiles<false>, grid, dim3(THREADS), sizeof(Tiles),
         g, map_a, map_b);
}

}  // namespace
