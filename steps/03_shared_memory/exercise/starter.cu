// Exercise 03: a block copies tiles of A and B to shared memory and computes from there.
//
// Now every thread loads all that it needs from global memory, and 32 threads load the same elements.
// Have the block fetch a tile of A and one of B together, once, and let all threads compute from them.
// Five places are marked TODO. Put in both barriers, and leave the test for the edges of C at the end.

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C ...
constexpr int BK = 128;   // ... BK terms of the sums at a time; deeper tiles mean fewer barriers
constexpr int THREADS = TILE * TILE;

// Two blocks to an SM, for which nvcc keeps to 32 registers a thread: one computes while the other loads.
__global__ void __launch_bounds__(THREADS, 2) sgemm_shared_memory(Gemm g) {
  // TODO 1: two tiles in shared memory: As, TILE rows of BK terms, and Bs, BK terms of TILE columns.

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += BK) {
    const int left = min(g.K - k0, BK);
    // TODO 2: copy the tiles, whose terms begin at k0. Each thread copies BK / TILE elements of A and of B;
    // beyond the edges of A and B store zeros, which add nothing.
    // TODO 3: nobody may go on before the tiles are complete.

    // TODO 4: compute from the tiles, all BK terms of them; then no test of the edges is needed here.
    for (int k = 0; k < left && row < g.M && col < g.N; ++k) {
      sum += A[row * g.lda + k0 + k] * B[(k0 + k) * g.ldb + col];
    }
    // TODO 5: nobody may overwrite a tile that others still read.
  }

  if (row >= g.M || col >= g.N) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const dim3 block(TILE, TILE);
  launch(sgemm_shared_memory, grid, block, 0, g);
}

}  // namespace
