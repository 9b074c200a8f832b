// Step 28: specialised warps: one warpgroup only copies, the others multiply.
//
// Idea      Warps that multiply wait for tiles, not for each other: mbarriers say which stages are full and
//           which are empty. A producer warpgroup requests copies as soon as a stage is empty. The consumers
//           only load fragments and multiply.
// Change    A producer warpgroup, which gives most of its registers away; `empty` replaces __syncthreads().
//           Consumers load fragments one k ahead, into a second set, so that a stage is free early. The mma
//           computes a tile of C transposed: B is the operand of 16 rows, of which a lane takes two
//           neighbouring columns with one LDS.64, and C is stored in pairs.
// Bound     At the tensor cores' pace the fragments and the copies of two blocks would take all of shared
//           memory's cycles.
// Needs     sm_90+: mbarriers, tensor copies

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float2.hpp"
#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/tf32.hpp"
#include "common/cuda/warpgroup_registers.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 32;  // the block's tile: BM x BN of C, BK terms (a slab) at a time
constexpr int WM = 64, WN = 64;             // the warp's tile of C
constexpr int MM = 8, MN = 16, MK = 8;      // an mma's: MM x MN of C, MK terms
constexpr int MMAS_M = WM / MM, MMAS_N = WN / MN;  // down and across the warp's tile
constexpr int WARPS_N = BN / WN;                   // warps across the block's tile
constexpr int WARPS = BM / WM * WARPS_N;           // consumers, which multiply
constexpr int PRODUCERS = 128;                     // threads of the producer warpgroup, of which one copies
constexpr int STAGES = 3;                          // buffers for the tiles
constexpr int GROUP = 32;                          // columns of B in a copy: the 128 bytes that are swizzled
constexpr int FEW = 24, MANY = 232;                // registers of a producer thread, and of a consumer
static_assert(BK == 32 && WN % GROUP == 0);
static_assert(WARPS % 4 == 0 && PRODUCERS == 128 && 2 * (PRODUCERS * FEW + WARPS * 32 * MANY) <= 65536);

struct alignas(1024) Tiles {
  float A[STAGES][BM][BK];                 // [stage][row][swizzle_128B()], rounded
  float B[STAGES][BN / GROUP][BK][GROUP];  // [stage][group][k][swizzle_128B()], rounded
  std::uint64_t full[STAGES];              // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];             // all consumers have loaded their fragments of them
};

// The first of the two neighbouring columns, of 16 in a group of 32, that a lane loads: chosen so that 16
// lanes, with four values of `quad` among them, find theirs in 32 different banks.
__device__ __forceinline__ int b_column(int quad) { return quad % 2 * 2 + quad / 2 % 2 * 16 + quad / 4 * 4; }

// map_a: boxes BM x BK. map_b: boxes BK x GROUP.
template <bool ALIGNED>
__global__ void __launch_bounds__(WARPS * 32 + PRODUCERS, 2)
    gemm_warp_specialisation(Gemm g, const __grid_constant__ TensorMap map_a,
                             const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full, empty] = dynamic_shared<Tiles>();

  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;  // the block's first row and column of C
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage)
      mbarrier_init(&full[stage], 1), mbarrier_init(&empty[stage], WARPS);
    mbarrier_fence_init();
  }
  __syncthreads();

  if (warp >= WARPS) {
    warpgroup_reg_dealloc<FEW>();
    if (threadIdx.x > WARPS * 32) return;
    int stage = 0, parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int k0 = 0; k0 < g.K; k0 += BK) {
      mbarrier_wait(&empty[stage], parity);
      mbarrier_arrive_expect_tx(&full[stage], sizeof(float) * BK * (BM + BN));
      tensor_copy(As[stage], map_a, k0, row0, blockIdx.z, &full[stage]);
      for (int group = 0; group < BN / GROUP; ++group) {
        tensor_copy(Bs[stage][group], map_b, col0 + group * GROUP, k0, blockIdx.z, &full[stage]);
      }
      if (++stage == STAGES) stage = 0, parity ^= 1;
    }
    return;
  }
  warpgroup_reg_alloc<MANY>();

  const int quad = lane / 4, t = lane % 4;  // the lane's quad (its row of A, columns of B) and place in it
  const int m = warp / WARPS_N * WM, n = warp % WARPS_N * WN;  // where the warp's tile begins in the block's

  std::uint32_t a[2][MMAS_M / 2][4], b[2][MMAS_N][4];  // for this k and for the next
  const auto load_fragments = [&](int set, int stage, int k) {
    for (int i = 0; i < MMAS_M; i += 2) {
      // Four matrices: the first four terms of eight rows, their second four, and both for eight more rows.
      // Each lane gives the address of one row of one matrix.
      const int row = m + i * MM + lane / 16 * 8 + lane % 8;
      ldmatrix(a[set][i / 2], &As[stage][row][swizzle_128B(row, k + lane / 8 % 2 * 4)]);
    }
    for (int j = 0; j < MMAS_N; ++j) {
      for (int r = 0; r < 4; r += 2) {
        const int row = k + t + r * 2;
        const float2 two =
            float2_at(&Bs[stage][n / GROUP + j / 2][row][swizzle_128B(row, b_column(quad) + j % 2 * 8)]);
        b[set][j][r] = __float_as_uint(two.x), b[set][j][r + 1] = __float_as_uint(two.y);
      }
    }
  };

  float sums[MMAS_M][MMAS_N][4] = {};
  const auto multiply = [&](int set) {
    for (int i = 0; i < MMAS_M; ++i) {
      const std::uint32_t two[] = {a[set][i / 2][i % 2 * 2], a[set][i / 2][i % 2 * 2 + 1]};
      for (int j = 0; j < MMAS_N; ++j) mma_tf32(sums[i][j], b[set][j], two);
    }
  };

  int stage = 0, parity = 0;
  if (g.K > 0) {
    mbarrier_wait(&full[0], 0);
    load_fragments(0, 0, 0);
  }
  for (int k0 = 0; k0 < g.K; k0 += BK) {
#pragma unroll
    for (int k = 0; k < BK; k += MK) {
      const int set = k / MK % 2;
      if (k + MK < BK) {
        load_fragments(set ^ 1, stage, k + MK);
      } else {
        std::uint64_t* const loaded = &empty[stage];
        if (++stage == STAGES) stage = 0, parity ^= 1;
        if (k0 + BK < g.K) {
          mbarrier_wait(&full[stage], parity);
          load_fragments(0, stage, 0);
        }
        __syncwarp();  // all lanes have loaded the stage's last fragments
        if (lane == 0) mbarrier_arrive(loaded);
      }
      multiply(set);
    }
  }

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]
  const int rows = g.M - row0, cols = g.N - col0;
#pragma unroll
  for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
    for (int j = 0; j < MMAS_N; ++j) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = m + i * MM + t * 2 + r;  // in the block's tile
        const int col = n + j / 2 * GROUP + b_column(quad) + j % 2 * 8;
        update2<ALIGNED>(&C[(row0 + row) * g.ldc + (col0 + col)], row < rows ? cols - col : 0, sums[i][j][r],
                         sums[i][j][r + 2], g.alpha, g.beta);
      }
    }
  }
}

void gemm_tf32(const Gemm& g) {
  static Workspace<float> a_workspace("aligned A"), b_workspace("aligned B");
  if (g.M == 0 || g.N == 0) return;
  const TensorMap map_a = aligned_a(g, a_workspace).tf32_map(g.batch, BM, BK);
  const TensorMap map_b = aligned_b(g, b_workspace).tf32_map(g.batch, BK, GROUP);
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? gemm_warp_specialisation<true> : gemm_warp_specialisation<false>, grid,
         dim3(WARPS * 32 + PRODUCERS), sizeof(Tiles), g, map_a, map_b);
}

}  // namespace
