// cheat: right_with_a_race: the right result, though all threads read what one writes, without a barrier
// code: data race on shared memory
// says: nothing orders them
// place: k < shared_terms

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C
constexpr int THREADS = TILE * TILE;

__global__ void __launch_bounds__(THREADS) sgemm_cheat(Gemm g) {
  __shared__ int shared_terms;
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (threadIdx.x == 0 && threadIdx.y == 0) shared_terms = g.K;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
  for (int k = 0; k < shared_terms; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_cheat, grid, block, 0, g);
}

}  // namespace
