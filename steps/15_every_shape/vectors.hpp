#pragma once

// Products with one row or one column: every element of the matrix is needed once, and only reading it takes
// time. No tiles, and shared memory only for the last sums.

#include "common/cuda/cluster.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/float4.hpp"
#include "common/step.hpp"

namespace {
namespace vectors {

bool rows_are_aligned(const float* matrix, int cols, std::int64_t ld, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0 && cols % 4 == 0 && ld % 4 == 0 &&
         stride % 4 == 0;
}

// A block of WARPS warps computes COLS elements of a row of C, together with the SPLITS - 1 others of its
// cluster: of the rows of B each takes every SPLITS-th.
template <int COLS_, int WARPS_, int SPLITS_, int UNROLL_>
struct Row {
  static constexpr int COLS = COLS_, SPLITS = SPLITS_, UNROLL = UNROLL_, THREADS = WARPS_ * 32;
  static constexpr int X = COLS / 4, Y = THREADS / X;  // threads across, 4 elements each, and down

  struct Sums {
    float parts[Y][COLS];  // of the rows that a thread reads
    float total[COLS];     // of those that the block reads
  };
};

// M == 1: C[0][col] is the sum of A[0][k] * B[k][col].
template <typename R, bool ALIGNED>
__global__ void __launch_bounds__(R::THREADS) row_times_matrix(Gemm g) {
  auto& [parts, total] = dynamic_shared<typename R::Sums>();
  const float* A = g.A + blockIdx.z * g.strideA;  // [K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  const int x = threadIdx.x % R::X, y = threadIdx.x / R::X, rank = blockIdx.y;
  const int col = blockIdx.x * R::COLS + x * 4, left = g.N - col;
  float sums[4] = {};
#pragma unroll R::UNROLL
  for (int k = rank * R::Y + y; k < g.K; k += R::SPLITS * R::Y) {
    const float a = A[k];
    const float4 b = load4<ALIGNED>(B + k * g.ldb + col, left);
    sums[0] += a * b.x, sums[1] += a * b.y, sums[2] += a * b.z, sums[3] += a * b.w;
  }
  float4_at(&parts[y][x * 4]) = make_float4(sums[0], sums[1], sums[2], sums[3]);
  __syncthreads();
  if (threadIdx.x < R::COLS) {
    float sum = 0.0f;
    for (int other = 0; other < R::Y; ++other) sum += parts[other][threadIdx.x];
    total[threadIdx.x] = sum;
  }
  cluster_sync();  // the sums of all blocks are there
  const int mine = blockIdx.x * R::COLS + threadIdx.x;
  if (rank == 0 && threadIdx.x < R::COLS && mine < g.N) {
    float sum = 0.0f;
    for (int other = 0; other < R::SPLITS; ++other) sum += cluster_map_shared(total, other)[threadIdx.x];
    update(g.C[blockIdx.z * g.strideC + mine], sum, g.alpha, g.beta);
  }
  cluster_sync();  // nobody reads this block's sums any more
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

template <typename R>
void run_row(const Gemm& g) {
  const bool aligned = rows_are_aligned(g.B, g.N, g.ldb, g.strideB);
  const LaunchConfig config{dim3(ceil_div(g.N, R::COLS), R::SPLITS, g.batch), dim3(R::THREADS),
                            sizeof(typename R::Sums), dim3(1, R::SPLITS)};
  launch(aligned ? row_times_matrix<R, true> : row_times_matrix<R, false>, config, g);
}

void run_column(const Gemm& g) {
  const bool aligned = rows_are_aligned(g.A, g.K, g.lda, g.strideA);
  launch(aligned ? matrix_times_column<true> : matrix_times_column<false>,
         dim3(ceil_div(g.M, ROW_WARPS), g.batch), dim3(ROW_WARPS * 32), 0, g);
}

}  // namespace vectors
}  // namespace
