#pragma once

// The block's dynamic shared memory: as many bytes as the launch asks for, which may be more than the 48 KiB
// that __shared__ variables can have.

#include <cstddef>

#ifndef __CUDACC__
#include "common/cpu_device/cuda_on_cpu.hpp"
#ifdef __SANITIZE_THREAD__  // the observed build
#include "common/cpu_device/member_names.hpp"
#endif
#endif

#ifdef __CUDACC__
// One array for each alignment: of one, the compiler would take one alignment for all kernels.
template <std::size_t ALIGNMENT>
extern __shared__ __align__(ALIGNMENT)
unsigned char dynamic_shared_bytes[];
#endif

// The memory seen as a T; the launch must ask for sizeof(T) bytes. Aligned to 16 bytes, or as T is: a struct
// declared alignas(1024) begins at a multiple of 1024. A kernel that wants more than 16 has no __shared__
// variables beside it: they lie before it, and nvcc 13.0 does not align what follows them. Where the
// alignment is missing the kernel ends with an error. The CPU device aligns it to no more than is asked for
// here: a tile that has to be at a multiple of 128 or 1024 is, then, by the type's alignment, not by luck.
template <typename T>
__device__ __forceinline__ T& dynamic_shared() {
  constexpr std::size_t alignment = alignof(T) > 16 ? alignof(T) : 16;
  static_assert(alignment <= 1024, "dynamic shared memory begins at a multiple of 1024 bytes at best");
#ifdef __CUDACC__
  unsigned char* bytes = dynamic_shared_bytes<alignment>;
  if constexpr (alignment > 16) {
    if (__cvta_generic_to_shared(bytes) % alignment != 0) __trap();
  }
  return *reinterpret_cast<T*>(bytes);
#else
#ifdef __SANITIZE_THREAD__
  cpu_device::name_dynamic_shared(cpu_device::shape_of<T>);
#endif
  return *static_cast<T*>(cpu_device::dynamic_shared(alignment));
#endif
}
