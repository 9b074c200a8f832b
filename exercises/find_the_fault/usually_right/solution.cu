// The fault: a warp that was ahead stored its elements of the next tiles while others still computed.
//
// The registers hold the next tiles' elements, but there is only one set of tiles in shared memory: between
// the last read of a tile and the first store to it a barrier must stand. (Two sets of tiles in turn would
// do with one barrier, as step 09 shows.)

#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a block computes TILE x TILE elements of C, TILE terms at a time
constexpr int THREADS = TILE * TILE;

__global__ void __launch_bounds__(THREADS) sgemm_usually_right(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  // This thread's elements of the tiles whose terms begin at k0; beyond the edges zeros.
  const auto a_at = [&](int k0) { return row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f; };
  const auto b_at = [&](int k0) { return k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f; };

  float sum = 0.0f;
  float a = a_at(0), b = b_at(0);
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    As[ty][tx] = a;
    Bs[ty][tx] = b;
    __syncthreads();  // the tiles are complete

    a = a_at(k0 + TILE);  // arrives while the products are computed
    b = b_at(k0 + TILE);
    for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
    __syncthreads();  // nobody needs the tiles any more
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_usually_right, grid, dim3(TILE, TILE), 0, g);
}

}  // namespace
