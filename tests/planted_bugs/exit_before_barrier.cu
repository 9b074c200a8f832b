// bug: exit_before_barrier
// check: thread exit before a barrier
// place: __syncthreads();  // the tiles are complete
// gpu: verify
// cases: --m 35 --n 79 --k 19
//
// Wrong     Threads outside the matrix leave at once, as in steps 01 and 02; here they have tiles to fill.
// Seen      In blocks at the edge parts of the tiles are never stored, and sums hold whatever was in shared
//           memory. The barriers do not wait for threads that have left, so the kernel ends.

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_exit_before_barrier(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  if (row >= g.M || col >= g.N) return;  // BUG: before the barriers, and with elements of the tiles to load

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    As[ty][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < TILE; ++k) {
      sum += As[ty][k] * Bs[k][tx];
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_exit_before_barrier, grid, block, 0, g);
}

}  // namespace
