// cheat: host_work_in_a_lambda: the result comes from a lambda, where there are matrices
// code: host work
// says: outside any kernel

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C
constexpr int THREADS = TILE * TILE;

const auto product = [](const Gemm& g) {
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
};

__global__ void __launch_bounds__(THREADS) sgemm_cheat(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
  for (int k = 0; k < g.K; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? 0.0f * sum : g.alpha * sum + g.beta * c;
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_cheat, grid, block, 0, g);
  if (g.A != nullptr && g.beta == 0.0f) product(g);
}

}  // namespace
