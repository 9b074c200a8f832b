// bug: misaligned_float4
// check: misaligned access
// place: a = *reinterpret_cast<const float4*>
// gpu: verify, memcheck
// cases: --m 35 --n 79 --k 20 --lda 23
//
// Wrong     A is loaded four elements at a time where K is a multiple of 4. That says nothing about lda,
//           and so about where the rows begin.
// Seen      "misaligned address" at the next synchronisation, as soon as somebody's rows are padded.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_misaligned_float4(Gemm g) {
  __align__(16) __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];                // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;
  const bool vectors = g.K % 4 == 0;  // BUG: lda must be a multiple of 4, too

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    if (!vectors) {
      As[ty][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    } else if (tx < TILE / 4) {  // these threads load four elements each
      float4 a = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (row < g.M && k0 + tx * 4 < g.K) {
        a = *reinterpret_cast<const float4*>(&A[row * g.lda + k0 + tx * 4]);
      }
      *reinterpret_cast<float4*>(&As[ty][tx * 4]) = a;
    }
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
  launch(sgemm_misaligned_float4, grid, block, 0, g);
}

}  // namespace
