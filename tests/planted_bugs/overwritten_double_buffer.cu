// bug: overwritten_double_buffer
// check: data race on shared memory
// place: sum += As[stage][ty][k] * Bs[stage][k][tx];
// gpu: verify, racecheck
// cases: --m 35 --n 79 --k 43
//
// Wrong     Two tiles in shared memory take turns, but the next one is stored where the present one is.
// Seen      Each warp computes with a mix of the two tiles, as far as the others have come.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_overwritten_double_buffer(Gemm g) {
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
  int stage = 0;  // the one to compute from; the next tile goes to the other
  load(stage, 0);
  __syncthreads();  // the first tile is complete
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    if (k0 + TILE < g.K) load(stage, k0 + TILE);  // BUG: stage ^ 1
    for (int k = 0; k < TILE; ++k) {
      sum += As[stage][ty][k] * Bs[stage][k][tx];
    }
    __syncthreads();  // the next tile is complete, and nobody needs this one any more
    stage ^= 1;
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_overwritten_double_buffer, grid, block, 0, g);
}

}  // namespace
