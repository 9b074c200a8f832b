#pragma once

// Right kernels that store asynchronously, with one block of store_threads threads, for both devices:
// bulk_store_test.cpp and gpu_bulk_store_test.cu say what they compute.

#include "common/cuda/bulk_store.hpp"
#include "tests/unit/fetch_box.hpp"

constexpr int store_threads = 64;

namespace {

// y = 2 x, in n rows of 64 elements. Two buffers: while one is stored, the other is written.
__global__ void store_rows(const float* x, float* y, int n) {
  __shared__ __align__(16) float rows[2][store_threads];
  const int t = threadIdx.x;
  for (int i = 0; i < n; ++i) {
    float* row = rows[i % 2];
    if (t == 0) bulk_store_wait_read<1>();
    __syncthreads();  // this row's buffer may be written to
    row[t] = 2.0f * x[i * store_threads + t];
    fence_async_proxy();
    __syncthreads();
    if (t == 0) {
      bulk_store(y + i * store_threads, row, sizeof rows[0]);
      bulk_store_commit();
    }
  }
  if (t == 0) bulk_store_wait_read<0>();
}

// The first 64 elements of x go to y by a bulk copy and a bulk store, from there back by another copy, and in
// reverse order to the next 64. Nothing but asynchronous copies and stores touches the tile, so it needs no
// fence.
__global__ void store_copied(const float* x, float* y, int) {
  __shared__ __align__(16) float tile[store_threads];
  __shared__ std::uint64_t full;
  const int t = threadIdx.x;
  if (t == 0) {
    mbarrier_init(&full, 1);
    mbarrier_fence_init();
    mbarrier_arrive_expect_tx(&full, sizeof tile);
    bulk_copy(tile, x, sizeof tile, &full);
    mbarrier_wait(&full, 0);
    bulk_store(y, tile, sizeof tile);
    bulk_store_commit();
    bulk_store_wait<0>();
    mbarrier_arrive_expect_tx(&full, sizeof tile);
    bulk_copy(tile, y, sizeof tile, &full);
  }
  __syncthreads();
  mbarrier_wait(&full, 1);
  y[store_threads + t] = tile[store_threads - 1 - t];
}

// A tile whose element i is 1 + i % 251 is stored as a box.
template <typename T>
__global__ void store_box(const __grid_constant__ TensorMap map, Box box, int elements) {
  __shared__ __align__(1024) T tile[most_elements];
  for (int i = threadIdx.x; i < elements; i += store_threads) tile[i] = T(static_cast<float>(1 + i % 251));
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x != 0) return;
  tensor_store(map, box.col, box.row, box.matrix, tile);  // here: store_box
  bulk_store_commit();
  bulk_store_wait_read<0>();
}

// A tile that holds x as it is.
__global__ void store_lines(const float* x, const __grid_constant__ TensorMap map, int elements) {
  __shared__ __align__(1024) float tile[most_elements];
  for (int i = threadIdx.x; i < elements; i += store_threads) tile[i] = x[i];
  fence_async_proxy();
  __syncthreads();
  if (threadIdx.x != 0) return;
  tensor_store(map, 0, 0, 0, tile);
  bulk_store_commit();
  bulk_store_wait_read<0>();
}

}  // namespace
