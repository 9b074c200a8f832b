#pragma once

// The CPU device's cp.async.bulk; common/cuda/bulk_copy.hpp says what the functions mean. A copy happens at
// the latest moment that the rules allow, when no thread of the block can go on without it; until then the
// destination holds a NaN, and the source may still change. So a kernel that reads or overwrites too early
// gives a wrong result here every time.

#include <cstdint>

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

void bulk_copy(void* shared, const void* global, std::uint32_t bytes, std::uint64_t* barrier);
void fence_async_proxy();
void fence_async_proxy_global();

}  // namespace cpu_device

__forceinline__ void bulk_copy(void* shared, const void* global, std::uint32_t bytes,
                               std::uint64_t* barrier) {
  cpu_device::bulk_copy(shared, global, bytes, barrier);
}

__forceinline__ void fence_async_proxy() { cpu_device::fence_async_proxy(); }
__forceinline__ void fence_async_proxy_global() { cpu_device::fence_async_proxy_global(); }
