#pragma once

// Device memory that a step keeps from one call of sgemm() to the next: tiles in another order, partial sums,
// flags. A static variable of the host function that launches, which asks for memory once per call:
//
//     static Workspace<float> workspace("packed");
//     float* packed = workspace.at_least(tiles * TILE);
//     launch(pack, grid, block, 0, g, packed);
//     launch(multiply, grid, block, 0, g, packed);

enum class Fill {
  nothing,  // each at_least() gives memory that may hold anything
  zero,     // zero when it is new; then what the kernels leave there, which is to be zero again
};

#ifdef __CUDACC__

#include <cuda_runtime.h>

#include <cstddef>

#include "common/cuda/check.hpp"
#include "common/out_of_memory.hpp"

inline namespace on_gpu {  // see launch.hpp

template <typename T>
class Workspace {
 public:
  // The name is what the CPU device's reports call it.
  explicit Workspace(const char* name, Fill fill = Fill::nothing) : name_(name), fill_(fill) {}
  Workspace(const Workspace&) = delete;
  ~Workspace() { cudaFree(memory_); }  // at the program's end, when CUDA may be gone already

  // Memory for `elements` elements, aligned to 256 bytes, until the next call. A request larger than any
  // before gets new memory: allocating waits for the device. Throws OutOfMemory, or CudaError.
  T* at_least(std::size_t elements) {
    if (memory_ != nullptr && elements <= capacity_) return memory_;
    CUDA_CHECK(cudaFree(memory_));
    memory_ = nullptr;
    const std::size_t wanted = elements == 0 ? 1 : elements, bytes = wanted * sizeof(T);
    const bool possible = bytes / sizeof(T) == wanted;
    const cudaError_t status = possible ? cudaMalloc(&memory_, bytes) : cudaErrorMemoryAllocation;
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is no error of the launches to come
      throw OutOfMemory(name_, elements, sizeof(T));
    }
    CUDA_CHECK(status);
    capacity_ = wanted;
    if (fill_ == Fill::zero) CUDA_CHECK(cudaMemset(memory_, 0, bytes));
    return memory_;
  }

 private:
  const char* name_;
  Fill fill_;
  T* memory_ = nullptr;
  std::size_t capacity_ = 0;  // elements
};

}  // namespace on_gpu

#else

#include "common/cpu_device/workspace.hpp"

#endif
