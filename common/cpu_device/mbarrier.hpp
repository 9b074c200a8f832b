#pragma once

// The CPU device's mbarriers; common/cuda/mbarrier.hpp says what the functions mean. The state is kept
// outside of shared memory, where a kernel's stray writes cannot reach it; the word in shared memory only
// tells whether there has been one.

#include <cstdint>

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

void mbarrier_init(std::uint64_t* barrier, unsigned count);
void mbarrier_invalidate(std::uint64_t* barrier);
void mbarrier_fence_init();
void mbarrier_arrive(std::uint64_t* barrier);
void mbarrier_expect(std::uint64_t* barrier, std::uint32_t bytes, bool arrives);
// With `may_fail`, may return false when otherwise the whole block would be stuck.
bool mbarrier_wait(std::uint64_t* barrier, unsigned parity, bool may_fail);
void mbarrier_arrive_after_copies(std::uint64_t* barrier);

}  // namespace cpu_device

__forceinline__ void mbarrier_init(std::uint64_t* barrier, unsigned count) {
  cpu_device::mbarrier_init(barrier, count);
}
__forceinline__ void mbarrier_invalidate(std::uint64_t* barrier) { cpu_device::mbarrier_invalidate(barrier); }
__forceinline__ void mbarrier_fence_init() { cpu_device::mbarrier_fence_init(); }
__forceinline__ void mbarrier_arrive(std::uint64_t* barrier) { cpu_device::mbarrier_arrive(barrier); }
__forceinline__ void mbarrier_expect_tx(std::uint64_t* barrier, std::uint32_t bytes) {
  cpu_device::mbarrier_expect(barrier, bytes, false);
}
__forceinline__ void mbarrier_arrive_expect_tx(std::uint64_t* barrier, std::uint32_t bytes) {
  cpu_device::mbarrier_expect(barrier, bytes, true);
}
__forceinline__ bool mbarrier_try_wait(std::uint64_t* barrier, unsigned parity) {
  return cpu_device::mbarrier_wait(barrier, parity, true);
}
__forceinline__ void mbarrier_wait(std::uint64_t* barrier, unsigned parity) {
  cpu_device::mbarrier_wait(barrier, parity, false);
}
__forceinline__ void mbarrier_arrive_after_async_copies(std::uint64_t* barrier) {
  cpu_device::mbarrier_arrive_after_copies(barrier);
}
