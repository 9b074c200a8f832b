// Step 03: a block copies tiles of A and B to shared memory and computes from there.
//
// Idea      The 32 x 32 threads of a block need the same 32 rows of A and 32 columns of B. Fetched once
//           into shared memory, a tile at a time, each element serves 32 threads.
// Change    The loop over k goes tile by tile: load, barrier, BK products from shared memory, barrier.
// Bound     The number of global loads falls by a factor of 32 (not the traffic to memory: the L1 cache
//           had caught the reuse before), but every product still needs a fresh element of B from shared
//           memory, and an SM serves at most one warp's load per cycle while its four schedulers could
//           start four FFMAs: less than 1/4 of the peak. (A costs less than the source suggests: nvcc
//           unrolls the loop over k and reads four elements of a row of As with one load of 128 bits,
//           LDS.128.)

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C ...
constexpr int BK = 128;   // ... BK terms of the sums at a time; deeper tiles mean fewer barriers
constexpr int THREADS = TILE * TILE;

// Two blocks per SM, for which nvcc keeps to 32 registers per thread: one computes while the other loads.
__global__ void __launch_bounds__(THREADS, 2) sgemm_shared_memory(Gemm g) {
  __shared__ float As[TILE][BK];  // [row][k]
  __shared__ float Bs[BK][TILE];  // [k][col]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  const float* a = A + row * g.lda + tx;  // the first element that this thread copies; others lie TILE apart
  const float* b = B + ty * g.ldb + col;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += BK, a += BK, b += BK * g.ldb) {
    // Zeros beyond the edges: they add nothing to the sums.
    const int left = g.K - k0;
    for (int i = 0; i < BK; i += TILE) {
      As[ty][tx + i] = row < g.M && tx + i < left ? a[i] : 0.0f;
      Bs[ty + i][tx] = ty + i < left && col < g.N ? b[i * g.ldb] : 0.0f;
    }
    __syncthreads();  // the tiles are complete

#pragma unroll
    for (int k = 0; k < BK; ++k) {
      sum += As[ty][k] * Bs[k][tx];
    }
    __syncthreads();  // nobody needs the tiles any more
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
