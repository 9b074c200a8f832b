// bug: padded_tile_too_small
// check: out-of-bounds access to shared memory
// place: a[ty * PITCH + tx] = row < g.M
// gpu: verify, memcheck
// cases: --m 35 --n 79 --k 19
//
// Wrong     Rows of the tile of A were moved apart to avoid bank conflicts; its memory was not made larger.
// Seen      The last rows lie behind the shared memory that the kernel asked for. As shared memory is given
//           out in larger pieces, a small overrun may meet nobody; this one ends in "an illegal memory
//           access".

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int PITCH = TILE + 16;  // elements from one row of the tile of A to the next

__global__ void sgemm_padded_tile_too_small(Gemm g) {
  __shared__ float tiles[TILE * TILE + TILE * TILE];  // BUG: PITCH * TILE for A

  float* b = tiles;                // [TILE][TILE], [k][col]
  float* a = tiles + TILE * TILE;  // [TILE][PITCH], [row][k]

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x * TILE + tx;

  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    a[ty * PITCH + tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
    b[ty * TILE + tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();  // the tiles are complete

    for (int k = 0; k < TILE; ++k) {
      sum += a[ty * PITCH + k] * b[k * TILE + tx];
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
  launch(sgemm_padded_tile_too_small, grid, block, 0, g);
}

}  // namespace
