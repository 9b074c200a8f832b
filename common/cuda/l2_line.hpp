#pragma once

// Loads that say how much of memory comes into the L2 with them.

#include "common/step.hpp"

// *p, from global memory. Where the L2 has to fetch it, the aligned 128 bytes around it come along: for data
// of which other blocks soon need the rest. Without that only sectors of 32 bytes come. PTX ISA, "ld"
// (.L2::128B); it is a hint, and changes no result.
__device__ __forceinline__ float load_with_l2_line(const float* p) {
#ifdef __CUDACC__
  float v;
  asm volatile("ld.global.L2::128B.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
#else
  return *p;
#endif
}
__device__ __forceinline__ float4 load_with_l2_line(const float4* p) {
#ifdef __CUDACC__
  float4 v;
  asm volatile("ld.global.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "l"(p));
  return v;
#else
  return *p;
#endif
}
