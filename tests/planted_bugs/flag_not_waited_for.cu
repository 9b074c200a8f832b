// bug: flag_not_waited_for
// check: data race on global memory
// place: float sum = is_second_half
// check: misuse of a flag
// place: flag_set(&ready[tile]);
// gpu: verify
// cases: --m 35 --n 79 --k 190
//
// Wrong     The sums begin with what the other block hands over, and nobody waits for it.
// Seen      The sums lack half their terms and hold what was in that memory before: in a second run, the
// partial sums
//           of the first one, which are right if the matrices are the same.

#include "common/cuda/grid_flag.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;  // two blocks compute TILE x TILE elements of C, each with half the terms

__global__ void sgemm_flag_not_waited_for(Gemm g, float* partial /* [tile][TILE][TILE] */,
                                          unsigned* ready /* [tile] */) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int tx = threadIdx.x, ty = threadIdx.y;
  const int tile = (blockIdx.z * gridDim.y + blockIdx.y) * (gridDim.x / 2) + blockIdx.x / 2;
  const int row = blockIdx.y * TILE + ty;
  const int col = blockIdx.x / 2 * TILE + tx;
  const bool in_c = row < g.M && col < g.N;
  const bool is_second_half = blockIdx.x % 2 == 0;
  const int begin = is_second_half ? g.K / 2 : 0, end = is_second_half ? g.K : g.K / 2;

  float* part = &partial[(tile * TILE + ty) * TILE + tx];
  float sum = is_second_half ? 0.0f : __ldcg(part);  // BUG: no flag_wait_and_clear() before
  for (int k = begin; in_c && k < end; ++k) {
    sum += A[row * g.lda + k] * B[k * g.ldb + col];
  }

  if (is_second_half) {
    __stcg(part, sum);
    __syncthreads();
    if (tx == 0 && ty == 0) flag_set(&ready[tile]);
    return;
  }

  if (!in_c) return;
  float& c = C[row * g.ldc + col];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;  // beta == 0: C is not read
}

void sgemm(const Gemm& g) {
  static Workspace<float> partial("partial");
  static Workspace<unsigned> ready("ready", Fill::zero);
  const int tiles_m = ceil_div(g.M, TILE), tiles_n = ceil_div(g.N, TILE);
  const std::size_t tiles = std::size_t{1} * tiles_m * tiles_n * g.batch;
  launch(sgemm_flag_not_waited_for, dim3(2 * tiles_n, tiles_m, g.batch), dim3(TILE, TILE), 0, g,
         partial.at_least(tiles * TILE * TILE), ready.at_least(tiles));
}

}  // namespace
