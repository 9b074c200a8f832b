#pragma once

// What steps 06, 07, 09, 11 and 12 introduce: four floats at a time, the layout of a thread's tile in such
// groups, copying them asynchronously, and asking for their registers.

#include "common/cuda/async_copy.hpp"
#include "common/step.hpp"

// The float4 that begins at p, a multiple of 16 bytes.
__device__ __forceinline__ float4& float4_at(float* p) { return *reinterpret_cast<float4*>(p); }

// The same from shared memory, loaded where the program says so: step 12. The compiler may defer other loads
// until just before their first use, to save registers.
__device__ __forceinline__ float4 load4_now(const float* p) {
#ifdef __CUDACC__
  float4 v;
  asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))));
  return v;
#else
  return *reinterpret_cast<const float4*>(p);
#endif
}

// One float, likewise: step 38.
__device__ __forceinline__ float load_now(const float* p) {
#ifdef __CUDACC__
  float v;
  asm volatile("ld.volatile.shared.f32 %0, [%1];"
               : "=f"(v)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(p))));
  return v;
#else
  return *p;
#endif
}

// Four neighbours in a row, of which only the first `valid` exist; zeros for the others. ALIGNED: p is a
// multiple of 16 bytes, and all four exist or none.
template <bool ALIGNED>
__device__ __forceinline__ float4 load4(const float* p, int valid) {
  if constexpr (ALIGNED) {
    return valid > 0 ? *reinterpret_cast<const float4*>(p) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  } else {
    return make_float4(valid > 0 ? p[0] : 0.0f, valid > 1 ? p[1] : 0.0f, valid > 2 ? p[2] : 0.0f,
                       valid > 3 ? p[3] : 0.0f);
  }
}

// c = alpha * sum + beta * c. beta == 0: c is not read.
__device__ __forceinline__ void update(float& c, float sum, float alpha, float beta) {
  c = beta == 0.0f ? alpha * sum : alpha * sum + beta * c;
}

// update() for four neighbours, of which only the first `valid` exist.
template <bool ALIGNED>
__device__ __forceinline__ void update4(float* c, int valid, const float* sums, float alpha, float beta) {
  if constexpr (ALIGNED) {
    if (valid <= 0) return;
    float4 v;
    if (beta != 0.0f) v = float4_at(c);
    update(v.x, sums[0], alpha, beta);
    update(v.y, sums[1], alpha, beta);
    update(v.z, sums[2], alpha, beta);
    update(v.w, sums[3], alpha, beta);
    float4_at(c) = v;
  } else {
    for (int j = 0; j < 4; ++j) {
      if (j < valid) update(c[j], sums[j], alpha, beta);
    }
  }
}

// Asks the compiler for the registers of column j of a thread's sums. Called in a branch that never runs,
// though the compiler cannot know that: step 11. Four sums that one instruction stores must lie in four
// registers side by side, from a multiple of 4 on. So the order in which each four of the column are stored,
// from sums[i + FIRST] to sums[i + FOURTH], decides which of them get even registers and which odd ones.
template <int FIRST, int SECOND, int THIRD, int FOURTH, int TM, int TN>
__device__ __forceinline__ void request_registers(float* C, const float (&sums)[TM][TN], int j, int threads) {
#pragma unroll
  for (int i = 0; i < TM; i += 4) {
    float4_at(&C[(j * TM + i) * threads + threadIdx.x * 4]) =
        make_float4(sums[i + FIRST][j], sums[i + SECOND][j], sums[i + THIRD][j], sums[i + FOURTH][j]);
  }
}

// Starts copying four neighbours in a row, of which only the first `valid` exist; zeros for the others.
// ALIGNED: both addresses are multiples of 16 bytes, and all four exist or none.
template <bool ALIGNED>
__device__ __forceinline__ void copy4(float* shared, const float* global, int valid) {
  if constexpr (ALIGNED) {
    async_copy<16>(shared, global, valid > 0);
  } else {
    for (int j = 0; j < 4; ++j) async_copy<4>(shared + j, global + j, j < valid);
  }
}

// Where a thread's i-th row or column lies: in groups of 4 neighbours, `apart` from one to the next.
__host__ __device__ constexpr int spread(int i, int apart) { return i / 4 * apart + i % 4; }
