// The fault: 32 lanes stored to one column of As, whose words all lie in the same bank.
//
// A row of TILE = 32 floats takes all 32 banks once, so the words of a column share a bank: a store took 32
// passes. With one float more to a row, the words of a column lie one bank on from each other.
// (Not transposing A would do as well in this kernel, where no float4 asks for a column.)

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C, TILE terms at a time
constexpr int THREADS = TILE * TILE;

__global__ void __launch_bounds__(THREADS) sgemm_slow_transpose(Gemm g) {
  __shared__ float As[TILE][TILE + 1];  // [k][row]: A transposed; each row one bank on from the one before
  __shared__ float Bs[TILE][TILE];      // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    // Zeros beyond the edges: they add nothing to the sums.
    As[tx][ty] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < TILE; ++k) sum += As[k][ty] * Bs[k][tx];
    __syncthreads();  // nobody needs the tiles any more
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_slow_transpose, grid, dim3(TILE, TILE), 0, g);
}

}  // namespace
