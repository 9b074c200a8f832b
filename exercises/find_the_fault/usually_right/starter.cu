// Find the fault: usually right.
//
// Each thread fetches its elements of the next tiles into registers while the block computes from these
// ones: "so one barrier a tile is enough". On a GPU the result is right most of the time.
// The line in the message is where the harm shows, which need not be where something is missing.

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
