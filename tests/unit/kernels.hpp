#pragma once

// The kernels of the CPU device's tests, and how the tests find them: by their names. A file of kernels is
// compiled twice, plain and observed, as a step's kernel is. It lists its kernels at its end, and marks the
// places that tests expect in reports by comments "here: NAME".

#include <typeinfo>

#include "common/cpu_device/cuda_on_cpu.hpp"
#include "common/cuda/mbarrier.hpp"

// What the parameters mean is the kernel's business.
using Kernel = void (*)(float* x, float* y, int n);
using GridKernel = void (*)(unsigned* flags, float* data, float* y, int n);

struct SharedOfHelpers {
  float helper[2];
  unsigned char bytes[3];
  float beside;
};

struct AnyKernel {
  template <typename... T>
  [[gnu::always_inline]] AnyKernel(void (*kernel)(T...))
      : code(reinterpret_cast<void (*)()>(kernel)), type(&typeid(kernel)) {}
  void (*code)();
  const std::type_info* type;
};

// The names are separated by ", ".
bool add_kernels(const char* build, const char* names, const AnyKernel* kernels);

#ifdef BUILD
// Shared variables start at multiples of 64 bytes, so that a gap follows those that end between.
#define SHARED __shared__ __align__(64)
#define TEST_KERNELS(...)                      \
  const AnyKernel test_kernels[]{__VA_ARGS__}; \
  const bool added = add_kernels(BUILD, #__VA_ARGS__, test_kernels);

namespace {

[[maybe_unused]] unsigned thread_number() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
[[maybe_unused]] unsigned threads_per_block() { return blockDim.x * blockDim.y * blockDim.z; }
[[maybe_unused]] unsigned block_number() {
  return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}
// The last thread of the last block. Where a kernel does something wrong, this thread does it unless the
// kernel's comment names another.
[[maybe_unused]] bool is_last() {
  return block_number() == gridDim.x * gridDim.y * gridDim.z - 1 &&
         thread_number() == threads_per_block() - 1;
}

[[maybe_unused]] void init(std::uint64_t* barrier, unsigned count) {
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, count);  // here: init
    mbarrier_fence_init();
  }
  __syncthreads();
}

}  // namespace
#endif
