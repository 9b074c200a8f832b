#pragma once

// Registers handed from one warpgroup to another (setmaxnreg, compute capability 9.0 with its
// architecture-specific features, sm_90a). At launch all threads of a block have the same number; a warpgroup
// (four warps, from a multiple of four on) that copies needs few, one that multiplies many.
// PTX ISA, "Miscellaneous Instructions: setmaxnreg".

#ifdef __CUDACC__

// As with cp.async (async_copy.hpp): elsewhere the registers stay as they are.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAVE_SETMAXNREG 1
#else
#define HAVE_SETMAXNREG 0
#endif

// The warpgroup gives up all but REGISTERS registers per thread, a multiple of 8 from 24 to 256. All its
// warps must execute this.
template <int REGISTERS>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
#if HAVE_SETMAXNREG
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

// The warpgroup takes registers, up to REGISTERS per thread. Waits until others have given up enough.
template <int REGISTERS>
__device__ __forceinline__ void warpgroup_reg_alloc() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
#if HAVE_SETMAXNREG
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

#else

#include "common/cpu_device/warpgroup_registers.hpp"

#endif
