#pragma once

// The block's dynamic shared memory: as many bytes as the launch asks for, which may be more than the 48 KiB
// that __shared__ variables can have.

#ifndef __CUDACC__
#include "common/cpu_device/cuda_on_cpu.hpp"
#ifdef __SANITIZE_THREAD__  // the observed build
#include "common/cpu_device/member_names.hpp"
#endif
#endif

// The memory seen as a T; the launch must ask for sizeof(T) bytes. Aligned to 16 bytes.
template <typename T>
__device__ __forceinline__ T& dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char bytes[];
  return *reinterpret_cast<T*>(bytes);
#else
#ifdef __SANITIZE_THREAD__
  cpu_device::name_dynamic_shared(cpu_device::members<T>);
#endif
  return *static_cast<T*>(cpu_device::dynamic_shared());
#endif
}
