// Two launches for each matrix of the batch, each of which may begin while the one before still runs: one
// transposes A into a workspace, which the other multiplies by B.

#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/workspace.hpp"
#include "common/step.hpp"

namespace {

constexpr int TILE = 16;

__global__ void __launch_bounds__(TILE* TILE) sgemm_transpose_a(Gemm g, int matrix, float* At /* [K][M] */) {
  let_next_launch_begin();
  const int row = blockIdx.y * TILE + threadIdx.y, k = blockIdx.x * TILE + threadIdx.x;
  const bool in_a = row < g.M && k < g.K;
  const float value = in_a ? g.A[matrix * g.strideA + row * g.lda + k] : 0.0f;  // nobody writes A
  wait_for_previous_launch();                                                   // it reads At
  if (in_a) At[k * g.M + row] = value;
}

__global__ void __launch_bounds__(TILE* TILE) sgemm_overlapping(Gemm g, int matrix, const float* At) {
  __shared__ float As[TILE][TILE], Bs[TILE][TILE];  // [k][row], [k][col]
  const float* B = g.B + matrix * g.strideB;
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int row0 = blockIdx.y * TILE, row = row0 + ty, col = blockIdx.x * TILE + tx;
  const bool in_c = row < g.M && col < g.N;
  float* c = g.C + matrix * g.strideC + row * g.ldc + col;
  const float old = in_c && g.beta != 0.0f ? g.beta * *c : 0.0f;  // no other launch touches this matrix
  let_next_launch_begin();
  wait_for_previous_launch();  // A is transposed
  float sum = 0.0f;
  for (int k0 = 0; k0 < g.K; k0 += TILE) {
    As[ty][tx] = k0 + ty < g.K && row0 + tx < g.M ? At[(k0 + ty) * g.M + row0 + tx] : 0.0f;
    Bs[ty][tx] = k0 + ty < g.K && col < g.N ? B[(k0 + ty) * g.ldb + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += As[k][ty] * Bs[k][tx];
    __syncthreads();
  }
  if (in_c) *c = g.alpha * sum + old;
}

void sgemm(const Gemm& g) {
  static Workspace<float> transposed("transposed A");
  float* At = transposed.at_least(static_cast<std::size_t>(g.M) * g.K);
  const dim3 block(TILE, TILE), tiles_of_a(ceil_div(g.K, TILE), ceil_div(g.M, TILE)),
      tiles_of_c(ceil_div(g.N, TILE), ceil_div(g.M, TILE));
  for (int matrix = 0; matrix < g.batch; ++matrix) {
    const LaunchConfig transpose{.grid = tiles_of_a, .block = block, .overlaps_previous = matrix > 0};
    launch(sgemm_transpose_a, transpose, g, matrix, At);
    // Without terms nothing is transposed: the launch before may then be that of an earlier call, which
    // writes C.
    const LaunchConfig multiply{.grid = tiles_of_c, .block = block, .overlaps_previous = g.K > 0};
    launch(sgemm_overlapping, multiply, g, matrix, static_cast<const float*>(At));
  }
}

}  // namespace
