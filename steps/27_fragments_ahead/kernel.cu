// Step 27: fragments are loaded one k ahead, into a second set of registers.
//
// Idea      As in step 10: while the tensor cores multiply one set of fragments, the next one is on its way.
//           The last k of a tile loads the first fragments of the next, past the barrier.
// Change    a[2], b[2], rounded when they are used. A tile whose fragments are all loaded is free, so that
//           copies run one tile further ahead in as many stages.
// Bound     Each scheduler must issue five instructions per mma, and its two warps wait at barriers and for
//           each other.
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
__global__ void __launch_bounds__(THREADS, 2) gemm_fragments_ahead(Gemm g) {
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

  std::uint32_t a[2][MMAS_M][4], b[2][MMAS_N][2];  // not rounded yet: for this k and for the next
  const auto load_fragments = [&](int set, int stage, int k) {
    for (int i = 0; i < MMAS_M; ++i) {
      // Four matrices: the first four terms of 16 rows, and their second. Lane l gives row l % 16's address.
      const int row = m + i * MM + lane % 16;
      ldmatrix(a[set][i], &As[stage][row][swizzle_128B(row, k + lane / 16 * 4)]);
    }
    for (int j = 0; j < MMAS_N; ++j) {
      for (int r = 0; r < 2; ++r) {
        const int row = k + t + r * 4;
        b[set][j][r] = __float_as_uint(Bs[stage][row][swizzle_b(row, n + j * MN + quad)]);
      }
    }
  };

  float sums[MMAS_M][MMAS_N][4] = {};
  const auto multiply = [&](int set) {
    for (int j = 0; j < MMAS_N; ++j) {
      for (int r = 0; r < 2; ++r) b[set][j][r] = to_tf32(__uint_as_float(b[set][j][r]));
    }
    for (int i = 0; i < MMAS_M; ++i) {
      for (int r = 0; r < 4; ++r) a[set][i][r] = to_tf32(__uint_as_float(a[set][i][r]));
      for (int j = 0; j < MMAS_N; ++j) mma_tf32(sums[i][j], a[set][i], b[set][j]);
    }
  };
  // Waits until the next tiles are complete and nobody needs those before them; then requests others.
  int stage = 0;
  const auto next_tiles = [&] {
    async_copy_wait<STAGES - 2>();
    __syncthreads();
    copy_tiles((stage + STAGES - 1) % STAGES);
  };

  for (int s = 0; s < STAGES - 1; ++s) copy_tiles(s);
  if (g.K > 0) {
    next_tiles();
    load_fragments(0, stage, 0);
  }
  for (int k0 = 0; k0 < g.K; k0 += BK) {
#pragma unroll
    for (int k = 0; k < BK; k += MK) {
      const int set = k / MK % 2;
      if (k + MK < BK) {
        load_fragments(set ^ 1, stage, k + MK);
      } else if (k0 + BK < g.K) {
        stage = (stage + 1) % STAGES;
        next_tiles();
        load_fragments(0, stage, 0);
      }
      multiply(set);
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
  launch(is_aligned(g) ? gemm_fragments_ahead<true> : gemm_fragments_ahead<false>, grid, dim3(THREADS),
         sizeof(Tiles), g);
}

}  // namespace
