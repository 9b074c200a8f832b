#pragma once

// The CPU device's dependent launches; common/cuda/dependent_launch.hpp says what the functions mean. One
// launch follows the other, but checked runs report what would go wrong if they overlapped (overlap.hpp).

#include "common/cpu_device/cuda_on_cpu.hpp"

namespace cpu_device {

void wait_for_previous_launch();
void let_next_launch_begin();

}  // namespace cpu_device

__forceinline__ void wait_for_previous_launch() { cpu_device::wait_for_previous_launch(); }
__forceinline__ void let_next_launch_begin() { cpu_device::let_next_launch_begin(); }
