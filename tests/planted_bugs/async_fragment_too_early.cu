// bug: async_fragment_too_early
// check: use of shared memory before its asynchronous copy arrived
// place: a = As[stage ^ 1][ty][0];
// gpu: verify, racecheck
// cases: --m 35 --n 79 --k 43
//
// Wrong     The factors for the next k are loaded while this k's are multiplied. At the end of a tile they
//           are in the next one, and loaded before it has been waited for.
// Seen      The first term of every tile but the first may be wrong: one in sixteen, if the copy is late.

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_async_fragment_too_early(Gemm g) {
  __shared__ float As[2][TILE][TILE];  // [stage][row][k]
  __shared__ float Bs[2][TILE][TILE];  // [stage][k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  // Asks for the tiles of the terms from k0 on; what does not exist becomes zero.
  const auto copy = [&](int stage, int k0) {
    async_copy<4>(&As[stage][ty][tx], &A[row * g.lda + k0 + tx], row < g.M && k0 + tx < g.K);
    async_copy<4>(&Bs[stage][ty][tx], &B[(k0 + ty) * g.ldb + col], k0 + ty < g.K && col < g.N);
    async_copy_commit();
  };

  float sum = 0.0f;
  int stage = 0;  // the one to compute from; the next tile goes to the other
  copy(stage, 0);
  async_copy_wait<0>();
  __syncthreads();
  float a = As[stage][ty][0], b = Bs[stage][0][tx];  // the factors of the next term
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    if (k0 + TILE < g.K) copy(stage ^ 1, k0 + TILE);
    for (int k = 1; k < TILE; ++k) {
      sum += a * b;
      a = As[stage][ty][k];
      b = Bs[stage][k][tx];
    }
    sum += a * b;
    if (k0 + TILE < g.K) {
      a = As[stage ^ 1][ty][0];
      b = Bs[stage ^ 1][0][tx];
    }
    async_copy_wait<0>();  // BUG: this and the barrier belong before the loads
    __syncthreads();       // the next tile has arrived, and nobody needs this one any more
    stage ^= 1;
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_async_fragment_too_early, grid, block, 0, g);
}

}  // namespace
