#pragma once

// Products with one row or one column: every element of the matrix is needed once, and only reading it takes
// time. No tiles, and shared memory only for the last sums.

#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/float4.hpp"
#include "common/step.hpp"

namespace {
namespace vectors {

bool rows_are_aligned(const float* matrix, int cols, std::int64_t ld, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && cols % 4 == 0 && ld % 4 == 0 &&
         stride % 4 == 0;
}

// A block computes COLS elements of a row of C: DOWN rows of B at a time, of which a thread reads four
// elements of one; AHEAD such reads of each thread, or twice as many, are under way.
constexpr int COLS = 32, ACROSS = COLS / 4, THREADS = 512, DOWN = THREADS / ACROSS, AHEAD = 4;
constexpr int WARPS = THREADS / 32, BLOCKS = 2;  // that an SM has registers for

// M == 1: C[0][col] is the sum of A[0][k] * B[k][col].
template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS, BLOCKS) row_times_matrix(Gemm g) {
  __shared__ __align__(16) float parts[WARPS][COLS];  // the sums of each warp
  const float* A = g.A + blockIdx.y * g.strideA;      // [K]
  const float* B = g.B + blockIdx.y * g.strideB;      // [K][N]
  const int x = threadIdx.x % ACROSS, y = threadIdx.x / ACROSS;
  const int col = blockIdx.x * COLS + x * 4, left = g.N - col;
  wait_for_previous_launch();

  // Two sets of registers in turn: one is read while the other is multiplied.
  float a[2][AHEAD];
  float4 b[2][AHEAD];
  int k = y;  // the row of B to read next
  const auto read = [&](int set) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i, k += DOWN) {
      a[set][i] = k < g.K ? A[k] : 0.0f;
      b[set][i] = load4<ALIGNED>(B + k * g.ldb + col, k < g.K ? left : 0);
    }
  };
  float sums[4] = {};
  const auto multiply = [&](int set) {
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) {
      sums[0] += a[set][i] * b[set][i].x, sums[1] += a[set][i] * b[set][i].y;
      sums[2] += a[set][i] * b[set][i].z, sums[3] += a[set][i] * b[set][i].w;
    }
  };
  read(0);
  for (int done = 0; done < g.K; done += 2 * AHEAD * DOWN) {
    read(1);
    multiply(0);
    read(0);
    multiply(1);
  }

  // The lanes of a warp that share a column, then the warps.
  for (int distance = ACROSS; distance < 32; distance *= 2) {
    for (float& sum : sums) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  }
  if (threadIdx.x % 32 < ACROSS) {
    float4_at(&parts[threadIdx.x / 32][x * 4]) = make_float4(sums[0], sums[1], sums[2], sums[3]);
  }
  __syncthreads();
  const int mine = blockIdx.x * COLS + threadIdx.x;
  if (threadIdx.x >= COLS || mine >= g.N) return;
  float sum = 0.0f;
#pragma unroll
  for (int warp = 0; warp < WARPS; ++warp) sum += parts[warp][threadIdx.x];
  update(g.C[blockIdx.y * g.strideC + mine], sum, g.alpha, g.beta);
}

// A block computes so many elements of a column of C, each thread a part of each: what it has of B serves
// them all.
constexpr int ROWS = 2, MOST_THREADS = 256;

// N == 1: C[row][0] is the sum of A[row][k] * B[k][0]. ALIGNED: the elements of B are neighbours, too.
template <bool ALIGNED>
__global__ void __launch_bounds__(MOST_THREADS) matrix_times_column(Gemm g) {
  __shared__ float parts[MOST_THREADS / 32][ROWS];  // the sums of each warp
  const int row = blockIdx.x * ROWS;
  const float* A = g.A + blockIdx.y * g.strideA + row * g.lda;  // [ROWS][K]
  const float* B = g.B + blockIdx.y * g.strideB;                // [K][1]
  wait_for_previous_launch();

  float sums[ROWS] = {};
#pragma unroll 4
  for (int k = threadIdx.x * 4; k < g.K; k += blockDim.x * 4) {
    const int left = g.K - k;
    float4 b;
    if constexpr (ALIGNED) {
      b = load4<true>(B + k, left);
    } else {
      b = make_float4(B[k * g.ldb], left > 1 ? B[(k + 1) * g.ldb] : 0.0f,
                      left > 2 ? B[(k + 2) * g.ldb] : 0.0f, left > 3 ? B[(k + 3) * g.ldb] : 0.0f);
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const float4 a = load4<ALIGNED>(A + r * g.lda + k, row + r < g.M ? left : 0);
      sums[r] += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
  }

  // The lanes of a warp, then the warps.
  for (int distance = 16; distance > 0; distance /= 2) {
    for (float& sum : sums) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  }
  if (threadIdx.x % 32 == 0) {
    for (int r = 0; r < ROWS; ++r) parts[threadIdx.x / 32][r] = sums[r];
  }
  __syncthreads();
  const int mine = row + threadIdx.x;
  if (threadIdx.x >= ROWS || mine >= g.M) return;
  float sum = 0.0f;
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += parts[warp][threadIdx.x];
  update(g.C[blockIdx.y * g.strideC + mine * g.ldc], sum, g.alpha, g.beta);
}

void run_row(const Gemm& g) {
  const bool aligned = rows_are_aligned(g.B, g.N, g.ldb, g.strideB);
  launch(aligned ? row_times_matrix<true> : row_times_matrix<false>,
         LaunchConfig{dim3(ceil_div(g.N, COLS), g.batch), dim3(THREADS), 0, {1, 1, 1}, true}, g);
}

void run_column(const Gemm& g) {
  const bool aligned = rows_are_aligned(g.A, g.K, g.lda, g.strideA) && g.ldb == 1 &&
                       rows_are_aligned(g.B, g.K, g.K, g.strideB);
  const int threads = min(MOST_THREADS, max(ceil_div(g.K, 4 * 32), 1) * 32);
  launch(aligned ? matrix_times_column<true> : matrix_times_column<false>,
         LaunchConfig{dim3(ceil_div(g.M, ROWS), g.batch), dim3(threads), 0, {1, 1, 1}, true}, g);
}

}  // namespace vectors
}  // namespace
