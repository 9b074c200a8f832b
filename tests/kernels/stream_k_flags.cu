// Stream-K: one block for each multiprocessor, and the terms of all tiles are split evenly among them. So
// several blocks may work on a tile; the one that has its first terms adds up what the others hand over, and
// writes it.

#include "common/cuda/grid_flag.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // a tile is TILE x TILE elements of C, a unit of work TILE terms of its sums

// The first unit of a block's share, which ends where that of the block before begins: the last block has the
// first units. So a block hands over at the beginning of its share, and waits, if at all, at the end and for
// blocks with lower numbers.
__device__ __forceinline__ std::int64_t first_unit(std::int64_t units, int block) {
  return units * (static_cast<int>(gridDim.x) - 1 - block) / static_cast<int>(gridDim.x);
}

__global__ void __launch_bounds__(TILE* TILE)
    sgemm_stream_k_flags(Gemm g, float* partial /* [block][TILE][TILE] */, unsigned* ready /* [block] */) {
  __shared__ float As[TILE][TILE];  // [row][k]
  __shared__ float Bs[TILE][TILE];  // [k][col]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int block = static_cast<int>(blockIdx.x), own = ty * TILE + tx;
  const int tiles_n = ceil_div(g.N, TILE), tiles_m = ceil_div(g.M, TILE);
  const int units_of_tile = max(ceil_div(g.K, TILE), 1);
  const std::int64_t units = std::int64_t{g.batch} * tiles_m * tiles_n * units_of_tile;
  const std::int64_t end = first_unit(units, block - 1);

  for (std::int64_t unit = first_unit(units, block); unit < end;) {
    const std::int64_t tile = unit / units_of_tile, end_of_tile = (tile + 1) * units_of_tile;
    const std::int64_t matrix = tile / tiles_n / tiles_m;
    const int row = static_cast<int>(tile / tiles_n % tiles_m) * TILE + ty;
    const int col = static_cast<int>(tile % tiles_n) * TILE + tx;
    const float* A = g.A + matrix * g.strideA;  // [M][K]
    const float* B = g.B + matrix * g.strideB;  // [K][N]
    const bool is_first = unit % units_of_tile == 0;

    float sum = 0.0f;
    for (; unit < min(end, end_of_tile); ++unit) {
      const int k0 = static_cast<int>(unit % units_of_tile) * TILE;
      As[ty][tx] = row < g.M && k0 + tx < g.K ? A[row * g.lda + k0 + tx] : 0.0f;
      Bs[ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
      __syncthreads();  // tiles are filled
      for (int k = 0; k < TILE; ++k) sum += As[ty][k] * Bs[k][tx];
      __syncthreads();  // nobody needs the tiles any more
    }

    if (!is_first) {
      __stcg(&partial[block * TILE * TILE + own], sum);
      __syncthreads();  // all of it is written
      if (own == 0) flag_set(&ready[block]);
      continue;
    }
    for (int other = block - 1; first_unit(units, other) < end_of_tile; --other) {
      if (own == 0) flag_wait_and_clear(&ready[other]);
      __syncthreads();  // it is there for all threads
      sum += __ldcg(&partial[other * TILE * TILE + own]);
    }
    if (row >= g.M || col >= g.N) continue;
    float& c = g.C[matrix * g.strideC + row * g.ldc + col];
    c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
  }
}

void sgemm(const Gemm& g) {
  static Workspace<float> partial("partial");
  static Workspace<unsigned> ready("ready", Fill::zero);
  const std::int64_t units =
      std::int64_t{g.batch} * ceil_div(g.M, TILE) * ceil_div(g.N, TILE) * max(ceil_div(g.K, TILE), 1);
  const auto blocks = static_cast<unsigned>(min(units, std::int64_t{multiprocessors()}));
  launch(sgemm_stream_k_flags, dim3(blocks), dim3(TILE, TILE), 0, g, partial.at_least(blocks * TILE * TILE),
         ready.at_least(blocks));
}

}  // namespace
