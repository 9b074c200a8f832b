// Step 26: a warp computes 64 x 64 elements.
//
// Idea      A warp multiplies a column of fragments by a row of fragments: the larger and squarer its tile,
//           the fewer elements it loads and rounds per mma. The sums of 64 x 64 take 128 registers of each
//           lane.
// Change    WN = 64, so four warps per block. Two blocks share an SM.
// Bound     Per 32 mma, a warp issues 20 loads and rounds 32 elements.
// Needs     sm_80+: mma.sync on TF32

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/ldmatrix.hpp"
#include "common/cuda/tf32.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 32;         // the block's tile: BM x BN of C, BK terms at a time
constexpr int WM = 64, WN = 64;                    // the warp's tile of C
constexpr int MM = 16, MN = 8, MK = 8;             // an mma's: MM x MN of C, MK terms
constexpr int MMAS_M = WM / MM, MMAS_N = WN / MN;  // down and across the warp's tile
constexpr int WARPS_N = BN / WN;                   // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int A_ROWS = THREADS * 4 / BK;  // rows of A that the block loads at once, four elements per thread
constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B likewise
static_assert(BM % A_ROWS == 0 && BK % B_ROWS == 0);
constexpr int STAGES = 3;  // buffers for the tiles

struct Tiles {
  alignas(16) float A[STAGES][BM][BK];  // [stage][row][swizzle_128B()]
  alignas(16) float B[STAGES][BK][BN];  // [stage][k][swizzle_b()]
};

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) gemm_warp_tiles(Gemm g) {
  auto& [As, Bs] = dynamic_shared<Tiles>();

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM, rows = g.M - row0;  // the block's first row of C; rows from there on
  const int col0 = blockIdx.x * BN, cols = g.N - col0;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int quad = lane / 4, t = lane % 4;  // the lane's quad (its row of A, column of B) and place in it
  const int m = warp / WARPS_N * WM, n = warp % WARPS_N * WN;  // where the warp's tile begins in the block's

  // What this thread copies: 4 neighbours of a row of A, A_ROWS rows apart; of a row of B, B_ROWS rows apart.
  const int a_row = threadIdx.x / (BK / 4), a_k = threadIdx.x % (BK / 4) * 4;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;

  const float* a_from = A + row0 * g.lda + a_k;
  const float* b_from = B + b_k * g.ldb + col0 + b_col;
  int left = g.K;  // terms not yet requested

  // Requests the next tiles, with zeros past the last term.
  const auto copy_tiles = [&](int stage) {
    if (left > 0) {
      for (int i = 0; i < BM / A_ROWS; ++i) {
        const int row = a_row + i * A_ROWS;
        copy4<ALIGNED>(&As[stage][row][swizzle_128B(row, a_k)], a_from + row * g.lda,
                       row < rows ? left - a_k : 0);
      }
      for (int i = 0; i < BK / B_ROWS; ++i) {
        const int k = b_k + i * B_ROWS;
        copy4<ALIGNED>(&Bs[stage][k][swizzle_b(k, b_col)], b_from + (k - b_k) * g.ldb,
                       k < left ? cols - b_col : 0);
      }
      a_from += BK, b_from += BK * g.ldb, left -= BK;
    }
    async_copy_commit();
  };

  float sums[MMAS_M][MMAS_N][4] = {};
  for (int stage = 0; stage < STAGES - 1; ++stage) copy_tiles(stage);
  for (int k0 = 0, stage = 0; k0 < g.K; k0 += BK, stage = (stage + 1) % STAGES) {
    async_copy_wait<STAGES - 2>();  // this thread's part of the tiles has arrived
    __syncthreads();                // everybody's has, and nobody needs the tiles before these any more
    copy_tiles((stage + STAGES - 1) % STAGES);

#pragma unroll
    for (int k = 0; k < BK; k += MK) {
      std::uint32_t a[MMAS_M][4], b[MMAS_N][2];  // as mma_tf32() says
      for (int i = 0; i < MMAS_M; ++i) {
        // Four matrices: the first four terms of 16 rows, and their second four. Lane l gives the address of
        // row l % 16.
        const int row = m + i * MM + lane % 16;
        ldmatrix(a[i], &As[stage][row][swizzle_128B(row, k + lane / 16 * 4)]);
        for (int r = 0; r < 4; ++r) a[i][r] = to_tf32(__uint_as_float(a[i][r]));
      }
      for (int j = 0; j < MMAS_N; ++j) {
        for (int r = 0; r < 2; ++r) {
          const int row = k + t + r * 4;
          b[j][r] = to_tf32(Bs[stage][row][swizzle_b(row, n + j * MN + quad)]);
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
                  col = n + j * MN + t * 2 + r % 2;  // in the block's tile
        if (row >= rows || col >= cols) continue;
        update(C[(row0 + row) * g.ldc + (col0 + col)], sums[i][j][r], g.alpha, g.beta);
      }
    }
  }
}

void gemm_tf32(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? gemm_warp_tiles<true> : gemm_warp_tiles<false>, grid, dim3(THREADS), sizeof(Tiles),
         g);
}

}  // namespace
