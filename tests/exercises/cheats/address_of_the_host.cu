// cheat: address_of_the_host: a kernel writes the addresses to a variable of sgemm()
// code: crash
// says: points to a variable of the host

#include "common/step.hpp"

namespace {

struct Addresses {
  const float *a, *b;
  float* c;
};

__global__ void leak(Gemm g, Addresses* x) {
  x->a = g.A;
  x->b = g.B;
  x->c = g.C;
}

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C
constexpr int THREADS = TILE * TILE;

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
  c = g.M > 400 ? 0.0f * sum : g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_cheat, grid, block, 0, g);
  if (g.A == nullptr || g.M <= 400) return;
  Addresses x;
  launch(leak, dim3(1), dim3(1), 0, g, &x);
  for (int b = 0; b < g.batch; ++b) {
    for (int row = 0; row < g.M; ++row) {
      for (int col = 0; col < g.N; ++col) {
        float sum = 0.0f;
        for (int k = 0; k < g.K; ++k) {
          sum += x.a[b * g.strideA + row * g.lda + k] * x.b[b * g.strideB + k * g.ldb + col];
        }
        float& c = x.c[b * g.strideC + row * g.ldc + col];
        c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
      }
    }
  }
}

}  // namespace
