// Exercise 10: everything is fetched before it is needed.
//
// There are STAGES buffers, but the copies start one tile ahead, the loop waits for all of them, and the
// stages never advance: from the second tile on, the result is wrong.
// Fill all buffers but one in advance, let the stages go round, and fetch fragments one k ahead.

#include "common/cuda/async_copy.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 256, BK = 8;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 16;             // the thread's tile: TM x TN of C
constexpr int LM = 2, LN = 16;             // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;  // the warp's tile: WM x WN of C
constexpr int WARPS_N = BN / WN;           // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
static_assert(LM * LN == 32 && BM % WM == 0 && BN % WN == 0);
constexpr int PAD = 4;                    // shifts each row of As by 4 banks against the one before
constexpr int STAGES = 5;                 // buffers for the tiles
constexpr int GROUP = 8;                  // rows of tiles in a band of C
constexpr int A_ROWS = THREADS / 8;       // rows of A that the block copies at once, 8 terms of each
constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B that the block copies at once
static_assert(BM % A_ROWS == 0 && BK % 8 == 0 && BK % B_ROWS == 0);

struct Tiles {
  float A[STAGES][BK][BM + PAD];  // [k][row]: A transposed
  float B[STAGES][BK][BN];        // [k][col]
};

__device__ __forceinline__ float4& float4_at(float* p) { return *reinterpret_cast<float4*>(p); }

// Starts copying four neighbours in a row, of which only the first `valid` exist; zeros for the others.
// ALIGNED: both addresses are multiples of 16 bytes, and all four exist or none.
template <bool ALIGNED>
__device__ __forceinline__ void copy4(float* shared, const float* global, int valid) {
  if constexpr (ALIGNED) {
    async_copy<16>(shared, global, valid > 0);
  } else {
    for (int j = 0; j < 4; ++j) async_copy<4>(shared + j, global + j, j < valid);
  }
}

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) sgemm_prefetch(Gemm g) {
  Tiles& tiles = dynamic_shared<Tiles>();

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  // Blocks usually start in the order of their number. Numbered in bands, those that run together share
  // tiles.
  const int number = blockIdx.y * gridDim.x + blockIdx.x;
  const int band = number / (GROUP * gridDim.x) * GROUP;  // the band's first row of tiles
  const int band_rows = min(GROUP, static_cast<int>(gridDim.y) - band);
  const int in_band = number % (GROUP * gridDim.x);
  const int row0 = (band + in_band % band_rows) * BM;  // of the block's tile of C
  const int col0 = in_band / band_rows * BN;

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp / WARPS_N * WM + lane / LN * 4;  // rows: m .. m + 3, and the same every LM * 4
  const int n = warp % WARPS_N * WN + lane % LN * 4;  // columns: likewise, every LN * 4

  // What this thread copies: single elements of A, A_ROWS rows and 8 terms apart; 4 neighbours of a row of B,
  // B_ROWS rows apart. 8 lanes side by side read 32 bytes of a row of A.
  const int a_row = threadIdx.x / 8, a_k = threadIdx.x % 8;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;

  const float* a_from = A + (row0 + a_row) * g.lda + a_k;
  const float* b_from = B + b_k * g.ldb + col0 + b_col;
  const std::int64_t a_step = A_ROWS * g.lda, b_step = B_ROWS * g.ldb;

  // Asks for the tiles of the next terms. In all but the last tiles every term exists, and nothing is tested.
  int left = g.K;  // terms not yet asked for
  const auto copy_tiles = [&](int stage, bool all_exist) {
    for (int i = 0; i < BM / A_ROWS; ++i) {
      for (int k = 0; k < BK; k += 8) {
        const bool valid = row0 + a_row + i * A_ROWS < g.M && (all_exist || a_k + k < left);
        async_copy<4>(&tiles.A[stage][a_k + k][a_row + i * A_ROWS], a_from + i * a_step + k, valid);
      }
    }
    a_from += BK;
    for (int k = 0; k < BK; k += B_ROWS, b_from += b_step) {
      const int valid = all_exist || b_k + k < left ? g.N - col0 - b_col : 0;
      copy4<ALIGNED>(&tiles.B[stage][b_k + k][b_col], b_from, valid);
    }
  };
  const auto copy_next_tiles = [&](int stage) {
    if (left >= BK) {
      copy_tiles(stage, true);
    } else if (left > 0) {
      copy_tiles(stage, false);
    }
    left -= BK;
    async_copy_commit();  // even an empty group: waiting counts groups
  };

  float sums[TM][TN] = {};
  __align__(16) float a[2][TM], b[2][TN];  // fragments for this k and for the next
  const auto load_fragments = [&](int set, int stage, int k) {
    for (int i = 0; i < TM; i += 4) float4_at(&a[set][i]) = float4_at(&tiles.A[stage][k][m + i * LM]);
    for (int j = 0; j < TN; j += 4) float4_at(&b[set][j]) = float4_at(&tiles.B[stage][k][n + j * LN]);
  };

  // TODO 1: ask for the tiles of all buffers but one.
  copy_next_tiles(0);
  async_copy_wait<0>();  // TODO 2: the oldest tiles must have arrived; may others be under way?
  __syncthreads();

  int read = 0, write = STAGES - 1;  // the stage to compute from, and the one to fill
#pragma unroll 1
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    copy_next_tiles(write);
    // TODO 3: the stage to write to goes round, and so does the one to read from.
#pragma unroll
    for (int k = 0; k < BK; ++k) {
      // TODO 4 (when all else works): two sets of fragments in turn; load those of the next k, which may
      // lie in the next tiles, before the products of this one.
      load_fragments(0, read, k);
      // Down one column of the thread's tile, up the next: consecutive FFMAs always share an operand, and a
      // shared operand is not read from the registers again.
      for (int j = 0; j < TN; ++j) {
        for (int i = 0; i < TM; ++i) {
          const int row = j % 2 == 0 ? i : TM - 1 - i;
          sums[row][j] += a[0][row] * b[0][j];
        }
      }
    }
    async_copy_wait<0>();  // TODO 2
    __syncthreads();       // everybody's copies have arrived, and nobody needs the tiles of `read` any more
  }

  for (int i = 0; i < TM; ++i) {
    const int row = row0 + m + i / 4 * (LM * 4) + i % 4;
    if (row >= g.M) break;
    float* c_row = C + row * g.ldc + col0 + n;
    for (int j = 0; j < TN; ++j) {
      const int col = j / 4 * (LN * 4) + j % 4;
      if (col0 + n + col >= g.N) break;
      c_row[col] = g.beta == 0.0f ? g.alpha * sums[i][j] : g.alpha * sums[i][j] + g.beta * c_row[col];
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_prefetch<true> : sgemm_prefetch<false>, grid, dim3(THREADS), sizeof(Tiles), g);
}

}  // namespace
