#pragma once

// The CPU device's flags between blocks; common/cuda/grid_flag.hpp says what the functions mean. A thread
// that waits goes on at the latest moment: when all blocks with lower numbers have finished. So a kernel's
// behaviour does not depend on how many cores the host has, and a flag that only a block with a higher number
// would set is a deadlock every time.

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

void flag_set(unsigned* flag);
void flag_wait_and_clear(unsigned* flag);

}  // namespace cpu_device

__forceinline__ void flag_set(unsigned* flag) { cpu_device::flag_set(flag); }
__forceinline__ void flag_wait_and_clear(unsigned* flag) { cpu_device::flag_wait_and_clear(flag); }
