#pragma once

// What the files of the sync tests' kernels share. Included by these only: it is in their unnamed namespaces.

#include "common/cuda/mbarrier.hpp"
#include "tests/unit/sync_kernels.hpp"

namespace {

[[maybe_unused]] __device__ void init(std::uint64_t* barrier, unsigned count) {
  if (threadIdx.x == 0) {
    mbarrier_init(barrier, count);
    mbarrier_fence_init();
  }
  __syncthreads();
}

}  // namespace
