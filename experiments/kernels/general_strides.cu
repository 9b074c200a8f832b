// A kernel for matrices whose rows and columns both have a stride, as in tensor libraries: rebuilt from the
// description by the author of a ladder on an RTX 3050. Otherwise step 02. STRIDES = 0 takes columns to
// be neighbours, as all steps do.

#include "common/step.hpp"

namespace {

constexpr int TILE = 32;     // a block computes TILE x TILE elements of C
constexpr int UNROLLED = 1;  // terms in a round of the loop
constexpr int STRIDES = 1;   // 1: strides of columns, known at the launch only
constexpr int THREADS = TILE * TILE;

struct ColumnStrides {
  std::int64_t A, B, C;
};

__global__ void __launch_bounds__(THREADS) sgemm_general_strides(Gemm g, ColumnStrides given) {
  const ColumnStrides apart = STRIDES ? given : ColumnStrides{1, 1, 1};
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TILE + threadIdx.y;
  const int col = blockIdx.x * TILE + threadIdx.x;
  if (row >= g.M || col >= g.N) return;

  float sum = 0.0f;
#pragma unroll UNROLLED
  for (int k = 0; k < g.K; ++k) {
    sum += A[row * g.lda + k * apart.A] * B[k * g.ldb + col * apart.B];
  }

  float& c = C[row * g.ldc + col * apart.C];
  c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TILE), ceil_div(g.M, TILE), g.batch);
  const std::int64_t one = g.batch > 0 ? 1 : 0;  // the compiler cannot know
  launch(sgemm_general_strides, grid, dim3(TILE, TILE), 0, g, ColumnStrides{one, one, one});
}

}  // namespace
