#pragma once

// What steps 22 to 24 introduce: floats rounded to TF32, and the places in shared memory of a tile's
// elements.

#include "common/cuda/float4.hpp"
#include "common/cuda/mma.hpp"

// Four floats rounded to TF32, which are floats whose last bits are zero.
__device__ __forceinline__ float4 round4(float4 v) {
  return make_float4(__uint_as_float(to_tf32(v.x)), __uint_as_float(to_tf32(v.y)),
                     __uint_as_float(to_tf32(v.z)), __uint_as_float(to_tf32(v.w)));
}

// Where element k of a row of A lies in that row of a tile [row][32 terms], and element col of a row of B in
// a tile [k][columns]: groups of four change places within 32, and of eight, as the row's number says. Lanes
// that load a fragment for mma_tf32() then find their elements in 32 different banks.
__device__ __forceinline__ int swizzle_128B(int row, int k) { return k ^ row % 8 * 4; }
__device__ __forceinline__ int swizzle_b(int k, int col) { return col ^ k % 4 * 8; }
