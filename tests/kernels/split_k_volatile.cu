// Split-K with a flag made by hand, of volatile accesses and fences: of two blocks that share a tile of C,
// one hands over its partial sums through global memory and sets the flag; the other reads the flag until it
// is set, adds the sums to its own and writes C.

#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // two blocks compute TILE x TILE elements of C, each with half the terms

__global__ void sgemm_split_k_volatile(Gemm g, float* partial /* [tile][TILE][TILE] */,
                                       volatile unsigned* ready /* [tile] */) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int tile = (blockIdx.z * gridDim.y + blockIdx.y) * (gridDim.x / 2) + blockIdx.x / 2;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x / 2 * TILE + tx;
  const bool in_c = row < g.M && col < g.N;
  const bool hands_over = blockIdx.x % 2 == 0;  // the block with the lower number: it waits for nobody
  const int begin = hands_over ? g.K / 2 : 0, end = hands_over ? g.K : g.K / 2;

  float sum = 0.0f;
  for (int k = begin; in_c && k < end; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  float* part = &partial[(tile * TILE + ty) * TILE + tx];
  if (hands_over) {
    __stcg(part, sum);
    __syncthreads();  // all partial sums are written
    if (tx == 0 && ty == 0) {
      __threadfence();
      ready[tile] = 1;
    }
    return;
  }
  if (tx == 0 && ty == 0) {
    while (ready[tile] == 0) {
    }
    ready[tile] = 0;  // for the next launch
    __threadfence();
  }
  __syncthreads();  // they are there for all threads
  sum += __ldcg(part);

  if (!in_c) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  static Workspace<float> partial("partial");
  static Workspace<unsigned> ready("ready", Fill::zero);
  const int tiles_m = ceil_div(g.M, TILE), tiles_n = ceil_div(g.N, TILE);
  const std::size_t tiles = std::size_t{1} * tiles_m * tiles_n * g.batch;
  launch(sgemm_split_k_volatile, dim3(2 * tiles_n, tiles_m, g.batch), dim3(TILE, TILE), 0, g,
         partial.at_least(tiles * TILE * TILE), ready.at_least(tiles));
}

}  // namespace
