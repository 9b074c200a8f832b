// Exercise 09: cp.async fills the next tiles in shared memory while the threads compute.
//
// There are two buffers (STAGES) for the tiles, but only the first is ever filled, half of it through
// registers, and nobody waits until the copies have arrived.
// Copy A asynchronously, too, close the copies into a group, and complete the loop: wait, barrier, next.

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int BM = 128, BN = 128, BK = 16;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TM = 8, TN = 8;               // the thread's tile: TM x TN of C
constexpr int LM = 8, LN = 4;               // the lanes of a warp: LM down, LN across
constexpr int WM = LM * TM, WN = LN * TN;   // the warp's tile: WM x WN of C
constexpr int WARPS_N = BN / WN;            // warps across the block's tile
constexpr int THREADS = BM / WM * WARPS_N * 32;
static_assert(LM * LN == 32 && BM % WM == 0 && BN % WN == 0);
constexpr int PAD = 4;                    // shifts each row of As by 4 banks against the one before
constexpr int STAGES = 2;                 // buffers for the tiles
constexpr int A_ROWS = THREADS / 8;       // rows of A that the block copies at once, 8 terms of each
constexpr int B_ROWS = THREADS * 4 / BN;  // rows of B that the block copies at once
static_assert(BM % A_ROWS == 0 && BK % 8 == 0 && BK % B_ROWS == 0);

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

// c[0..3] = alpha * sums[0..3] + beta * c[0..3], as far as they exist. beta == 0: c is not read.
template <bool ALIGNED>
__device__ __forceinline__ void store4(float* c, int valid, const float* sums, float alpha, float beta) {
  if constexpr (ALIGNED) {
    if (valid <= 0) return;
    float4 v = make_float4(alpha * sums[0], alpha * sums[1], alpha * sums[2], alpha * sums[3]);
    if (beta != 0.0f) {
      const float4 old = float4_at(c);
      v = make_float4(v.x + beta * old.x, v.y + beta * old.y, v.z + beta * old.z, v.w + beta * old.w);
    }
    float4_at(c) = v;
  } else {
    for (int j = 0; j < 4; ++j) {
      if (j < valid) c[j] = beta == 0.0f ? alpha * sums[j] : alpha * sums[j] + beta * c[j];
    }
  }
}

// Two blocks to an SM, for which nvcc keeps to 128 registers a thread.
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, 2) sgemm_async_copy(Gemm g) {
  __shared__ __align__(16) float As[STAGES][BK][BM + PAD];  // [k][row]: A transposed
  __shared__ __align__(16) float Bs[STAGES][BK][BN];        // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * BM;  // of the block's tile of C
  const int col0 = blockIdx.x * BN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp / WARPS_N * WM + lane / LN * 4;  // the thread's rows: m .. m + 3, and the same WM / 2 on
  const int n = warp % WARPS_N * WN + lane % LN * 4;  // its columns likewise

  // What this thread copies: single elements of A, A_ROWS rows and 8 terms apart; 4 neighbours of a row of B,
  // B_ROWS rows apart. 8 lanes side by side read 32 bytes of a row of A.
  const int a_row = threadIdx.x / 8, a_k = threadIdx.x % 8;
  const int b_k = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
  const float* a_from = A + (row0 + a_row) * g.lda + a_k;
  const float* b_from = B + b_k * g.ldb + col0 + b_col;
  const std::int64_t a_step = A_ROWS * g.lda, b_step = B_ROWS * g.ldb;

  // Asks for the tiles of the next terms, of which `left` exist.
  const auto copy_tiles = [&](int stage, int left) {
    for (int i = 0; i < BM / A_ROWS; ++i) {
      for (int k = 0; k < BK; k += 8) {
        const bool valid = row0 + a_row + i * A_ROWS < g.M && a_k + k < left;
        // TODO 1: not through a register. copy4 above shows async_copy at work.
        As[stage][a_k + k][a_row + i * A_ROWS] = valid ? a_from[i * a_step + k] : 0.0f;
      }
    }
    a_from += BK;
    for (int k = 0; k < BK; k += B_ROWS, b_from += b_step) {
      copy4<ALIGNED>(&Bs[stage][b_k + k][b_col], b_from, b_k + k < left ? g.N - col0 - b_col : 0);
    }
    // TODO 2: the copies asked for so far are a group of their own.
  };

  float sums[TM][TN] = {};
  int stage = 0;  // the buffer to compute from
  copy_tiles(stage, g.K);
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    __syncthreads();  // TODO 3: everybody is here; but have the copies arrived?
    // TODO 4: ask for the next tiles, if there are any, before computing; and let the buffers take turns.

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      alignas(16) float a[TM], b[TN];
      for (int i = 0; i < TM; i += 4) float4_at(&a[i]) = float4_at(&As[stage][k][m + i / 4 * (WM / 2)]);
      for (int j = 0; j < TN; j += 4) float4_at(&b[j]) = float4_at(&Bs[stage][k][n + j / 4 * (WN / 2)]);
      // Back and forth: consecutive FFMAs always share an operand, at the turn from one row to the next as
      // well, and a shared operand is not read from the registers again.
      for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) {
          const int col = i % 2 == 0 ? j : TN - 1 - j;
          sums[i][col] += a[i] * b[col];
        }
      }
    }
  }

  for (int i = 0; i < TM; ++i) {
    for (int j = 0; j < TN; j += 4) {
      const int row = row0 + m + i / 4 * (WM / 2) + i % 4, col = col0 + n + j / 4 * (WN / 2);
      store4<ALIGNED>(&C[row * g.ldc + col], row < g.M ? g.N - col : 0, &sums[i][j], g.alpha, g.beta);
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(is_aligned(g) ? sgemm_async_copy<true> : sgemm_async_copy<false>, grid, dim3(THREADS), 0, g);
}

}  // namespace
