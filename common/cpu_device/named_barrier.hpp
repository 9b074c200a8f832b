#pragma once

// The CPU device's bar.sync and bar.arrive; common/cuda/named_barrier.hpp says what the functions mean.

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

void named_barrier(unsigned id, unsigned threads, bool only_arrives, int line);

}  // namespace cpu_device

__forceinline__ void named_barrier_sync(unsigned id, unsigned threads, int line = __builtin_LINE()) {
  cpu_device::named_barrier(id, threads, false, line);
}

__forceinline__ void named_barrier_arrive(unsigned id, unsigned threads, int line = __builtin_LINE()) {
  cpu_device::named_barrier(id, threads, true, line);
}
