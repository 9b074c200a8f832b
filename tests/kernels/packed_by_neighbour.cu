// Of two blocks one packs the columns of B that the other needs, in global memory, and sets a flag; the other
// waits for the flag and brings what has been packed to shared memory by bulk copies. All in one launch: what
// a block has written needs a fence before copies of another read it.
//
// Needs     sm_90+: mbarriers, bulk copies

#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/grid_flag.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 32;  // every second block computes TILE x TILE elements of C, TILE terms at a time
constexpr int THREADS = 128;
constexpr int TM = TILE * TILE / THREADS;  // a thread computes TM elements of a column
constexpr int TILE_FLOATS = TILE * TILE, TILE_BYTES = TILE_FLOATS * sizeof(float);

__global__ void __launch_bounds__(THREADS)
    sgemm_packed_by_neighbour(Gemm g, float* packed /* [tile of C][k / TILE][k % TILE][col] */,
                              unsigned* ready /* [tile of C] */) {
  __shared__ float As[TILE][TILE];                 // [row][k]
  __shared__ __align__(128) float Bs[TILE][TILE];  // [k][col]
  __shared__ std::uint64_t full;

  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, steps = ceil_div(g.K, TILE);
  const int row0 = blockIdx.y * TILE, col0 = blockIdx.x / 2 * TILE;
  const int tile = (blockIdx.z * gridDim.y + blockIdx.y) * (gridDim.x / 2) + blockIdx.x / 2;
  packed += std::int64_t{tile} * steps * TILE_FLOATS;

  if (blockIdx.x % 2 == 0) {  // the block with the lower number: it waits for nobody
    for (int i = threadIdx.x; i < steps * TILE_FLOATS; i += THREADS) {
      const int k = i / TILE, col = col0 + i % TILE;
      packed[i] = k < g.K && col < g.N ? B[k * g.ldb + col] : 0.0f;
    }
    fence_async_proxy_global();  // what this thread has packed is there for copies
    __syncthreads();
    if (threadIdx.x == 0) flag_set(&ready[tile]);
    return;
  }

  if (threadIdx.x == 0) {
    mbarrier_init(&full, 1);
    mbarrier_fence_init();
    flag_wait_and_clear(&ready[tile]);
  }
  __syncthreads();

  float sums[TM] = {};
  for (int step = 0; step < steps; ++step) {
    if (threadIdx.x == 0) {
      mbarrier_arrive_expect_tx(&full, TILE_BYTES);
      bulk_copy(Bs, packed + step * TILE_FLOATS, TILE_BYTES, &full);
    }
    for (int i = threadIdx.x; i < TILE_FLOATS; i += THREADS) {
      const int y = i / TILE, k = step * TILE + i % TILE;
      As[y][i % TILE] = row0 + y < g.M && k < g.K ? A[(row0 + y) * g.lda + k] : 0.0f;
    }
    __syncthreads();
    mbarrier_wait(&full, step % 2);
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
  static Workspace<float> packed("packed");
  static Workspace<unsigned> ready("ready", Fill::zero);
  const int tiles_m = ceil_div(g.M, TILE), tiles_n = ceil_div(g.N, TILE);
  const std::size_t tiles = std::size_t{1} * tiles_m * tiles_n * g.batch;
  launch(sgemm_packed_by_neighbour, dim3(2 * tiles_n, tiles_m, g.batch), dim3(THREADS), 0, g,
         packed.at_least(tiles * ceil_div(g.K, TILE) * TILE_FLOATS), ready.at_least(tiles));
}

}  // namespace
