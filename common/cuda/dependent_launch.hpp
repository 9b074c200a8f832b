#pragma once

// Launches that begin while the one before still runs (programmatic dependent launch, compute capability 9.0
// and newer): LaunchConfig::overlaps_previous. The next launch's blocks start as soon as every block of this
// one has allowed it or ended, and there is room. On an older GPU, and on the CPU device, one launch follows
// the other. CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".

#ifdef __CUDACC__

// Waits until the launch before this one has ended; what it wrote is visible then. To be called by every
// thread that reads what other launches write, or writes what they read or write. Returns at once if nothing
// overlaps.
__device__ __forceinline__ void wait_for_previous_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// As far as this block is concerned, the next launch may begin. This makes no writes visible.
__device__ __forceinline__ void let_next_launch_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#else

#include "common/cpu_device/dependent_launch.hpp"

#endif
