#pragma once

// Asynchronous copies from global to shared memory (cp.async, compute capability 8.0 and newer).
// A thread requests copies, closes them into a group with async_copy_commit(), and waits for groups in order.
// What has arrived is visible to the thread that waited; to others only after a barrier.
// PTX ISA, "Data Movement and Conversion Instructions: cp.async".

#ifdef __CUDACC__

#include <cstdint>

// Kernels that use the instructions say so (`// Needs     sm_80+: ...`) and are compiled for no older GPU. A
// file that merely includes this header may be.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define HAVE_ASYNC_COPY 0
#else
#define HAVE_ASYNC_COPY 1
#endif

// Starts copying BYTES (4, 8 or 16; both addresses multiples of it). If not `valid`, nothing is read and the
// destination becomes zero. 16 bytes bypass the L1 cache (.cg), which smaller copies cannot (.ca).
template <int BYTES, typename T>
__device__ __forceinline__ void async_copy(T* shared, const T* global, bool valid) {
#if HAVE_ASYNC_COPY
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int bytes_to_read = valid ? BYTES : 0;
  if constexpr (BYTES == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
                 "r"(bytes_to_read)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(global), "n"(BYTES),
                 "r"(bytes_to_read)
                 : "memory");
  }
#else
  __trap();
#endif
}

// Closes the group of all copies started since the last one; it may be empty.
__device__ __forceinline__ void async_copy_commit() {
#if HAVE_ASYNC_COPY
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all groups but the latest PENDING have arrived.
template <int PENDING>
__device__ __forceinline__ void async_copy_wait() {
#if HAVE_ASYNC_COPY
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

#else

#include "common/cpu_device/async_copy.hpp"

#endif
