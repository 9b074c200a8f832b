// bug: split_k_without_atomics
// check: data race on global memory
// place: c += g.alpha * sum;
// gpu: verify
// cases: --m 35 --n 79 --k 190 --beta 2
//
// Wrong     Several blocks share the terms of a sum, and each adds its part to C with += instead of
//           atomicAdd.
// Seen      Two blocks read the same old value, and the part of the one that writes first is lost. Which
//           one, and where, changes from run to run; if the blocks run one after the other, the result is
//           right.

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;   // a block computes a part of TILE x TILE elements of C
constexpr int SPLITS = 8;  // the parts: so many blocks share the K terms

__global__ void scale_c(Gemm g) {
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;
  float& c = g.C[blockIdx.z * g.strideC + row * g.ldc + col];
  c = g.beta == 0.0f ? 0.0f : g.beta * c;  // beta == 0: C is not read
}

__global__ void sgemm_split_k_without_atomics(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int part = blockIdx.x % SPLITS;
  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x / SPLITS * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
  for (int k = part; k < g.K; k += SPLITS) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float& c = C[row * g.ldc + col];
  c += g.alpha * sum;  // BUG: other blocks do the same at the same time
}

void sgemm(const Gemm& g) {
  dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(scale_c, grid, block, 0, g);
  grid.x *= SPLITS;
  launch(sgemm_split_k_without_atomics, grid, block, 0, g);
}

}  // namespace
