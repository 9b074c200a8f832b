// bug: usually_right_race
// check: data race on shared memory
// place: for (int k = 0; k < depth; ++k) {
// gpu: racecheck
// cases: --m 35 --n 79 --k 43
//
// Wrong     One thread sets the depth of the next tile while others may still compute with this one.
// Seen      The right result, nearly always: the depth changes only before the last tile, and only a warp
//           that is late by a whole tile would see it too early. No test of results finds this.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_usually_right_race(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  __shared__ int depth;  // terms in the tiles

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float sum = 0.0f;
  if (tx == 0 && ty == 0) depth = min(TILE, g.K);
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    As[ty][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < depth; ++k) {
      sum += As[ty][k] * Bs[k][tx];
    }
    if (tx == 0 && ty == 0) depth = min(TILE, g.K - k0 - TILE);  // BUG: belongs behind the barrier
    __syncthreads();                                             // nobody needs the tiles any more
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_usually_right_race, grid, block, 0, g);
}

}  // namespace
