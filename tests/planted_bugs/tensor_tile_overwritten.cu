// bug: tensor_tile_overwritten
// check: use of shared memory before its asynchronous copy arrived
// place: sums[i] += As[stage][warp * TM + i][k] * b;
// gpu: none (slow warps may miss a phase, and hang)
// cases: --m 64 --n 64 --k 192
//
// Wrong     Two buffers, so that one fills while the other is read. Thread 0 asks for the tile after the
//           next as soon as its own sums are done, into the buffer that slower warps still read.
// Seen      A slow warp reads a mixture of two tiles.

#include "common/cuda/tensor_copy.hpp"
#include "common/step.hpp"

namespace {

// Rows of A and B begin at multiples of 16 bytes here.
constexpr int TILE = 32;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int THREADS = 128;
constexpr int TM = TILE * TILE / THREADS;  // a thread computes TM elements of a column
constexpr int TILE_BYTES = TILE * TILE * sizeof(float);

__global__ void sgemm_tensor_tile_overwritten(Gemm g, const __grid_constant__ TensorMap map_a,
                                              const __grid_constant__ TensorMap map_b) {
  __shared__ __align__(128) float As[2][TILE][TILE];  // [stage][row][k]
  __shared__ __align__(128) float Bs[2][TILE][TILE];  // [stage][k][col]
  __shared__ std::uint64_t full[2];                   // mbarriers

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]

  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE, matrix = blockIdx.z;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    for (std::uint64_t& barrier : full) mbarrier_init(&barrier, 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  const auto ask = [&](int tile) {
    const int stage = tile % 2, k0 = tile * TILE;
    if (threadIdx.x > 0 || k0 >= g.K) return;
    mbarrier_arrive_expect_tx(&full[stage], 2 * TILE_BYTES);
    tensor_copy(As[stage], map_a, k0, row0, matrix, &full[stage]);
    tensor_copy(Bs[stage], map_b, col0, k0, matrix, &full[stage]);
  };

  float sums[TM] = {};
  ask(0);
  ask(1);
  for (int tile = 0; tile < ceil_div(g.K, TILE); ++tile) {
    const int stage = tile % 2;
    mbarrier_wait(&full[stage], tile / 2 % 2);
    for (int k = 0; k < TILE; ++k) {
      const float b = Bs[stage][k][lane];
      for (int i = 0; i < TM; ++i) sums[i] += As[stage][warp * TM + i][k] * b;
    }
    ask(tile + 2);  // BUG: no __syncthreads() before
  }

  for (int i = 0; i < TM; ++i) {
    const int row = row0 + warp * TM + i, col = col0 + lane;
    if (row >= g.M || col >= g.N) continue;
    float& c = C[row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_tensor_tile_overwritten, grid, dim3(THREADS), 0, g,
         tensor_map(g.A, g.M, g.K, g.lda, g.batch, g.strideA, TILE, TILE),
         tensor_map(g.B, g.K, g.N, g.ldb, g.batch, g.strideB, TILE, TILE));
}

}  // namespace
