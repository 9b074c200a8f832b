#pragma once

// Flags by which one block of a grid tells another that data is ready, such as partial sums (compute
// capability 7.0 and newer). A flag is a word of global memory that is 0 before the first launch:
//
//     static Workspace<unsigned> ready("ready", Fill::zero);
//
//     // the block that writes                          // the block that reads
//     partial[i] = sum;                                 if (threadIdx.x == 0) flag_wait_and_clear(&ready[b]);
//     __syncthreads();                                  __syncthreads();
//     if (threadIdx.x == 0) flag_set(&ready[b]);        sum += partial[i];
//
// A launch sets a flag at most once, and some block waits for each flag that is set: so all are 0 again at
// the end. Wait only for blocks with lower numbers (x fastest): one with a higher number may not start until
// this one has ended. That lower ones start first is how GPUs do it; CUDA promises no more than that all run
// at once, and that only to a cooperative launch. PTX ISA, "Memory Consistency Model".

#ifdef __CUDACC__

#include <cstddef>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#define HAVE_GRID_FLAG 0
#else
#define HAVE_GRID_FLAG 1
#endif

// By one thread: what it did before, and what its block did before the last barrier, is visible to whoever
// waits for the flag.
__device__ __forceinline__ void flag_set(unsigned* flag) {
#if HAVE_GRID_FLAG
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(flag)), "r"(1u)
               : "memory");
#else
  __trap();
#endif
}

// By one thread: waits until the flag is set, and makes it 0 again. The other threads of the block need a
// barrier behind this.
__device__ __forceinline__ void flag_wait_and_clear(unsigned* flag) {
#if HAVE_GRID_FLAG
  const std::size_t address = __cvta_generic_to_global(flag);
  while (true) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    if (value != 0) break;
    __nanosleep(100);  // leaves the memory to the blocks at work
  }
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(0u) : "memory");
#else
  __trap();
#endif
}

#else

#include "common/cpu_device/grid_flag.hpp"

#endif
