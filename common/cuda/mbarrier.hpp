#pragma once

// Mbarriers: barriers that lie in shared memory and count arrivals and bytes (compute capability 9.0 and
// newer; on 8.0 they count arrivals only). An mbarrier goes through phases, which are numbered from 0. A
// phase is complete when as many arrivals have come as mbarrier_init() said, and as many bytes as were
// announced; at that moment the next one begins, and counts its arrivals anew. Bytes come from
// asynchronous copies (bulk_copy.hpp, tensor_copy.hpp).
//
// What a thread did before it arrived, and what the copies brought, is visible to whoever has waited for the
// phase. PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".

#ifdef __CUDACC__

#include <cstdint>

// As with cp.async (async_copy.hpp): what is compiled for older GPUs, too, does not use it there.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#define HAVE_MBARRIER 0
#else
#define HAVE_MBARRIER 1
#endif

__device__ __forceinline__ std::uint32_t mbarrier_address(const std::uint64_t* barrier) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
}

// Makes an mbarrier of 8 bytes of shared memory, in phase 0; `count` arrivals complete a phase. By one
// thread; the others need a barrier before they use it.
__device__ __forceinline__ void mbarrier_init(std::uint64_t* barrier, unsigned count) {
#if HAVE_MBARRIER
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mbarrier_address(barrier)), "r"(count)
               : "memory");
#else
  __trap();
#endif
}

// After mbarrier_init(), by the same thread: lets asynchronous copies see the mbarriers as they are now, and
// whatever else the thread has written to shared memory: it ends with a fence_async_proxy() (bulk_copy.hpp).
__device__ __forceinline__ void mbarrier_fence_init() {
#if HAVE_MBARRIER
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// The memory is free for other use. Nobody may be waiting.
__device__ __forceinline__ void mbarrier_invalidate(std::uint64_t* barrier) {
#if HAVE_MBARRIER
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(mbarrier_address(barrier)) : "memory");
#endif
}

__device__ __forceinline__ void mbarrier_arrive(std::uint64_t* barrier) {
#if HAVE_MBARRIER
  asm volatile(
      "{ .reg .b64 token; mbarrier.arrive.shared::cta.b64 token, [%0]; }" ::"r"(mbarrier_address(barrier))
      : "memory");
#endif
}

// Announces `bytes` bytes, for which the current phase then waits as well; orders nothing.
__device__ __forceinline__ void mbarrier_expect_tx(std::uint64_t* barrier, std::uint32_t bytes) {
#if HAVE_MBARRIER
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(mbarrier_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

// Announces `bytes` bytes, and arrives.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(std::uint64_t* barrier, std::uint32_t bytes) {
#if HAVE_MBARRIER
  asm volatile("{ .reg .b64 token; mbarrier.arrive.expect_tx.shared::cta.b64 token, [%0], %1; }" ::"r"(
                   mbarrier_address(barrier)),
               "r"(bytes)
               : "memory");
#endif
}

// Whether the phase with this parity (its number modulo 2) is complete: the current one, or the one just
// before. So parity 1 is complete from the start. May wait a while before it says no.
__device__ __forceinline__ bool mbarrier_try_wait(std::uint64_t* barrier, unsigned parity) {
#if HAVE_MBARRIER
  std::uint32_t complete;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(complete)
               : "r"(mbarrier_address(barrier)), "r"(parity)
               : "memory");
  return complete != 0;
#else
  __trap();
  return false;
#endif
}

// Waits until it is.
__device__ __forceinline__ void mbarrier_wait(std::uint64_t* barrier, unsigned parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

// Arrives when all copies that this thread has requested by async_copy() are complete; the arrival is one of
// those that mbarrier_init() counts. PTX ISA, "cp.async.mbarrier.arrive" (.noinc).
__device__ __forceinline__ void mbarrier_arrive_after_async_copies(std::uint64_t* barrier) {
#if HAVE_MBARRIER
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(mbarrier_address(barrier))
               : "memory");
#endif
}

#else

#include "common/cpu_device/mbarrier.hpp"

#endif
