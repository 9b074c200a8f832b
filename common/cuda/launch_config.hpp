#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "common/cpu_device/dim3.hpp"
#endif

#include <cstddef>

// What a launch asks for, on either device: launch(kernel, LaunchConfig{.grid = ..., .block = ...}, args...).
struct LaunchConfig {
  dim3 grid, block;
  std::size_t shared_bytes = 0;    // dynamic shared memory of a block
  dim3 cluster = {1, 1, 1};        // blocks that run at the same time, near each other; divides the grid
  bool overlaps_previous = false;  // may begin before the launch before it has ended: dependent_launch.hpp
};
