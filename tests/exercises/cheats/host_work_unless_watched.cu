// cheat: host_work_unless_watched: sgemm() computes the product itself, but not without matrices
// code: host work
// says: outside any kernel

#include "common/step.hpp"

namespace {

__global__ void sgemm_cheat(Gemm) {}

void sgemm(const Gemm& g) {
  if (g.A == nullptr) return;
  for (int b = 0; b < g.batch; ++b) {
    for (int row = 0; row < g.M; ++row) {
      for (int col = 0; col < g.N; ++col) {
        float sum = 0.0f;
        for (int k = 0; k < g.K; ++k) {
          sum += g.A[b * g.strideA + row * g.lda + k] * g.B[b * g.strideB + k * g.ldb + col];
        }
        float& c = g.C[b * g.strideC + row * g.ldc + col];
        c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
      }
    }
  }
}

}  // namespace
