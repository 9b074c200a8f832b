// Kernels in which threads write what asynchronous copies read or write over, and the other way round.

#include "common/cuda/async_copy.hpp"
#include "common/cuda/bulk_copy.hpp"
#include "common/cuda/bulk_store.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// Threads write a tile, then a copy writes over it. The fence: n is 0: by the requester, 1: by the writers,
// 2: by a third thread between two barriers, 3: nowhere, 4: before the writes, 5: by one writer only.
__global__ void copy_over_writes(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[64];
  __shared__ std::uint64_t full;
  init(&full, 1);
  const int t = static_cast<int>(threadIdx.x);
  if (n == 4) fence_async_proxy();
  slots[t] = 0.0f;  // here: written_before_copy
  if (n == 1 || (n == 5 && t == 0)) fence_async_proxy();
  __syncthreads();
  if (n == 2) {
    if (t == 7) fence_async_proxy();
    __syncthreads();
  }
  if (t == 63) {
    if (n == 0) fence_async_proxy();
    mbarrier_arrive_expect_tx(&full, 256);
    bulk_copy(slots, x, 256, &full);  // here: copy_over_writes
  }
  mbarrier_wait(&full, 0);
  y[t] = slots[t];
}

// What cp.async brought, which tells an mbarrier so, goes on by a bulk store. The fence: n is 0: by each
// thread that has waited, 1: before the copies, 2: nowhere, 3: by one thread for all, when all have waited.
__global__ void store_what_was_copied(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[64];
  __shared__ std::uint64_t full;
  init(&full, 64);
  const int t = static_cast<int>(threadIdx.x);
  if (n == 1) fence_async_proxy();
  async_copy<4>(&slots[t], &x[t], true);  // here: copied_before_store
  mbarrier_arrive_after_async_copies(&full);
  mbarrier_wait(&full, 0);
  if (n == 0) fence_async_proxy();
  __syncthreads();
  if (t == 63) {
    if (n == 3) fence_async_proxy();
    bulk_store(y, slots, 256);  // here: store_what_was_copied
    bulk_store_commit();
    bulk_store_wait<0>();
  }
}

// The fence is that of mbarrier_fence_init(), behind the writes.
__global__ void copy_over_writes_before_init(float* x, float* y, int) {
  __shared__ __align__(16) float slots[64];
  __shared__ std::uint64_t full;
  const int t = static_cast<int>(threadIdx.x);
  slots[t] = 0.0f;
  __syncthreads();
  init(&full, 1);
  if (t == 63) {
    mbarrier_arrive_expect_tx(&full, 256);
    bulk_copy(slots, x, 256, &full);
  }
  mbarrier_wait(&full, 0);
  y[t] = slots[t];
}

// A ring of one buffer: threads only read between two copies, which needs no fence.
__global__ void copy_over_reads(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[64];
  __shared__ std::uint64_t full;
  init(&full, 1);
  __syncthreads();
  const int t = static_cast<int>(threadIdx.x);
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (t == 0) {
      mbarrier_arrive_expect_tx(&full, 256);
      bulk_copy(slots, x + 64 * i, 256, &full);
    }
    mbarrier_wait(&full, i % 2);
    sum += slots[t];
    __syncthreads();
  }
  y[t] = sum;
}

// Threads pack what a copy of the same launch reads. n is 0: with a fence, 1: without, 2: with that of shared
// memory.
__global__ void pack_and_copy(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[64];
  __shared__ std::uint64_t full;
  init(&full, 1);
  const int t = static_cast<int>(threadIdx.x);
  x[64 + t] = x[63 - t];  // here: packed
  if (n == 0) fence_async_proxy_global();
  if (n == 2) fence_async_proxy();
  __syncthreads();
  if (t == 0) {
    mbarrier_arrive_expect_tx(&full, 256);
    bulk_copy(slots, x + 64, 256, &full);  // here: pack_and_copy
  }
  mbarrier_wait(&full, 0);
  y[t] = slots[t];
}

// What a bulk copy reads is written again, with the same value: n is 0: by a thread that has waited for the
// copy, 1: by the thread that asked for it, before it waits; 2: by another one, behind a barrier.
__global__ void bulk_source_written_again(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[4];
  __shared__ std::uint64_t full;
  init(&full, 1);
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) {
    mbarrier_arrive_expect_tx(&full, 16);
    bulk_copy(slots, x, 16, &full);  // here: bulk_source
    if (n == 1) x[2] = x[2] + 0.0f;  // here: bulk_written_by_requester
  }
  __syncthreads();
  if (n == 2 && t == 40) x[2] = x[2] + 0.0f;  // here: bulk_written_behind_barrier
  mbarrier_wait(&full, 0);
  if (n == 0 && t == 40) x[2] = x[2] + 0.0f;
  if (t == 0) y[0] = slots[2];
}

// The same with cp.async. n is 0: behind the wait and a barrier, 1: before the wait, by the same thread; 2:
// by another.
__global__ void async_source_written_again(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[64];
  const int t = static_cast<int>(threadIdx.x);
  async_copy<4>(&slots[t], &x[t], true);  // here: async_source
  async_copy_commit();
  if (n == 1) x[t] = x[t] + 0.0f;  // here: async_written_by_requester
  if (n == 2) {
    __syncthreads();
    if (t == 5) x[6] = x[6] + 0.0f;  // here: async_written_by_another
  }
  async_copy_wait<0>();
  __syncthreads();
  if (n == 0) x[t] = x[t] + 0.0f;
  y[t] = slots[63 - t];
}

// A copy that nobody waits for has read its source when its thread has left the kernel.
__global__ void async_copy_abandoned(float* x, float* y, int) {
  __shared__ __align__(16) float slots[64];
  const unsigned t = threadIdx.x;
  if (t < 32) {
    async_copy<4>(&slots[t], &x[t], true);
    async_copy_commit();
    return;
  }
  y[t] = 1.0f;
}

TEST_KERNELS(copy_over_writes, copy_over_writes_before_init, store_what_was_copied, copy_over_reads,
             pack_and_copy, bulk_source_written_again, async_source_written_again, async_copy_abandoned);

}  // namespace
