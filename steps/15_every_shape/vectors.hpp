#pragma once

// Products with one row or one column: every element of the matrix is needed once, and only reading it takes
// time. No tiles, and shared memory only for the last sums.

#include "common/cuda/float4.hpp"
#include "common/step.hpp"

namespace {
namespace vectors {

bool rows_are_aligned(const float* matrix, int cols, std::int64_t ld, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && cols % 4 == 0 && ld % 4 == 0 &&
         stride % 4 == 0;
}

constexpr int WARPS = 32, COLS = 32;  // a block of WARPS warps computes COLS elements of a row of C
constexpr int ROWS = 4;               // of B that a warp reads at once, COLS elements of each

// M == 1: C[0][col] is the sum of A[0][k] * B[k][col].
template <bool ALIGNED>
__global__ void __launch_bounds__(WARPS * 32) row_times_matrix(Gemm g) {
  __shared__ __align__(16) float parts[WARPS * ROWS][COLS];
  const float* A = g.A + blockIdx.y * g.strideA;  // [K]
  const float* B = g.B + blockIdx.y * g.strideB;  // [K][N]
  const int x = threadIdx.x % (COLS / 4), y = threadIdx.x / (COLS / 4);
  const int col = blockIdx.x * COLS + x * 4, left = g.N - col;
  float sums[4] = {};
#pragma unroll 8
  for (int k = y; k < g.K; k += WARPS * ROWS) {
    const float a = A[k];
    const float4 b = load4<ALIGNED>(B + k * g.ldb + col, left);
    sums[0] += a * b.x, sums[1] += a * b.y, sums[2] += a * b.z, sums[3] += a * b.w;
  }
  float4_at(&parts[y][x * 4]) = make_float4(sums[0], sums[1], sums[2], sums[3]);
  for (int half = WARPS * ROWS / 2; half > 0; half /= 2) {
    __syncthreads();  // the sums of twice as many threads are there
    if (y >= half) continue;
    const float4 mine = float4_at(&parts[y][x * 4]), other = float4_at(&parts[y + half][x * 4]);
    float4_at(&parts[y][x * 4]) =
        make_float4(mine.x + other.x, mine.y + other.y, mine.z + other.z, mine.w + other.w);
  }
  if (y > 0 || left <= 0) return;
  const float4 total = float4_at(&parts[0][x * 4]);
  const float four[4] = {total.x, total.y, total.z, total.w};
  update4<false>(g.C + blockIdx.y * g.strideC + col, left, four, g.alpha, g.beta);
}

constexpr int ROW_WARPS = 8;  // a block's warps compute one element of a column of C each

// N == 1: C[row][0] is the sum of A[row][k] * B[k][0].
template <bool ALIGNED>
__global__ void __launch_bounds__(ROW_WARPS * 32) matrix_times_column(Gemm g) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.x * ROW_WARPS + warp;
  if (row >= g.M) return;
  const float* A = g.A + blockIdx.y * g.strideA + row * g.lda;  // [K]
  const float* B = g.B + blockIdx.y * g.strideB;                // [K][1]
  float sum = 0.0f;
#pragma unroll 8
  for (int k = lane * 4; k < g.K; k += 32 * 4) {
    const int left = g.K - k;
    const float4 a = load4<ALIGNED>(A + k, left);
    const float b0 = B[k * g.ldb], b1 = left > 1 ? B[(k + 1) * g.ldb] : 0.0f;
    const float b2 = left > 2 ? B[(k + 2) * g.ldb] : 0.0f, b3 = left > 3 ? B[(k + 3) * g.ldb] : 0.0f;
    sum += a.x * b0 + a.y * b1 + a.z * b2 + a.w * b3;
  }
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  if (lane == 0) update(g.C[blockIdx.y * g.strideC + row * g.ldc], sum, g.alpha, g.beta);
}

void run_row(const Gemm& g) {
  const bool aligned = rows_are_aligned(g.B, g.N, g.ldb, g.strideB);
  launch(aligned ? row_times_matrix<true> : row_times_matrix<false>, dim3(ceil_div(g.N, COLS), g.batch),
         dim3(WARPS * 32), 0, g);
}

void run_column(const Gemm& g) {
  const bool aligned = rows_are_aligned(g.A, g.K, g.lda, g.strideA);
  launch(aligned ? matrix_times_column<true> : matrix_times_column<false>,
         dim3(ceil_div(g.M, ROW_WARPS), g.batch), dim3(ROW_WARPS * 32), 0, g);
}

}  // namespace vectors
}  // namespace
