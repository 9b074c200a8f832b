#pragma once

// Memory of the GPU.

#include <cstddef>
#include <vector>

#include "common/cuda/check.hpp"

namespace tensor_core_arithmetic {

template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t count) : count_(count) { CUDA_CHECK(cudaMalloc(&data_, count * sizeof(T))); }
  explicit Buffer(const std::vector<T>& from) : Buffer(from.size()) {
    CUDA_CHECK(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(data_); }
  T* data() { return data_; }
  std::vector<T> read() const {
    std::vector<T> to(count_);
    CUDA_CHECK(cudaMemcpy(to.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

}  // namespace tensor_core_arithmetic
