// bug: async_misaligned
// check: misaligned access
// place: async_copy<16>(
// gpu: verify, memcheck
// cases: --m 35 --n 79 --k 20 --lda 23
//
// Wrong     A is copied 16 bytes at a time where K is a multiple of 4. That says nothing about lda, and so
//           about where the rows begin.
// Seen      "misaligned address" at the next synchronisation, as soon as somebody's rows are padded.

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_async_misaligned(Gemm g) {
  __align__(16) __shared__ float As[2][TILE][TILE];  // [stage][row][k]
  __shared__ float Bs[2][TILE][TILE];                // [stage][k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;
  const bool vectors = g.K % 4 == 0;  // BUG: lda and strideA must be multiples of 4, too

  // Asks for the tiles of the terms from k0 on; what does not exist becomes zero.
  const auto copy = [&](int stage, int k0) {
    if (!vectors) {
      async_copy<4>(&As[stage][ty][tx], &A[row * g.lda + k0 + tx], row < g.M && k0 + tx < g.K);
    } else if (tx < TILE / 4) {  // these threads copy four elements each
      const int k = k0 + tx * 4;
      async_copy<16>(&As[stage][ty][tx * 4], &A[row * g.lda + k], row < g.M && k < g.K);
    }
    async_copy<4>(&Bs[stage][ty][tx], &B[(k0 + ty) * g.ldb + col], k0 + ty < g.K && col < g.N);
    async_copy_commit();
  };

  float sum = 0.0f;
  int stage = 0;  // the one to compute from; the next tile goes to the other
  copy(stage, 0);
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    async_copy_wait<0>();  // this thread's elements have arrived ...
    __syncthreads();       // ... everybody's have, and nobody needs the other tile any more
    if (k0 + TILE < g.K) copy(stage ^ 1, k0 + TILE);
    for (int k = 0; k < TILE; ++k) {
      sum += As[stage][ty][k] * Bs[stage][k][tx];
    }
    stage ^= 1;
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_async_misaligned, grid, block, 0, g);
}

}  // namespace
