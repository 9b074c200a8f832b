// The fault: whether a float4 fits was decided by N alone.
//
// A row of B begins at k * ldb: with N = 64 and ldb = 67 the second row begins at word 67, no multiple of 4
// and so of 16 bytes. Leading dimensions, strides of the batch and the addresses themselves count as well;
// is_aligned() of common/step.hpp looks at all of them (K and lda, too, which this kernel could do without).

#include "common/step.hpp"

namespace {

constexpr int TX = 32, TY = 8;  // threads across and down the block's tile of C, which is 4 TX wide
constexpr int THREADS = TX * TY;

__device__ __forceinline__ float4& float4_at(float* p) { return *reinterpret_cast<float4*>(p); }

template <bool WIDE>
__global__ void __launch_bounds__(THREADS) sgemm_strange_matrices(Gemm g) {
  const float* A = g.A + blockIdx.z * g.strideA;  // [M][K]
  const float* B = g.B + blockIdx.z * g.strideB;  // [K][N]
  float* C = g.C + blockIdx.z * g.strideC;        // [M][N]

  const int row = blockIdx.y * TY + threadIdx.y;
  const int col = (blockIdx.x * TX + threadIdx.x) * 4;  // the thread's columns are col .. col + 3
  if (row >= g.M || col >= g.N) return;

  float sums[4] = {};
  for (int k = 0; k < g.K; ++k) {
    const float a = A[row * g.lda + k];
    const float* b = B + k * g.ldb + col;
    if constexpr (WIDE) {
      const float4 v = *reinterpret_cast<const float4*>(b);
      sums[0] += a * v.x;
      sums[1] += a * v.y;
      sums[2] += a * v.z;
      sums[3] += a * v.w;
    } else {
      for (int j = 0; j < 4 && col + j < g.N; ++j) sums[j] += a * b[j];
    }
  }

  float* c = C + row * g.ldc + col;
  if constexpr (WIDE) {
    float4 v = make_float4(g.alpha * sums[0], g.alpha * sums[1], g.alpha * sums[2], g.alpha * sums[3]);
    if (g.beta != 0.0f) {  // beta == 0: C is not read
      const float4 old = float4_at(c);
      v = make_float4(v.x + g.beta * old.x, v.y + g.beta * old.y, v.z + g.beta * old.z, v.w + g.beta * old.w);
    }
    float4_at(c) = v;
  } else {
    for (int j = 0; j < 4 && col + j < g.N; ++j) {
      c[j] = g.beta == 0.0f ? g.alpha * sums[j] : g.alpha * sums[j] + g.beta * c[j];
    }
  }
}

void sgemm(const Gemm& g) {
  const bool wide = is_aligned(g);
  const dim3 grid(ceil_div(g.N, TX * 4), ceil_div(g.M, TY), g.batch);
  launch(wide ? sgemm_strange_matrices<true> : sgemm_strange_matrices<false>, grid, dim3(TX, TY), 0, g);
}

}  // namespace
