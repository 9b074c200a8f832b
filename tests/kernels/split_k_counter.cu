// Split-K with a counter: the blocks that share a tile of C hand over their partial sums through global
// memory and count; whoever comes last adds them up, writes C and makes the counter zero again.

#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16, SPLITS = 3;  // so many blocks compute TILE x TILE elements of C

__global__ void __launch_bounds__(TILE* TILE)
    sgemm_split_k_counter(Gemm g, float* partial /* [tile][split][TILE][TILE] */,
                          unsigned* count /* [tile] */) {
  __shared__ bool is_last;
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y, split = blockIdx.x % SPLITS;
  const int row = blockIdx.y * TILE + ty, col = blockIdx.x / SPLITS * TILE + tx;
  const int tile = (blockIdx.z * gridDim.y + blockIdx.y) * (gridDim.x / SPLITS) + blockIdx.x / SPLITS;
  const bool in_c = row < g.M && col < g.N;
  const int terms = ceil_div(g.K, SPLITS);

  float sum = 0.0f;
  for (int k = split * terms; in_c && k < min(g.K, (split + 1) * terms); ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }
  float* sums = &partial[(tile * SPLITS * TILE + ty) * TILE + tx];
  __stcg(&sums[split * TILE * TILE], sum);
  __threadfence();
  __syncthreads();  // all partial sums of this block are written
  if (tx == 0 && ty == 0) {
    is_last = atomicAdd(&count[tile], 1u) == SPLITS - 1;
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;

  if (tx == 0 && ty == 0) atomicExch(&count[tile], 0u);  // for the next call
  if (!in_c) return;
  sum = 0.0f;
  for (int other = 0; other < SPLITS; ++other) sum += __ldcg(&sums[other * TILE * TILE]);
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

void sgemm(const Gemm& g) {
  static Workspace<float> partial("partial");
  static Workspace<unsigned> count("count", Fill::zero);
  const int tiles_m = ceil_div(g.M, TILE), tiles_n = ceil_div(g.N, TILE);
  const std::size_t tiles = std::size_t{1} * tiles_m * tiles_n * g.batch;
  launch(sgemm_split_k_counter, dim3(SPLITS * tiles_n, tiles_m, g.batch), dim3(TILE, TILE), 0, g,
         partial.at_least(tiles * SPLITS * TILE * TILE), count.at_least(tiles));
}

}  // namespace
