#pragma once

// HOST_DEVICE stands before a function that runs on the host and on a GPU alike. It is always inlined: what
// the compiler keeps as a function of its own, the observed build of a kernel would lend to the rest of the
// program, observation and all.

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__ __forceinline__
#else
#define HOST_DEVICE inline __attribute__((always_inline))
#endif
