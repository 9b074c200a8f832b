// cheat: no_tiles: step 02's kernel, with names that goals may look for
// exercise: 04_1d_tiling, 05_2d_tiling, ragged_edges, usually_right, wrong_at_19, four_times_the_traffic
// code: goal
// says: products or more
// place: sum += A[

#include "common/step.hpp"

namespace {

constexpr int TILE = 1, BM = 1, BN = 1, TM = 8, TN = 8;
constexpr int SIDE = 32;  // a block computes SIDE x SIDE elements of C
constexpr int THREADS = SIDE * SIDE;

__global__ void __launch_bounds__(THREADS) sgemm_cheat(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * SIDE + threadIdx.y;
  const int col = blockIdx.x * SIDE + threadIdx.x;

  __shared__ float As[32], Bs[32];
  if (threadIdx.y == 0) As[threadIdx.x] = Bs[threadIdx.x] = 0.0f;
  __syncthreads();
  if (row >= g.M || col >= g.N) return;
  float sum = As[threadIdx.x] + Bs[threadIdx.x];
#pragma unroll 32  // many loads under way at once
  for (int k = 0; k < g.K; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, SIDE), ceil_div(g.M, SIDE), g.batch);
  const dim3 block(SIDE, SIDE);
  launch(sgemm_cheat, grid, block, 0, g);
}

}  // namespace
