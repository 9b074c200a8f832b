// Two buffers for the tiles of A and B: the next tiles are loaded into one while the other is in use, so one
// barrier per tile is enough.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_double_buffer(Gemm g) {
  __shared__ float As[2][TILE][TILE];  // [stage][row][k]
  __shared__ float Bs[2][TILE][TILE];  // [stage][k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  const auto load = [&](int stage, int k0) {
    As[stage][ty][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    Bs[stage][ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
  };

  float sum = 0.0f;
  int stage = 0;  // holds the tiles to compute from; the next ones go to the other
  load(stage, 0);
  __syncthreads();  // the first tiles are complete
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    if (k0 + TILE < g.K) load(stage ^ 1, k0 + TILE);
    for (int k = 0; k < TILE; ++k) {
      sum += As[stage][ty][k] * Bs[stage][k][tx];
    }
    __syncthreads();  // the next tiles are complete, and nobody needs these any more
    stage ^= 1;
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_double_buffer, grid, dim3(TILE, TILE), 0, g);
}

}  // namespace
