// bug: tensor_read_before_wait
// check: use of shared memory before its asynchronous copy arrived
// place: sums[i] += As[warp * TM + i][k] * b;
// gpu: verify
// cases: --m 64 --n 64 --k 128
//
// Wrong     Thread 0 asks for the tiles and waits until they have come. The other threads wait for nobody
//           before they compute.
// Seen      All other warps compute with what the buffers held before.

#include "common/cuda/tensor_copy.hpp"
#include "common/step.hpp"

namespace {

// Rows of A and B begin at multiples of 16 bytes here.
constexpr int TILE = 32;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int THREADS = 128;
constexpr int TM = TILE * TILE / THREADS;  // a thread computes TM elements of a column
constexpr int TILE_BYTES = TILE * TILE * sizeof(float);

__global__ void sgemm_tensor_read_before_wait(Gemm g, const __grid_constant__ TensorMap map_a,
                                              const __grid_constant__ TensorMap map_b) {
  __shared__ __align__(128) float As[TILE][TILE];  // [row][k]
  __shared__ __align__(128) float Bs[TILE][TILE];  // [k][col]
  __shared__ std::uint64_t full;                   // mbarrier

  float* C = g.C + blockIdx.z * g.strideC;  // [M][N]

  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE, matrix = blockIdx.z;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  float sums[TM] = {};
  for (int tile = 0; tile < ceil_div(g.K, TILE); ++tile) {
    const int k0 = tile * TILE;
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(&full, 2 * TILE_BYTES);
      tensor_copy(As, map_a, k0, row0, matrix, &full);
      tensor_copy(Bs, map_b, col0, k0, matrix, &full);
      mbarrier_wait(&full, tile % 2);  // BUG: the others have to wait, too
    }
    for (int k = 0; k < TILE; ++k) {
      const float b = Bs[k][lane];
      for (int i = 0; i < TM; ++i) sums[i] += As[warp * TM + i][k] * b;
    }
    __syncthreads();  // nobody needs the tiles any more
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
  launch(sgemm_tensor_read_before_wait, grid, dim3(THREADS), 0, g,
         tensor_map(g.A, g.M, g.K, g.lda, g.batch, g.strideA, TILE, TILE),
         tensor_map(g.B, g.K, g.N, g.ldb, g.batch, g.strideB, TILE, TILE));
}

}  // namespace
