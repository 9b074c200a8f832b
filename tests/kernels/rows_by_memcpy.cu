// Tiles are brought to shared memory by memcpy() and cleared by memset(): each thread a row of one tile.

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int THREADS = 128;
constexpr int TM = TILE * TILE / THREADS;  // a thread computes TM elements of a column
static_assert(THREADS >= 2 * TILE);

__global__ void __launch_bounds__(THREADS) sgemm_rows_by_memcpy(Gemm g) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = threadIdx.x % TILE;

  // As many elements of a row as are inside, and zeros.
  const auto fill = [](float* tile, const float* row, int elements) {
    const int inside = max(0, min(elements, TILE));
    memset(tile, 0, TILE * sizeof(float));
    if (inside > 0) memcpy(tile, row, inside * sizeof(float));
  };

  float sums[TM] = {};
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    if (warp == 0) fill(As[i], &A[(row0 + i) * g.lda + k0], row0 + i < g.M ? g.K - k0 : 0);
    if (warp == 1) fill(Bs[i], &B[(k0 + i) * g.ldb + col0], k0 + i < g.K ? g.N - col0 : 0);
    __syncthreads();  // the tiles are complete
    for (int k = 0; k < TILE; ++k) {
      const float b = Bs[k][lane];
      for (int m = 0; m < TM; ++m) sums[m] += As[warp * TM + m][k] * b;
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int m = 0; m < TM; ++m) {
    const int row = row0 + warp * TM + m, col = col0 + lane;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[m] : g.alpha * sums[m] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_rows_by_memcpy, grid, dim3(THREADS), 0, g);
}

}  // namespace
