#pragma once

// HOST_DEVICE marks a function that runs on the host and on a GPU alike. It is always inlined: if the
// compiler emitted it out of line, the linker might let the rest of the program use the copy from a kernel's
// observed build, observation and all.

#ifdef __CUDACC__
#define HOST_DEVICE __host__ __device__ __forceinline__
#else
#define HOST_DEVICE inline __attribute__((always_inline))
#endif
