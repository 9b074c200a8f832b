// bug: unsigned_wraparound
// check: out-of-bounds access to global memory
// place: sum += A[row * g.lda + k + i] * B[(k + i) * g.ldb + col];
// gpu: verify, memcheck
// cases: --m 35 --n 79 --k 3
//
// Wrong     The main loop ends at K - UNROLL, computed without a sign: for K < UNROLL that is four thousand
//           million.
// Seen      All is well until K is smaller than the unrolled loop's body; then the kernel runs through all
//           of memory, up to the first address that is not mapped.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;        // a block computes TILE x TILE elements of C
constexpr unsigned UNROLL = 4;  // terms in one round of the main loop

__global__ void sgemm_unsigned_wraparound(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  const unsigned K = g.K;
  float sum = 0.0f;
  unsigned k = 0;
  for (; k <= K - UNROLL; k += UNROLL) {  // BUG: k + UNROLL <= K
    for (unsigned i = 0; i < UNROLL; ++i) {
      sum += A[row * g.lda + k + i] * B[(k + i) * g.ldb + col];
    }
  }
  for (; k < K; ++k) {  // what is left
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_unsigned_wraparound, grid, block, 0, g);
}

}  // namespace
