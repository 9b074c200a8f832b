#pragma once

// What the files of the tests' kernels share. Included by these only: it is in their unnamed namespaces.

#include "tests/unit/cpu_kernels.hpp"

// All shared variables start at multiples of 64 bytes, so that there is a gap after those that end between.
#define SHARED __shared__ __align__(64)

namespace {

__device__ unsigned thread_number() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ unsigned threads_per_block() { return blockDim.x * blockDim.y * blockDim.z; }
__device__ unsigned block_number() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }

// The last thread of the last block, which does what is wrong in kernels with several, unless they say
// otherwise.
__device__ bool is_last() {
  return block_number() == gridDim.x * gridDim.y * gridDim.z - 1 &&
         thread_number() == threads_per_block() - 1;
}

}  // namespace
