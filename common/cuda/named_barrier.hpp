#pragma once

// Barriers for some warps of a block (bar.sync and bar.arrive with a number and a count). A block has 16 of
// them; number 0 is that of __syncthreads(). A barrier opens when as many threads have arrived as the
// count says, and starts anew. All lanes of a warp must arrive together, so the count is a multiple of 32;
// and it must be the same for all that arrive.
//
// What a thread did before it arrived is visible to those that waited, once the barrier has opened.
// PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier".

#ifdef __CUDACC__

// Arrives at the barrier and waits until it opens.
__device__ __forceinline__ void named_barrier_sync(unsigned id, unsigned threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives at the barrier and does not wait.
__device__ __forceinline__ void named_barrier_arrive(unsigned id, unsigned threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

#else

#include "common/cpu_device/named_barrier.hpp"

#endif
