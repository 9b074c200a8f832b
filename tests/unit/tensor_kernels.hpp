#pragma once

// The kernels of tensor_copy_test.cpp. Compiled twice, plain and observed, as a step's kernel is.

#include "tests/unit/fetch_box.hpp"

// What n means is the kernel's business.
using TensorKernel = void (*)(float* x, float* y, TensorMap map, int n);

struct TensorKernels {
  void (*fetch_floats)(float* out, TensorMap map, Box box, int elements);
  void (*fetch_bf16s)(bf16* out, TensorMap map, Box box, int elements);
  // Right ones.
  TensorKernel order, alignment_of_maps, unused_map;
  // Wrong ones.
  TensorKernel bytes, misaligned, outside_shared, overwrites, source_overwritten, read_before_wait, no_fence,
      no_wait;
};

extern const TensorKernels plain_tensor_kernels;
extern const TensorKernels observed_tensor_kernels;
