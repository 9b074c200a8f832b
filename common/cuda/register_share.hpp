#pragma once

// Registers handed from one warpgroup to another (setmaxnreg, compute capability 9.0 with its
// architecture-specific features, sm_90a). A block is launched with the same number for each thread; a
// warpgroup, four warps from a multiple of four on, that copies needs few, one that multiplies many.
// PTX ISA, "Miscellaneous Instructions: setmaxnreg".

#ifdef __CUDACC__

// As with cp.async (async_copy.hpp): elsewhere the registers stay as they are.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAVE_REGISTER_SHARE 1
#else
#define HAVE_REGISTER_SHARE 0
#endif

// From here on no thread of the warpgroup needs more than REGISTERS, a multiple of 8 from 24 to 256. All its
// warps must come.
template <int REGISTERS>
__device__ __forceinline__ void registers_give() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
#if HAVE_REGISTER_SHARE
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

// From here on each thread of the warpgroup has REGISTERS. Waits until others have given enough.
template <int REGISTERS>
__device__ __forceinline__ void registers_take() {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
#if HAVE_REGISTER_SHARE
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

#else

// The CPU device does not count registers.
template <int REGISTERS>
inline void registers_give() {}
template <int REGISTERS>
inline void registers_take() {}

#endif
