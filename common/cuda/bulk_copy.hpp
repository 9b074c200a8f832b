#pragma once

// Asynchronous copies of whole rows from global to shared memory (cp.async.bulk, compute capability 9.0 and
// newer). One thread requests the copy; the Tensor Memory Accelerator carries it out and reports the bytes
// that have arrived to an mbarrier. PTX ISA, "Data Movement and Conversion Instructions: cp.async.bulk".

#include "common/cuda/mbarrier.hpp"

#ifdef __CUDACC__

// Starts copying. Both addresses and the number of bytes are multiples of 16. The bytes count
// towards the mbarrier's current phase, in which a thread must announce them.
__device__ __forceinline__ void bulk_copy(void* shared, const void* global, std::uint32_t bytes,
                                          std::uint64_t* barrier) {
#if HAVE_MBARRIER
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(global), "r"(bytes), "r"(mbarrier_address(barrier))
      : "memory");
#else
  __trap();
#endif
}

// Bulk and tensor copies access memory through the asynchronous proxy, ordinary loads and stores through the
// generic one. This fence orders what the thread has written to shared memory, or has seen others write,
// before copies requested later that read or overwrite it. The writer calls it, the thread that requests, or
// one between them. No fence is needed before a copy overwrites what was only read, nor before reading what a
// copy has brought. PTX ISA, "membar/fence" (fence.proxy.async).
__device__ __forceinline__ void fence_async_proxy() {
#if HAVE_MBARRIER
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// The same for global memory that the same launch has written. What earlier launches wrote needs no fence.
__device__ __forceinline__ void fence_async_proxy_global() {
#if HAVE_MBARRIER
  asm volatile("fence.proxy.async.global;" ::: "memory");
#endif
}

#else

#include "common/cpu_device/bulk_copy.hpp"

#endif
