#pragma once

#include <cstddef>
#include <vector>

#include "common/cpu_device/cpu_device.hpp"

// Floats in the CPU device's memory.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size)
      : data_(static_cast<float*>(cpu_device::allocate(size * sizeof(float)))), size_(size) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cpu_device::release(data_); }

  float* data() { return data_; }
  std::size_t size() const { return size_; }
  float operator[](std::size_t i) const { return data_[i]; }
  std::vector<float> values() const { return {data_, data_ + size_}; }

 private:
  float* data_;
  std::size_t size_;
};
