// bug: tensor_map_without_swizzle
// check: wrong result
// gpu: verify
// cases: --m 64 --n 96 --k 64
//
// Wrong     As step 28, with tiles as small as a warp: the kernel looks for A's elements where a map that
//           swizzles puts them, but its map does not.
// Seen      All of the tile arrives, at its place but for groups of four, and the lanes load fragments
//           without a bank conflict: of other terms than B's, except in every eighth row.

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/tf32.hpp"
#include "common/step.hpp"

namespace {

// Rows of A and B begin at multiples of 16 bytes here.
constexpr int BM = 16, BN = 32, BK = 32;  // a block is a warp, with a tile BM x BN of C, BK terms at a time
constexpr int MN = 8, MK = 8;             // an mma's: BM x MN of C, MK terms
constexpr int WARP = 32;

struct alignas(1024) Tiles {
  float A[BM][BK];  // [row][swizzle_128B()], rounded
  float B[BK][BN];  // [k][swizzle_128B()], rounded
  std::uint64_t full;
};

__global__ void __launch_bounds__(WARP)
    sgemm_tensor_map_without_swizzle(Gemm g, const __grid_constant__ TensorMap map_a,
                                     const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full] = dynamic_shared<Tiles>();

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int lane = threadIdx.x, quad = lane / 4, t = lane % 4;

  if (lane == 0) {
    mbarrier_init(&full, 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  float sums[BN / MN][4] = {};
  for (int slab = 0; slab < ceil_div(g.K, BK); ++slab) {
    if (lane == 0) {
      mbarrier_arrive_expect_tx(&full, sizeof(As) + sizeof(Bs));
      tensor_copy(As, map_a, slab * BK, row0, blockIdx.z, &full);
      tensor_copy(Bs, map_b, col0, slab * BK, blockIdx.z, &full);
    }
    mbarrier_wait(&full, slab % 2);
    for (int k = 0; k < BK; k += MK) {
      std::uint32_t a[4];
      const int row = lane % 16;
      ldmatrix(a, &As[row][swizzle_128B(row, k + lane / 16 * 4)]);
      for (int j = 0; j < BN / MN; ++j) {
        std::uint32_t b[2];
        for (int r = 0; r < 2; ++r) {
          b[r] = __float_as_uint(Bs[k + t + r * 4][swizzle_128B(k + t + r * 4, j * MN + quad)]);
        }
        mma_tf32(sums[j], a, b);
      }
    }
    __syncthreads();  // nobody needs these tiles any more
  }

  for (int j = 0; j < BN / MN; ++j) {
    for (int r = 0; r < 4; ++r) {
      const int row = row0 + quad + r / 2 * 8, col = col0 + j * MN + t * 2 + r % 2;
      if (row < g.M && col < g.N) update(C[row * g.ldc + col], sums[j][r], g.alpha, g.beta);
    }
  }
}

void gemm_tf32(const Gemm& g) {
  launch(
      sgemm_tensor_map_without_swizzle, dim3(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch), dim3(WARP),
      sizeof(Tiles), g,
      tensor_map(g.A, g.M, g.K, g.lda, g.batch, g.strideA, BM, BK, Swizzle::none,  // BUG: of_128_bytes
                 Convert::to_tf32),
      tensor_map(g.B, g.K, g.N, g.ldb, g.batch, g.strideB, BK, BN, Swizzle::of_128_bytes, Convert::to_tf32));
}

}  // namespace
