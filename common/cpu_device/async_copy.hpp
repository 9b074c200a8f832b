#pragma once

// The CPU device's cp.async; common/cuda/async_copy.hpp says what the functions mean. A copy happens at the
// latest moment that the rules allow, when its thread waits for it; until then the destination holds a NaN.
// So a kernel that waits for too little, or too late, gives a wrong result here every time.

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

void async_copy(void* shared, const void* global, unsigned bytes, bool valid);
void async_copy_commit();
void async_copy_wait(unsigned pending);

}  // namespace cpu_device

template <int BYTES, typename T>
__forceinline__ void async_copy(T* shared, const T* global, bool valid) {
  static_assert((BYTES == 4 || BYTES == 8 || BYTES == 16) && BYTES % sizeof(T) == 0);
  cpu_device::async_copy(shared, global, BYTES, valid);
}

__forceinline__ void async_copy_commit() { cpu_device::async_copy_commit(); }

template <int PENDING>
__forceinline__ void async_copy_wait() {
  cpu_device::async_copy_wait(PENDING);
}
