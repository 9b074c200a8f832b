// Kernels that copy in bulk, or tell an mbarrier of their asynchronous copies.

#include "common/cuda/async_copy.hpp"
#include "common/cuda/bulk_copy.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// Two copies are asked for, and the source of the second is changed. y: what the slots hold when they are
// looked at without waiting, and after each of two waits.
__global__ void bulk_order(float* x, float* y, int) {
  __shared__ __align__(16) float slots[2][4];
  __shared__ std::uint64_t barriers[2];
  for (std::uint64_t& barrier : barriers) mbarrier_init(&barrier, 1);
  mbarrier_fence_init();
  for (int i = 0; i < 2; ++i) {
    mbarrier_arrive_expect_tx(&barriers[i], 16);
    bulk_copy(slots[i], x + 4 * i, 16, &barriers[i]);
  }
  x[4] += 10.0f;
  *y++ = slots[0][0];
  *y++ = slots[1][0];
  mbarrier_wait(&barriers[0], 0);
  *y++ = slots[0][0];
  *y++ = slots[1][0];
  mbarrier_wait(&barriers[1], 0);
  *y++ = slots[0][0];
  *y++ = slots[1][0];
}

// One thread waits for the copy, and a barrier lets all others know.
__global__ void bulk_after_syncthreads(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[256];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  const unsigned t = threadIdx.x;
  for (int round = 0; round < n; ++round) {
    if (t == 0) {
      mbarrier_arrive_expect_tx(&barrier, 1024);
      bulk_copy(slots, x + 256 * round, 1024, &barrier);
      mbarrier_wait(&barrier, round % 2);
    }
    __syncthreads();
    y[256 * round + t] = slots[255 - t];
    __syncthreads();
  }
}

// A warp copies 32 rows of n floats at once, one by each lane, onto one mbarrier, at which lane 0 has
// announced all of their bytes; the others add up the rows. A buffer for two tiles, 5 tiles, each 4 floats
// further on in x.
__global__ void bulk_rows_by_lanes(float* x, float* y, int n) {
  __shared__ __align__(16) float rows[2][32][256 + 4];
  __shared__ std::uint64_t full[2], empty[2];
  const unsigned t = threadIdx.x, readers = blockDim.x - 32;
  const auto row_bytes = static_cast<unsigned>(n) * 4;
  if (t == 0) {
    for (int i = 0; i < 2; ++i) {
      mbarrier_init(&full[i], 1);
      mbarrier_init(&empty[i], readers);
    }
    mbarrier_fence_init();
  }
  __syncthreads();
  float sum = 0.0f;
  for (int tile = 0; tile < 5; ++tile) {
    const int buffer = tile % 2, phase = tile / 2 % 2;
    if (t >= readers) {
      const unsigned lane = t - readers;
      mbarrier_wait(&empty[buffer], phase ^ 1);
      if (lane == 0) mbarrier_arrive_expect_tx(&full[buffer], 32 * row_bytes);
      __syncwarp();
      bulk_copy(rows[buffer][lane], x + 4 * tile + 16 * lane, row_bytes, &full[buffer]);
    } else {
      mbarrier_wait(&full[buffer], phase);
      for (int i = 0; i < n; ++i) sum += rows[buffer][t % 32][i];
      mbarrier_arrive(&empty[buffer]);
    }
  }
  if (t < readers) y[t] = sum;
}

__global__ void copies_arrive(float* x, float* y, int) {
  __shared__ float slots[64];
  __shared__ std::uint64_t barrier;
  init(&barrier, 64);
  const unsigned t = threadIdx.x;
  async_copy<4>(&slots[t], &x[t], true);
  mbarrier_arrive_after_async_copies(&barrier);
  mbarrier_wait(&barrier, 0);
  y[t] = slots[63 - t];
}

__global__ void bulk_misaligned(float* x, float*, int n) {
  __shared__ __align__(16) float slots[8];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_arrive_expect_tx(&barrier, 16);
  bulk_copy(slots + n % 10, x + n / 10 % 10, 16 + 4 * (n / 100), &barrier);  // here: bulk_misaligned
  mbarrier_wait(&barrier, 0);
}

__global__ void bulk_outside(float* x, float*, int n) {
  __shared__ __align__(16) float slots[16];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_arrive_expect_tx(&barrier, 64);
  bulk_copy(slots + n % 100, x + n / 100, 64, &barrier);  // here: bulk_outside
  mbarrier_wait(&barrier, 0);
}

// Thread n still reads what thread 0's copy overwrites.
__global__ void bulk_overwrites(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[4];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  const int t = static_cast<int>(threadIdx.x);
  if (t < 4) slots[t] = 0.0f;
  __syncthreads();
  if (t == n) y[0] = slots[1];  // here: bulk_overwrites_reader
  if (t == 63) {
    fence_async_proxy();
    mbarrier_arrive_expect_tx(&barrier, 16);
    bulk_copy(slots, x, 16, &barrier);  // here: bulk_overwrites
  }
  mbarrier_wait(&barrier, 0);
}

// Thread 0, which has waited for the first copy, reads at the same place before thread n, which has waited
// for the second one.
__global__ void bulk_starter_reads_first(float* x, float* y, int n) {
  __shared__ __align__(16) float slots[2][4];
  __shared__ std::uint64_t barriers[2];
  init(&barriers[0], 1);
  init(&barriers[1], 1);
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) {
    for (int i = 0; i < 2; ++i) {
      mbarrier_arrive_expect_tx(&barriers[i], 16);
      bulk_copy(slots[i], x + 4 * i, 16, &barriers[i]);  // here: bulk_waited_for
    }
  }
  mbarrier_wait(&barriers[t == 0 ? 0 : 1], 0);
  if (t == 0 || t == n) y[t] = slots[0][1];  // here: bulk_starter_reads_first
}

// Another thread changes what is copied from: while it may be copied, or (n is 1) when the copy has come.
__global__ void bulk_source_overwritten(float* x, float*, int n) {
  __shared__ __align__(16) float slots[4];
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  if (threadIdx.x == 0) {
    mbarrier_arrive_expect_tx(&barrier, 16);
    bulk_copy(slots, x, 16, &barrier);
  }
  if (n == 1) {
    mbarrier_wait(&barrier, 0);
    __syncthreads();
  }
  if (threadIdx.x == 1) x[2] = 1.0f;  // here: bulk_source_overwritten
  mbarrier_wait(&barrier, 0);
}

TEST_KERNELS(bulk_order, bulk_after_syncthreads, bulk_rows_by_lanes, copies_arrive, bulk_misaligned,
             bulk_outside, bulk_overwrites, bulk_starter_reads_first, bulk_source_overwritten)

}  // namespace
