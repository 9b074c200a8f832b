// One thread asks for the rows of both tiles by bulk copies, and all threads wait for them at one mbarrier.
// Where rows do not begin at multiples of 16 bytes, and at the edges, the threads load the tiles themselves.
//
// Needs     sm_90+: mbarriers, bulk copies

#include "common/cuda/bulk_copy.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a block computes TILE x TILE elements of C, TILE terms of the sums at a time
constexpr int THREADS = 128;
constexpr int TM = TILE * TILE / THREADS;  // a thread computes TM elements of a column
constexpr int ROW_BYTES = TILE * sizeof(float), TILE_BYTES = TILE * ROW_BYTES;

__global__ void __launch_bounds__(THREADS) sgemm_bulk_tiles(Gemm g, bool aligned) {
  __shared__ __align__(16) float As[TILE][TILE];  // [row][k]
  __shared__ __align__(16) float Bs[TILE][TILE];  // [k][col]
  __shared__ std::uint64_t full;                  // mbarrier

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x * TILE;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const bool copies = aligned && row0 + TILE <= g.M && col0 + TILE <= g.N;

  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  float sums[TM] = {};
  for (int tile = 0; tile * TILE < g.K; ++tile) {
    const int k0 = tile * TILE;
    if (copies && k0 + TILE <= g.K) {
      if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 2 * TILE_BYTES);
        for (int i = 0; i < TILE; ++i) {
          bulk_copy(As[i], &A[(row0 + i) * g.lda + k0], ROW_BYTES, &full);
          bulk_copy(Bs[i], &B[(k0 + i) * g.ldb + col0], ROW_BYTES, &full);
        }
      }
      mbarrier_wait(&full, tile % 2);
    } else {
      for (int i = threadIdx.x; i < TILE * TILE; i += THREADS) {
        const int y = i / TILE, x = i % TILE;
        As[y][x] = row0 + y < g.M && k0 + x < g.K ? A[(row0 + y) * g.lda + k0 + x] : 0.0f;
        Bs[y][x] = k0 + y < g.K && col0 + x < g.N ? B[(k0 + y) * g.ldb + col0 + x] : 0.0f;
      }
      __syncthreads();  // the tiles are complete
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
  launch(sgemm_bulk_tiles, grid, dim3(THREADS), 0, g, is_aligned(g));
}

}  // namespace
