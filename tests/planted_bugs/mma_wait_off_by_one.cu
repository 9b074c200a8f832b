// bug: mma_wait_off_by_one
// check: use of shared memory before its asynchronous copy arrived
// place: a[r] = to_tf32(As[stage][row][swizzle_128B(row, k)]);
// gpu: verify, racecheck
// cases: --m 35 --n 79 --k 83
//
// Wrong     As step 24, with tiles as small as a warp: of three stages two are on their way when the older
//           one is needed. The wait lets both be missing.
// Seen      Fragments are loaded, and rounded, from tiles that may still be those of three rounds before.

#include "common/cuda/float4.hpp"
#include "common/cuda/tf32.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 16, BN = 32, BK = 32;  // a block is a warp, with a tile BM x BN of C, BK terms at a time
constexpr int MN = 8, MK = 8;             // an mma's: BM x MN of C, MK terms
constexpr int STAGES = 3;                 // buffers for the tiles
constexpr int WARP = 32;

__global__ void __launch_bounds__(WARP) sgemm_mma_wait_off_by_one(Gemm g) {
  __shared__ __align__(16) float As[STAGES][BM][BK];  // [stage][row][swizzle_128B()]
  __shared__ __align__(16) float Bs[STAGES][BK][BN];  // [stage][k][swizzle_b()]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;
  const int lane = threadIdx.x, quad = lane / 4, t = lane % 4;

  // Asks for the tiles of the terms from k0 on; what does not exist becomes zero.
  const auto copy_tiles = [&](int stage, int k0) {
    for (int i = 0; i < BM; ++i) {
      async_copy<4>(&As[stage][i][swizzle_128B(i, lane)], &A[(row0 + i) * g.lda + k0 + lane],
                    row0 + i < g.M && k0 + lane < g.K);
    }
    for (int i = 0; i < BK; ++i) {
      async_copy<4>(&Bs[stage][i][swizzle_b(i, lane)], &B[(k0 + i) * g.ldb + col0 + lane],
                    k0 + i < g.K && col0 + lane < g.N);
    }
    async_copy_commit();
  };

  float sums[BN / MN][4] = {};
  for (int stage = 0; stage < STAGES - 1; ++stage) copy_tiles(stage, stage * BK);
  for (int k0 = 0, stage = 0; k0 < g.K; k0 += BK, stage = (stage + 1) % STAGES) {
    async_copy_wait<STAGES - 1>();  // BUG: STAGES - 2
    __syncthreads();  // everybody's part has arrived, and nobody needs the tiles before any more
    copy_tiles((stage + STAGES - 1) % STAGES, k0 + (STAGES - 1) * BK);

    for (int k1 = 0; k1 < BK; k1 += MK) {
      std::uint32_t a[4];
      for (int r = 0; r < 4; ++r) {
        const int row = quad + r % 2 * 8, k = k1 + t + r / 2 * 4;
        a[r] = to_tf32(As[stage][row][swizzle_128B(row, k)]);
      }
      for (int j = 0; j < BN / MN; ++j) {
        std::uint32_t b[2];
        for (int r = 0; r < 2; ++r) {
          const int k = k1 + t + r * 4;
          b[r] = to_tf32(Bs[stage][k][swizzle_b(k, j * MN + quad)]);
        }
        mma_tf32(sums[j], a, b);
      }
    }
  }

  for (int j = 0; j < BN / MN; ++j) {
    for (int r = 0; r < 4; ++r) {
      const int row = row0 + quad + r / 2 * 8, col = col0 + j * MN + t * 2 + r % 2;
      if (row < g.M && col < g.N) update(C[row * g.ldc + col], sums[j][r], g.alpha, g.beta);
    }
  }
}

void gemm_tf32(const Gemm& g) {
  launch(sgemm_mma_wait_off_by_one, dim3(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch), dim3(WARP), 0, g);
}

}  // namespace
