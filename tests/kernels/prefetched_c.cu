// Each thread asks for its element of the old C before it computes, with cp.async, and finds it in shared
// memory when its sum is done.
//
// Needs     sm_80+: cp.async

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time

__global__ void sgemm_prefetched_c(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]
  __shared__ float Cs[TILE][TILE];

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty, col = blockIdx.x * TILE + tx;
  const bool in_c = row < g.M && col < g.N;
  float* c = C + row * g.ldc + col;

  async_copy<4>(&Cs[ty][tx], c, in_c && g.beta != 0.0f);  // beta == 0: C is not read
  async_copy_commit();

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    As[ty][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();  // the tiles are complete
    for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
    __syncthreads();  // nobody needs the tiles any more
  }

  async_copy_wait<0>();
  if (in_c) *c = g.alpha * sum + g.beta * Cs[ty][tx];
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_prefetched_c, grid, dim3(TILE, TILE), 0, g);
}

}  // namespace
