#pragma once

// Registers handed from one warpgroup to another (setmaxnreg); common/cuda/warpgroup_registers.hpp says what
// the functions mean. What a thread does with its registers nobody knows here; they are only counted.

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

void keep_registers(unsigned per_thread, int line);
void take_registers(unsigned per_thread, int line);

}  // namespace cpu_device

template <int REGISTERS>
__forceinline__ void warpgroup_reg_dealloc(int line = __builtin_LINE()) {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
  cpu_device::keep_registers(REGISTERS, line);
}
template <int REGISTERS>
__forceinline__ void warpgroup_reg_alloc(int line = __builtin_LINE()) {
  static_assert(REGISTERS % 8 == 0 && REGISTERS >= 24 && REGISTERS <= 256);
  cpu_device::take_registers(REGISTERS, line);
}
