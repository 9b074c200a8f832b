#pragma once

// The kernel of the tests of tensor copies, for both devices.

#include "common/cuda/tensor_copy.hpp"

// Where a box begins.
struct Box {
  int row, col, matrix;
};

constexpr int most_elements = 4096;  // of a box
constexpr int box_threads = 64;

namespace {

// out: the box, of so many elements. One block of box_threads threads.
template <typename T>
__global__ void fetch_box(T* out, const __grid_constant__ TensorMap map, Box box, int elements) {
  __shared__ __align__(1024) T shared[most_elements];
  __shared__ std::uint64_t full;
  if (threadIdx.x == 0) {
    prefetch_tensor_map(map);
    mbarrier_init(&full, 1);
    mbarrier_fence_init();
    mbarrier_arrive_expect_tx(&full, elements * static_cast<unsigned>(sizeof(T)));
    tensor_copy(shared, map, box.col, box.row, box.matrix, &full);  // here: fetch_box
  }
  __syncthreads();
  mbarrier_wait(&full, 0);
  for (int i = threadIdx.x; i < elements; i += box_threads) out[i] = shared[i];
}

}  // namespace
