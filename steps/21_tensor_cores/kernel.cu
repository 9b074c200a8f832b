// Step 21: mma.sync: a warp multiplies on the tensor cores and keeps its sums in registers.
//
// Idea      One warp-wide instruction, mma.sync, multiplies 16 x 8 elements of A by 8 x 8 of B: 1024
//           multiply-adds, where a warp's FFMA does 32. Each lane holds a part of each of the three matrices
//           in registers, a fragment; the hardware says which part.
// Change    Against step 05: no tile in shared memory yet. A warp loads fragments straight from global
//           memory, rounds them to TF32, and keeps the sums of its 64 x 32 elements of C in registers.
// Bound     24 loads from global memory for 16 mma: the L1 cache sets the pace. The four warps that share a
//           row of A each fetch its elements; a column of B is fetched by two.
// Needs     sm_80+: mma.sync on TF32

#include "common/cuda/mma.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128;                  // the block's tile of C
constexpr int WM = 64, WN = 32;                    // the warp's
constexpr int MM = 16, MN = 8, MK = 8;             // an mma's: MM x MN of C, MK terms
constexpr int MMAS_M = WM / MM, MMAS_N = WN / MN;  // down and across the warp's tile
constexpr int WARPS_N = BN / WN;                   // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;

__global__ void __launch_bounds__(THREADS) gemm_tensor_cores(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row0 = blockIdx.y * BM + warp / WARPS_N * WM;  // of the warp's tile of C
  const int col0 = blockIdx.x * BN + warp % WARPS_N * WN;
  const int quad = lane / 4, t = lane % 4;  // the lane's quad (its row of A, column of B) and place in it

  float sums[MMAS_M][MMAS_N][4] = {};
  for (int k0 = 0; k0 < g.K; k0 += MK) {
    std::uint32_t a[MMAS_M][4],
        b[MMAS_N][2];  // as mma_tf32() says; beyond the edges zeros, which add nothing
    for (int i = 0; i < MMAS_M; ++i) {
      for (int r = 0; r < 4; ++r) {
        const int row = row0 + i * MM + quad + r % 2 * 8, k = k0 + t + r / 2 * 4;
        a[i][r] = to_tf32(row < g.M && k < g.K ? A[row * g.lda + k] : 0.0f);
      }
    }
    for (int j = 0; j < MMAS_N; ++j) {
      for (int r = 0; r < 2; ++r) {
        const int k = k0 + t + r * 4, col = col0 + j * MN + quad;
        b[j][r] = to_tf32(k < g.K && col < g.N ? B[k * g.ldb + col] : 0.0f);
      }
    }
    for (int i = 0; i < MMAS_M; ++i) {
      for (int j = 0; j < MMAS_N; ++j) mma_tf32(sums[i][j], a[i], b[j]);
    }
  }

#pragma unroll
  for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
    for (int j = 0; j < MMAS_N; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int row = row0 + i * MM + quad + r / 2 * 8, col = col0 + j * MN + t * 2 + r % 2;
        if (row >= g.M || col >= g.N) continue;
        float& c = C[row * g.ldc + col];
        const float sum = sums[i][j][r];
        c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
      }
    }
  }
}

void gemm_tf32(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(gemm_tensor_cores, grid, dim3(THREADS), 0, g);
}

}  // namespace
