// bug: deadlock
// check: deadlock
// place: __syncthreads();  // BUG
// gpu: none (hangs: nothing but the end of the process stops it)
// cases: --m 35 --n 79 --k 19
//
// Wrong     Half of each warp fills As and waits for its warp; the other half fills Bs and waits for the
//           block.
// Seen      The first half waits for the second and the second, through the block's barrier, for the first.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_deadlock(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    if (ty % 2 == 0) {
      for (int i = 0; i < 2; ++i) {
        const int row = blockIdx.y * TILE + ty + i;
        As[ty + i][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
      }
      __syncwarp();
    } else {
      for (int i = 0; i < 2; ++i) {
        const int k = k0 + ty - i;
        Bs[ty - i][tx] = k < g.K && col < g.N ? B[k * g.ldb + col] : 0.0f;
      }
      __syncthreads();  // BUG: one barrier behind the branches, for all
    }

    for (int k = 0; k < TILE; ++k) {
      sum += As[ty][k] * Bs[k][tx];
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_deadlock, grid, block, 0, g);
}

}  // namespace
