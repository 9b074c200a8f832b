#pragma once

// What steps 22 and 23 introduce: floats rounded to TF32, and swizzled tiles in shared memory.

#include "common/cuda/float4.hpp"
#include "common/cuda/mma.hpp"

// Four floats rounded to TF32: floats whose last 13 bits are zero.
__device__ __forceinline__ float4 round4(float4 v) {
  return make_float4(__uint_as_float(to_tf32(v.x)), __uint_as_float(to_tf32(v.y)),
                     __uint_as_float(to_tf32(v.z)), __uint_as_float(to_tf32(v.w)));
}

// Where an element lies in its row, so that lanes that load a fragment for mma_tf32() find theirs in 32
// different banks. swizzle_128B() is of rows of 32 floats, the 128-byte swizzle: group of four g of a row
// lies where group g XOR row % 8 would. swizzle_b() is of a tile of B [k][columns]: groups of eight likewise,
// by k % 4.
__device__ __forceinline__ int swizzle_128B(int row, int col) { return col ^ row % 8 * 4; }
__device__ __forceinline__ int swizzle_b(int k, int col) { return col ^ k % 4 * 8; }
