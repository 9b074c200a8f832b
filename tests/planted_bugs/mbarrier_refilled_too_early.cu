// bug: mbarrier_refilled_too_early
// check: arrives at the mbarrier Tiles::full + 0 bytes, whose phase 0 has had its 1 arrival
// place: mbarrier_arrive_expect_tx(&full[stage]
// gpu: none (the producer may miss a phase, and hang)
// cases: --m 32 --n 64 --k 256
//
// Wrong     As step 29, with small tiles: a producer warp waits for empty stages, from one round through them
//           to the next. It does not change the parity that it waits for after a round.
// Seen      In the second round a stage counts as empty while its tiles are on their way or being loaded; the
//           producer asks for others into it. Once it is empty, the wait for it does not end.

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mbarrier.hpp"
#include "common/cuda/tensor_copy.hpp"
#include "common/cuda/tf32.hpp"
#include "common/step.hpp"

namespace {

// Rows of A and B begin at multiples of 16 bytes here.
constexpr int BM = 32, BN = 32, BK = 32;  // the block's tile: BM x BN of C, BK terms (a slab) at a time
constexpr int WM = 16;                    // the warp's tile of C: WM x BN
constexpr int MN = 8, MK = 8;             // an mma's: WM x MN of C, MK terms
constexpr int WARPS = BM / WM;            // that multiply; one warp more copies
constexpr int STAGES = 2;                 // buffers for the tiles

struct alignas(1024) Tiles {
  float A[STAGES][BM][BK];      // [stage][row][swizzle_128B()], rounded
  float B[STAGES][BK][BN];      // [stage][k][swizzle_128B()], rounded
  std::uint64_t full[STAGES];   // mbarriers: the tiles of the stage have arrived
  std::uint64_t empty[STAGES];  // all warps have loaded their fragments of them
};

__global__ void __launch_bounds__(WARPS * 32 + 32)
    sgemm_mbarrier_refilled_too_early(Gemm g, const __grid_constant__ TensorMap map_a,
                                      const __grid_constant__ TensorMap map_b) {
  auto& [As, Bs, full, empty] = dynamic_shared<Tiles>();

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, quad = lane / 4, t = lane % 4;
  const int slabs = ceil_div(g.K, BK);

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      mbarrier_init(&full[stage], 1);
      mbarrier_init(&empty[stage], WARPS);
    }
    mbarrier_fence_init();
  }
  __syncthreads();

  if (warp == WARPS) {
    if (lane > 0) return;
    int stage = 0, parity = 1;  // the phase before the first is complete: at first all stages are empty
    for (int slab = 0; slab < slabs; ++slab) {
      mbarrier_wait(&empty[stage], parity);
      mbarrier_arrive_expect_tx(&full[stage], sizeof(float) * BK * (BM + BN));
      tensor_copy(As[stage], map_a, slab * BK, row0, blockIdx.z, &full[stage]);
      tensor_copy(Bs[stage], map_b, col0, slab * BK, blockIdx.z, &full[stage]);
      if (++stage == STAGES) stage = 0;  // BUG: parity ^= 1 is missing
    }
    return;
  }

  float sums[BN / MN][4] = {};
  int stage = 0, parity = 0;
  for (int slab = 0; slab < slabs; ++slab) {
    mbarrier_wait(&full[stage], parity);
    for (int k = 0; k < BK; k += MK) {
      std::uint32_t a[4];
      const int row = warp * WM + lane % 16;
      ldmatrix(a, &As[stage][row][swizzle_128B(row, k + lane / 16 * 4)]);
      for (int j = 0; j < BN / MN; ++j) {
        std::uint32_t b[2];
        for (int r = 0; r < 2; ++r) {
          b[r] = __float_as_uint(Bs[stage][k + t + r * 4][swizzle_128B(k + t + r * 4, j * MN + quad)]);
        }
        mma_tf32(sums[j], a, b);
      }
    }
    __syncwarp();
    if (lane == 0) mbarrier_arrive(&empty[stage]);
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }

  for (int j = 0; j < BN / MN; ++j) {
    for (int r = 0; r < 4; ++r) {
      const int row = row0 + warp * WM + quad + r / 2 * 8, col = col0 + j * MN + t * 2 + r % 2;
      if (row < g.M && col < g.N) update(C[row * g.ldc + col], sums[j][r], g.alpha, g.beta);
    }
  }
}

void gemm_tf32(const Gemm& g) {
  launch(
      sgemm_mbarrier_refilled_too_early, dim3(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch),
      dim3(WARPS * 32 + 32), sizeof(Tiles), g,
      tensor_map(g.A, g.M, g.K, g.lda, g.batch, g.strideA, BM, BK, Swizzle::of_128_bytes, Convert::to_tf32),
      tensor_map(g.B, g.K, g.N, g.ldb, g.batch, g.strideB, BK, BN, Swizzle::of_128_bytes, Convert::to_tf32));
}

}  // namespace
