#pragma once

// Two neighbouring floats in one access, as a lane holds them in the tensor cores' operands and results.

#include "common/cuda/float4.hpp"

// The float2 that begins at p, a multiple of 8 bytes.
__device__ __forceinline__ float2& float2_at(float* p) { return *reinterpret_cast<float2*>(p); }

// update4() for two elements: c[i] = alpha * sum + beta * c[i] for the first `valid` of them. ALIGNED: c is a
// multiple of 8 bytes, and both exist or none.
template <bool ALIGNED>
__device__ __forceinline__ void update2(float* c, int valid, float sum0, float sum1, float alpha,
                                        float beta) {
  if constexpr (ALIGNED) {
    if (valid <= 0) return;
    float2 v;
    if (beta != 0.0f) v = float2_at(c);
    update(v.x, sum0, alpha, beta);
    update(v.y, sum1, alpha, beta);
    float2_at(c) = v;
  } else {
    if (valid > 0) update(c[0], sum0, alpha, beta);
    if (valid > 1) update(c[1], sum1, alpha, beta);
  }
}
