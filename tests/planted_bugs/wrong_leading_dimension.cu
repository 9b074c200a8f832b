// bug: wrong_leading_dimension
// check: out-of-bounds access to global memory
// place: As[ty][tx] = row < g.M
// check: fits a leading dimension of A of 19 (its row length) instead of 23
// gpu: verify
// cases: --m 35 --n 79 --k 19 --lda 23
//
// Wrong     Rows of A are taken to lie K elements apart, not lda.
// Seen      Nothing where lda is K. Elsewhere every row but the first comes from the wrong place, and from
//           what lies between the rows.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_wrong_leading_dimension(Gemm g) {
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
    As[ty][tx] = row < g.M && k0 + tx < g.K ? A[std::int64_t{row} * g.K + k0 + tx] : 0.0f;  // BUG: lda
    Bs[ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();  // the tiles are complete

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
  launch(sgemm_wrong_leading_dimension, grid, block, 0, g);
}

}  // namespace
