// cheat: no_tiles_shared_by_neighbours: the same, and all lanes load the same from shared memory
// exercise: 08_warp_tiling
// code: goal
// says: products or more

#include "common/step.hpp"

namespace {

constexpr int TX = 4, TY = 64;

__device__ __forceinline__ float4& float4_at(float* p) { return *reinterpret_cast<float4*>(p); }

// No tiles at all: everything comes from global memory. As and Bs are decoys.
template <bool ALIGNED>
__global__ void sgemm_cheat(Gemm g) {
  __shared__ __align__(16) float As[32], Bs[32];
  if (threadIdx.y < 2) {
    float4_at(&As[(threadIdx.y * 4 + threadIdx.x) * 4]) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4_at(&Bs[(threadIdx.y * 4 + threadIdx.x) * 4]) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  __syncthreads();
  const float* A = g.A + blockIdx.z * g.strideA;
  const float* B = g.B + blockIdx.z * g.strideB;
  float* C = g.C + blockIdx.z * g.strideC;
  const int row = blockIdx.y * TY + threadIdx.y;
  const int col = blockIdx.x * TX * 4 + threadIdx.x * 4;
  if (row >= g.M || col >= g.N) return;
  if constexpr (ALIGNED) {
    const float4 x = float4_at(&As[0]), y = float4_at(&Bs[0]);
    float s0 = x.x + y.x, s1 = x.y, s2 = x.z, s3 = x.w;
    for (int k = 0; k < g.K; k += 4) {
      const float4 a = *reinterpret_cast<const float4*>(&A[row * g.lda + k]);
      const float as[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 b = *reinterpret_cast<const float4*>(&B[(k + i) * g.ldb + col]);
        s0 += as[i] * b.x;
        s1 += as[i] * b.y;
        s2 += as[i] * b.z;
        s3 += as[i] * b.w;
      }
    }
    float4 v = make_float4(g.alpha * s0, g.alpha * s1, g.alpha * s2, g.alpha * s3);
    if (g.beta != 0.0f) {
      const float4 old = float4_at(&C[row * g.ldc + col]);
      v = make_float4(v.x + g.beta * old.x, v.y + g.beta * old.y, v.z + g.beta * old.z, v.w + g.beta * old.w);
    }
    float4_at(&C[row * g.ldc + col]) = v;
  } else {
    for (int j = col; j < col + 4 && j < g.N; ++j) {
      float sum = 0.0f;
      for (int k = 0; k < g.K; ++k) sum += A[row * g.lda + k] * B[k * g.ldb + j];
      float& c = C[row * g.ldc + j];
      c = g.beta == 0.0f ? g.alpha * sum : g.alpha * sum + g.beta * c;
    }
  }
}

void sgemm(const Gemm& g) {
  const dim3 grid(ceil_div(g.N, TX * 4), ceil_div(g.M, TY), g.batch);
  launch(is_aligned(g) ? sgemm_cheat<true> : sgemm_cheat<false>, grid, dim3(TX, TY), 0, g);
}

}  // namespace
