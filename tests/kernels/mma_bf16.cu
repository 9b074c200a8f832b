// BF16 on tensor cores: two tiles of A and B in shared memory by turns, fragments by ldmatrix.
//
// Needs     sm_80+: mma.sync on BF16

#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/mma.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 32, BN = 32, BK = 16;  // a block's tile
constexpr int WM = 16, WN = 16;           // a warp's
constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int PAD = 8;           // eight rows lie in different banks
constexpr int TILES_N = WN / 8;  // tiles of C that a warp has, side by side

__global__ void __launch_bounds__(THREADS) gemm_mma_bf16(GemmBf16 g) {
  __shared__ __align__(16) bf16 As[2][BM][BK + PAD];  // [stage][row][k]
  __shared__ __align__(16) bf16 Bs[2][BK][BN + PAD];  // [stage][k][col]

  const bf16* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const bf16* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;       // [M][N]
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN;  // of the block
  const int warp_row = warp / (BN / WN) * WM, warp_col = warp % (BN / WN) * WN;

  float sums[TILES_N][4] = {};
  int stage = 0;
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    for (int i = thread; i < BM * BK; i += THREADS) {
      const int row = i / BK, k = i % BK;
      const bool exists = row0 + row < g.M && k0 + k < g.K;
      As[stage][row][k] = exists ? A[(row0 + row) * g.lda + k0 + k] : bf16(0.0f);
    }
    for (int i = thread; i < BK * BN; i += THREADS) {
      const int k = i / BN, col = i % BN;
      const bool exists = k0 + k < g.K && col0 + col < g.N;
      Bs[stage][k][col] = exists ? B[(k0 + k) * g.ldb + col0 + col] : bf16(0.0f);
    }
    __syncthreads();  // the tiles are complete, and nobody needs those before them any more

    std::uint32_t a[4], b[4];  // b: of two tiles of C
    ldmatrix(a, &As[stage][warp_row + lane % 16][lane / 16 * 8]);
    ldmatrix_trans(b, &Bs[stage][lane % 16][warp_col + lane / 16 * 8]);
    for (int j = 0; j < TILES_N; ++j) mma_bf16(sums[j], a, {b[2 * j], b[2 * j + 1]});
    stage ^= 1;
  }

  for (int j = 0; j < TILES_N; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int row = row0 + warp_row + lane / 4 + i / 2 * 8;
      const int col = col0 + warp_col + j * 8 + lane % 4 * 2 + i % 2;
      if (row >= g.M || col >= g.N) continue;
      float& c = C[row * g.ldc + col];
      c = g.beta == 0.0f ? g.alpha * sums[j][i] : g.alpha * sums[j][i] + g.beta * c;
    }
  }
}

void gemm(const GemmBf16& g) {
  launch(gemm_mma_bf16, dim3(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch), dim3(THREADS), 0, g);
}

}  // namespace
