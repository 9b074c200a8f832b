#pragma once

#include "common/cuda/check.hpp"

namespace harness::gpu {

// A value in GPU memory, for kernels to write to.
template <typename T>
class Result {
 public:
  explicit Result(const T& initial) {
    CUDA_CHECK(cudaMalloc(&pointer_, sizeof(T)));
    set(initial);
  }
  Result(const Result&) = delete;
  ~Result() { cudaFree(pointer_); }

  T* pointer() const { return pointer_; }
  void set(const T& value) { CUDA_CHECK(cudaMemcpy(pointer_, &value, sizeof value, cudaMemcpyHostToDevice)); }
  // Waits for the kernels launched before.
  T get() const {
    T value;
    CUDA_CHECK(cudaMemcpy(&value, pointer_, sizeof value, cudaMemcpyDeviceToHost));
    return value;
  }

 private:
  T* pointer_ = nullptr;
};

}  // namespace harness::gpu
