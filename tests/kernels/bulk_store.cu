// The epilogue goes through shared memory: a bulk copy brings the rows of the old C, the threads add what
// they have computed, and bulk stores take them to C. A block computes two tiles of C, one after the other,
// and both go through the same buffer. Where rows do not begin at multiples of 16 bytes, and at the edges,
// the threads load and store C themselves.
//
// Needs     sm_90+: mbarriers, bulk copies

#include "common/cuda/bulk_store.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // a tile of C is TILE x TILE elements; TILE terms of the sums at a time
constexpr int TILES = 2;  // which a block computes, side by side
constexpr int THREADS = 128;
constexpr int TM = TILE * TILE / THREADS;  // a thread computes TM elements of a column
constexpr int ROW_BYTES = TILE * sizeof(float);

__global__ void __launch_bounds__(THREADS) sgemm_bulk_store(Gemm g, bool aligned) {
  __shared__ float As[TILE][TILE];                // [row][k]
  __shared__ float Bs[TILE][TILE];                // [k][col]
  __shared__ __align__(16) float Cs[TILE][TILE];  // [row][col]
  __shared__ std::uint64_t full;                  // mbarrier: the old C has come

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row0 = blockIdx.y * TILE, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int copied = 0;  // tiles of the old C

  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_fence_init();
  }
  __syncthreads();

  for (int tile = 0; tile < TILES; ++tile) {
    const int col0 = (blockIdx.x * TILES + tile) * TILE;
    const bool in_bulk = aligned && row0 + TILE <= g.M && col0 + TILE <= g.N;
    const bool copies = in_bulk && g.beta != 0.0f;  // beta == 0: C is not read
    if (in_bulk) {
      if (threadIdx.x == 0) bulk_store_wait_read<0>();
      __syncthreads();  // Cs may be written to
    }
    if (copies && threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(&full, TILE * ROW_BYTES);
      for (int i = 0; i < TILE; ++i) bulk_copy(Cs[i], &C[(row0 + i) * g.ldc + col0], ROW_BYTES, &full);
    }

    float sums[TM] = {};
    for (int k0 = 0; k0 < g.K; k0 += TILE) {
      for (int i = threadIdx.x; i < TILE * TILE; i += THREADS) {
        const int y = i / TILE, x = i % TILE;
        As[y][x] = row0 + y < g.M && k0 + x < g.K ? A[(row0 + y) * g.lda + k0 + x] : 0.0f;
        Bs[y][x] = k0 + y < g.K && col0 + x < g.N ? B[(k0 + y) * g.ldb + col0 + x] : 0.0f;
      }
      __syncthreads();  // the tiles are complete
      for (int k = 0; k < TILE; ++k) {
        const float b = Bs[k][lane];
        for (int i = 0; i < TM; ++i) sums[i] += As[warp * TM + i][k] * b;
      }
      __syncthreads();  // nobody needs the tiles any more
    }

    if (copies) mbarrier_wait(&full, copied++ % 2);
    for (int i = 0; i < TM; ++i) {
      const int y = warp * TM + i, row = row0 + y, col = col0 + lane;
      if (in_bulk) {
        Cs[y][lane] = copies ? g.alpha * sums[i] + g.beta * Cs[y][lane] : g.alpha * sums[i];
      } else if (row < g.M && col < g.N) {
        float& c = C[row * g.ldc + col];
        c = g.beta == 0.0f ? g.alpha * sums[i] : g.alpha * sums[i] + g.beta * c;
      }
    }
    if (!in_bulk) continue;
    fence_async_proxy();  // what the threads have written is there for the stores, and for the next copy
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int i = 0; i < TILE; ++i) bulk_store(&C[(row0 + i) * g.ldc + col0], Cs[i], ROW_BYTES);
      bulk_store_commit();
    }
  }
  if (threadIdx.x == 0) bulk_store_wait_read<0>();  // shared memory may go
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILES * TILE), ceil_div(g.M, TILE), g.batch);
  launch(sgemm_bulk_store, grid, dim3(THREADS), 0, g, is_aligned(g));
}

}  // namespace
