// Step 27: the Tensor Memory Accelerator copies the tiles, and rounds them on the way.
//
// Idea      A tensor map can declare its elements TF32. TMA then rounds the floats that it copies to the
//           nearest TF32 number, at no cost. What arrives in shared memory is ready for the tensor cores, and
//           no thread spends instructions on rounding or on addresses of copies any more.
// Change    Copies as in step 13, by maps that round and apply the 128-byte swizzle (swizzle_128B()). A and B
//           are copied beforehand if their rows are not aligned to 16 bytes. A lane takes those columns of B
//           that this swizzle puts into different banks.
// Bound     Warps that multiply also ask for the copies, and all of a block meet at every slab of BK terms.
// Needs     sm_90+: mbarriers, tensor copies

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/pack.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/tf32.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 32;  // the block's tile: BM x BN of C, BK terms (a slab) at a time
constexpr int WM = 64, WN = 64;             // the warp's tile of C
constexpr int MM = 16, MN = 8, MK = 8;      // an mma's: MM x MN of C, MK terms
constexpr int MMAS_M = WM / MM, MMAS_N = WN / MN;  // down and across the warp's tile
constexpr int WARPS_N = BN / WN;                   // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int STAGES = 3;  // buffers for the tiles
constexpr int GROUP = 32;  // columns of B in a copy: the 128 bytes that are swizzled
static_assert(BK == 32 && WN % GROUP == 0);

struct alignas(1024) Tiles {
  float A[STAGES][BM][BK];                 // [stage][row][swizzle_128B()], rounded
  float B[STAGES][BN / GROUP][BK][GROUP];  // [stage][group][k][swizzle_128B()], rounded
  std::uint64_t full[STAGES];              // mbarriers: the tiles of the stage have arrived
};

// The column of an mma's 8 in a group of 32: chosen so that the lanes of a warp, with four values of t among
// them, find theirs in 32 different banks.
__device__ __forceinline__ int b_column(int column) { return column % 4 + column / 4 * 16; }

// map_a: boxes BM x BK. map_b: boxes BK x GROUP.
__global__ void __launch_bounds__(THREADS, 2)
    gemm_tensor_maps(Gemm g, const __grid_constant__ TensorMap map_a,
                     const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full] = dynamic_shared<Tiles>();

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int quad = lane / 4, t = lane % 4;  // the lane's quad (its row of A, column of B) and place in it
  const int m = warp / WARPS_N * WM, n = warp % WARPS_N * WN;  // where the warp's tile begins in the block's

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(&full[stage], 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  const int slabs = ceil_div(g.K, BK);
  const auto copy_slab = [&](int slab) {
    if (threadIdx.x != 0 || slab >= slabs) return;
    const int stage = slab % STAGES;
    mbarrier_arrive_expect_tx(&full[stage], sizeof(float) * BK * (BM + BN));
    tensor_copy(As[stage], map_a, slab * BK, row0, blockIdx.z, &full[stage]);
    for (int group = 0; group < BN / GROUP; ++group) {
      tensor_copy(Bs[stage][group], map_b, col0 + group * GROUP, slab * BK, blockIdx.z, &full[stage]);
    }
  };

  float sums[MMAS_M][MMAS_N][4] = {};
  for (int slab = 0; slab < STAGES - 1; ++slab) copy_slab(slab);
  for (int slab = 0; slab < slabs; ++slab) {
    const int stage = slab % STAGES;
    mbarrier_wait(&full[stage], slab / STAGES % 2);  // the tiles have arrived
    __syncthreads();                                 // nobody needs the tiles before these any more
    copy_slab(slab + STAGES - 1);

#pragma unroll
    for (int k = 0; k < BK; k += MK) {
      std::uint32_t a[MMAS_M][4], b[MMAS_N][2];  // as mma_tf32() says
      for (int i = 0; i < MMAS_M; ++i) {
        // Four matrices: the first four terms of 16 rows, and their second four. Lane l gives the address of
        // row l % 16.
        const int row = m + i * MM + lane % 16;
        ldmatrix(a[i], &As[stage][row][swizzle_128B(row, k + lane / 16 * 4)]);
      }
      for (int j = 0; j < MMAS_N; ++j) {
        for (int r = 0; r < 2; ++r) {
          const int row = k + t + r * 4;
          b[j][r] = __float_as_uint(
              Bs[stage][n / GROUP + j / 4][row][swizzle_128B(row, b_column(quad) + j % 4 * 4)]);
        }
      }
      for (int i = 0; i < MMAS_M; ++i) {
        for (int j = 0; j < MMAS_N; ++j) mma_tf32(sums[i][j], a[i], b[j]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
    for (int j = 0; j < MMAS_N; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = m + i * MM + quad + r / 2 * 8,
                  col = n + j / 4 * GROUP + b_column(t * 2 + r % 2) + j % 4 * 4;  // in the block's tile
        if (row >= rows || col >= cols) continue;
        update(C[(row0 + row) * g.ldc + (col0 + col)], sums[i][j][r], g.alpha, g.beta);
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
  launch(gemm_tensor_maps, grid, dim3(THREADS), sizeof(Tiles), g, map_a, map_b);
}

}  // namespace
