#pragma once

// The CPU device's tensor maps and cp.async.bulk.tensor; common/cuda/tensor_copy.hpp says what the functions
// mean. A copy happens when a bulk copy does (bulk_copy.hpp), at the latest moment that the rules allow.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/bf16.hpp"
#include "common/cpu_device/cuda_on_cpu.hpp"
#include "common/cuda/tensor_shape.hpp"
#include "common/fp16.hpp"

namespace cpu_device {

struct alignas(64) TensorMap {
  TensorMap() = default;
  TensorMap(const TensorMap& from);
  TensorMap& operator=(const TensorMap& from);

  const std::byte* data = nullptr;               // element (0, 0) of the first matrix
  std::int64_t row_pitch = 0, matrix_pitch = 0;  // bytes
  int rows = 0, cols = 0, batch = 0;
  int box_rows = 0, box_cols = 0;
  unsigned element_bytes = 0;
  Swizzle swizzle = Swizzle::none;
  Convert convert = Convert::nothing;
  // Whose it is: the host's, and then the kernel's parameter, which each thread here has a copy of.
  enum class Owner : unsigned char { host, parameter, thread };
  Owner owner = Owner::host;

 private:
  void copy(const TensorMap& from);
};

TensorMap make_tensor_map(const TensorShape& shape);

void copy_box(void* shared, const TensorMap& map, int col, int row, int matrix, std::uint64_t* barrier);

}  // namespace cpu_device

using TensorMap = cpu_device::TensorMap;

template <typename T>
__forceinline__ TensorMap tensor_map(const T* matrix, int rows, int cols, std::int64_t ld, int batch,
                                     std::int64_t stride, int box_rows, int box_cols,
                                     Swizzle swizzle = Swizzle::none, Convert convert = Convert::nothing,
                                     Fetch = Fetch::as_rows_lie) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, fp16>);
  return cpu_device::make_tensor_map(
      {matrix, sizeof(T), rows, cols, ld, batch, stride, box_rows, box_cols, swizzle, convert});
}

// There is no cache to prefetch it into.
__forceinline__ void prefetch_tensor_map(const TensorMap&) {}

__forceinline__ void tensor_copy(void* shared, const TensorMap& map, int col, int row, int matrix,
                                 std::uint64_t* barrier) {
  cpu_device::copy_box(shared, map, col, row, matrix, barrier);
}
