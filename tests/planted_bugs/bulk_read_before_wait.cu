// bug: bulk_read_before_wait
// check: use of shared memory before its asynchronous copy arrived
// place: sums[i] += As[warp * TM + i][k] * b;
// gpu: verify
// cases: --m 64 --n 64 --k 128
//
// Wrong     Thread 0 alone waits for the mbarrier, and the others for nobody: the barrier that lets them know
// stands
//           behind the sums.
// Seen      All other warps compute with what the buffers held before.

#include "common/cuda/bulk_copy.hpp"
#include "common/step.hpp"

namespace {

// M, N and K are multiples of TILE here, and rows begin at multiples of 16 bytes.
constexpr int TILE = 32;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int THREADS = 128;
constexpr int TM = TILE * TILE / THREADS;  // a thread computes TM elements of a column
constexpr int ROW_BYTES = TILE * sizeof(float), TILE_BYTES = TILE * ROW_BYTES;

__global__ void sgemm_bulk_read_before_wait(Gemm g) {
  __shared__ __align__(16) float As[TILE][TILE];  // [row][k]
  __shared__ __align__(16) float Bs[TILE][TILE];  // [k][col]
  __shared__ std::uint64_t full;                  // mbarrier

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  float sums[TM] = {};
  for (int tile = 0; tile < g.K / TILE; ++tile) {
    const int k0 = tile * TILE;
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(&full, 2 * TILE_BYTES);
      for (int i = 0; i < TILE; ++i) {
        bulk_copy(As[i], &A[(row0 + i) * g.lda + k0], ROW_BYTES, &full);
        bulk_copy(Bs[i], &B[(k0 + i) * g.ldb + col0], ROW_BYTES, &full);
      }
      mbarrier_wait(&full, tile % 2);  // BUG: the others have to wait, too
    }
    for (int k = 0; k < TILE; ++k) {
      const float b = Bs[k][lane];
      for (int i = 0; i < TM; ++i) sums[i] += As[warp * TM + i][k] * b;
    }
    __syncthreads();  // nobody needs the tiles any more
  }

  for (int i = 0; i < TM; ++i) {
    float& c = C[(row0 + warp * TM + i) * g.ldc + col0 + lane];
    c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(g.N / TILE, g.M / TILE, g.batch);
  launch(sgemm_bulk_read_before_wait, grid, dim3(THREADS), 0, g);
}

}  // namespace
