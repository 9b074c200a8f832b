// The fault: a thread's four columns lay side by side, so that its neighbour's were four away.
//
// What counts is what the 32 lanes of a warp do with one instruction: for one j they stored every fourth
// element of a row, a quarter of each sector, four times over; and they read every fourth word of Bs, which
// lie in 8 of the 32 banks. Now lane and column go together, and a thread's columns are TX apart.

#include "common/step.hpp"

namespace {

constexpr int BM = 8, BN = 128, BK = 32;  // the block's tile: BM x BN of C, BK terms at a time
constexpr int TN = 4;                     // the thread's tile: 1 x TN of C
constexpr int TX = BN / TN;               // threads across the tile: a warp to a row
constexpr int THREADS = BM * TX;
static_assert(TX == 32 && TX == BK, "a thread copies one element of A; a warp copies rows of B");

__global__ void __launch_bounds__(THREADS) sgemm_four_times_the_traffic(Gemm g) {
  __shared__ float As[BM][BK];  // [row][k]
  __shared__ float Bs[BK][BN];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * BM + ty;
  const int col0 = blockIdx.x * BN;

  float sums[TN] = {};
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    // Zeros beyond the edges: they add nothing to the sums.
    As[ty][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    for (int k = ty; k < BK; k += BM) {
      for (int j = tx; j < BN; j += TX) {
        Bs[k][j] = k0 + k < g.K && col0 + j < g.N ? B[(k0 + k) * g.ldb + col0 + j] : 0.0f;
      }
    }
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < BK; ++k) {
      const float a = As[ty][k];
      for (int j = 0; j < TN; ++j) sums[j] += a * Bs[k][tx + j * TX];
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int j = 0; j < TN; ++j) {
    const int col = col0 + tx + j * TX;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[j] : g.alpha * sums[j] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, BN), ceil_div(g.M, BM), g.batch);
  launch(sgemm_four_times_the_traffic, grid, dim3(TX, BM), 0, g);
}

}  // namespace
