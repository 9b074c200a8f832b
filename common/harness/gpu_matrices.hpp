#pragma once

// What the GPU does with matrices for the harness besides running steps: fill, copy, inspect, verify.

#include <cstddef>
#include <cstdint>

#include "common/harness/device.hpp"

namespace harness::gpu {

// Like the functions of Device with these names.
void poison(void* buffer, std::size_t bytes);
void fill_uniform(void* data, Input type, const Extent& extent, std::uint64_t seed);
void copy_matrix(float* to, const float* from, const Extent& extent);
StrayWrites stray_writes(const void* buffer, Input type, std::size_t elements, std::int64_t origin,
                         const Extent& extent);
Verdict verify(const AnyGemm& gemm, const float* c0, double tolerance);

// Any one of the kernels, to look up whether the program has code for the GPU.
const void* some_kernel();

}  // namespace harness::gpu
