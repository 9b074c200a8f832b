#pragma once

// A counter to record when a kernel does what. It only says how much later something is within a block.

#include <cstdint>

#ifdef __CUDACC__

// The multiprocessor's cycles.
__device__ __forceinline__ std::int64_t cycle_count() { return clock64(); }

#else

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {
std::int64_t calls_counted();
}

// The CPU device has no time. It counts the calls, in the order in which it happens to run the threads.
__forceinline__ std::int64_t cycle_count() { return cpu_device::calls_counted(); }

#endif
