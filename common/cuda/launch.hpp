#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "common/cuda/check.hpp"

// kernel<<<grid, block, shared_bytes>>>(args...) on the default stream, checked. The CPU device has a
// function of the same name, which is why the steps do not write <<<>>>. A grid without blocks (an empty
// matrix) is no work, where <<<>>> would report an error.
// Throws CudaError if the launch is refused; what goes wrong while the kernel runs shows at the next
// synchronisation.
template <typename... Params, typename... Args>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block, std::size_t shared_bytes, const Args&... args) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr std::size_t without_asking = 48 * 1024;  // a block gets more shared memory only on request
  if (shared_bytes > without_asking) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)));
  }
  kernel<<<grid, block, shared_bytes>>>(args...);
  CUDA_CHECK(cudaGetLastError());
}
