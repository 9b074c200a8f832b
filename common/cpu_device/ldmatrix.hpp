#pragma once

// The CPU device's ldmatrix; common/cuda/ldmatrix.hpp says what the functions mean. Each row is a 16-byte
// read by the lane that gave its address, whoever gets the elements: it is that lane that must have seen what
// was written there.

#include <cstdint>

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

void load_matrices(std::uint32_t* registers, int count, bool trans, const void* row, int line);

}  // namespace cpu_device

template <int COUNT>
__forceinline__ void ldmatrix(std::uint32_t (&r)[COUNT], const void* row, int line = __builtin_LINE()) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4);
  cpu_device::load_matrices(r, COUNT, false, row, line);
}

template <int COUNT>
__forceinline__ void ldmatrix_trans(std::uint32_t (&r)[COUNT], const void* row, int line = __builtin_LINE()) {
  static_assert(COUNT == 1 || COUNT == 2 || COUNT == 4);
  cpu_device::load_matrices(r, COUNT, true, row, line);
}
