#pragma once

#include <cuda_runtime.h>

#include "common/formatted_error.hpp"

// A call to the CUDA runtime that failed: what() names the call, the place and CUDA's own message.
using CudaError = FormattedError<struct OfCuda>;

inline void cuda_check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  throw CudaError("%s at %s:%d: %s: %s", call, file, line, cudaGetErrorName(status),
                  cudaGetErrorString(status));
}

// A macro only because it must know the text and the place of the call.
#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)
