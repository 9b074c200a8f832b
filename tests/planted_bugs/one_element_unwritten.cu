// bug: one_element_unwritten
// check: wrong result: 1 of 2765 elements; first C[34][78]
// check: never written
// gpu: verify
// cases: --m 35 --n 79 --k 19
//
// Wrong     The guard of a grid that counts C's elements in a row stops one element early.
// Seen      The last element of C keeps what it held. A test that starts from zeros, and allows an absolute
//           error, may not notice.

#include "common/step.hpp"

namespace {

constexpr int THREADS = 256;  // a block computes as many elements of C, one after the other in its rows

__global__ void sgemm_one_element_unwritten(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const std::int64_t i = std::int64_t{blockIdx.x} * THREADS + threadIdx.x;
  if (i >= std::int64_t{g.M} * g.N - 1) return;  // BUG: the last one is M * N - 1
  const std::int64_t row = i / g.N, col = i % g.N;

  float sum = 0.0f;
  for (int k = 0; k < g.K; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const std::int64_t blocks = (std::int64_t{g.M} * g.N + THREADS - 1) / THREADS;
  const dim3 grid(static_cast<unsigned>(blocks), 1, g.batch);
  const dim3 block(THREADS);
  launch(sgemm_one_element_unwritten, grid, block, 0, g);
}

}  // namespace
