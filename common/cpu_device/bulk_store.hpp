#pragma once

// The CPU device's cp.async.bulk and cp.async.bulk.tensor from shared to global memory;
// common/cuda/bulk_store.hpp says what the functions mean. A store reads its source when its thread waits for
// that, and writes when it waits for that; until then the destination holds a NaN.

#include <cstdint>

#include "common/cpu_device/cuda_on_cpu.hpp"
#include "common/cpu_device/tensor_copy.hpp"

namespace cpu_device {

void bulk_store(void* global, const void* shared, std::uint32_t bytes);
void store_box(const TensorMap& map, int col, int row, int matrix, const void* shared);
void bulk_store_commit();
// For all groups but the latest `pending`: until they have read, or until they have written, too.
void bulk_store_wait(unsigned pending, bool only_read);

}  // namespace cpu_device

__forceinline__ void bulk_store(void* global, const void* shared, std::uint32_t bytes) {
  cpu_device::bulk_store(global, shared, bytes);
}
__forceinline__ void tensor_store(const TensorMap& map, int col, int row, int matrix, const void* shared) {
  cpu_device::store_box(map, col, row, matrix, shared);
}
__forceinline__ void bulk_store_commit() { cpu_device::bulk_store_commit(); }
template <int PENDING>
__forceinline__ void bulk_store_wait_read() {
  cpu_device::bulk_store_wait(PENDING, true);
}
template <int PENDING>
__forceinline__ void bulk_store_wait() {
  cpu_device::bulk_store_wait(PENDING, false);
}
