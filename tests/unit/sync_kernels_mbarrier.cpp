// Kernels that wait at mbarriers.

#include "common/cuda/bulk_copy.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// n rounds: thread 0 writes for all others, who answer each in its place.
__global__ void phases(float*, float* y, int n) {
  __shared__ std::uint64_t go, done;
  __shared__ float question, answers[256];
  const unsigned t = threadIdx.x, others = blockDim.x - 1;
  if (t == 0) mbarrier_init(&done, others);
  init(&go, 1);
  float sum = 0.0f;
  for (int round = 0; round < n; ++round) {
    if (t == 0) {
      question = static_cast<float>(round);
      mbarrier_arrive(&go);
      mbarrier_wait(&done, round % 2);
      for (unsigned i = 1; i <= others; ++i) sum += answers[i];
    } else {
      mbarrier_wait(&go, round % 2);
      answers[t] = question;
      mbarrier_arrive(&done);
    }
  }
  if (t == 0) y[0] = sum;
}

// The only thread looks for a phase that it ends itself, when it has looked often enough.
__global__ void polls(float*, float* y, int n) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  int tries = 0;
  while (!mbarrier_try_wait(&barrier, 0)) {
    if (++tries == n) mbarrier_arrive(&barrier);
  }
  y[0] = static_cast<float>(tries);
}

__global__ void hangs_polling(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 2);
  if (threadIdx.x == 0) mbarrier_arrive(&barrier);
  while (!mbarrier_try_wait(&barrier, 0)) {  // here: hangs_polling
  }
}

__global__ void producer_and_consumers(float*, float*, int) {
  __shared__ std::uint64_t full, empty;
  init(&full, 1);
  init(&empty, 1);
  if (threadIdx.x == 0) {
    mbarrier_arrive(&full);    // here: fills
    mbarrier_wait(&empty, 0);  // here: producer_and_consumers
  } else if (threadIdx.x >= 32) {
    mbarrier_wait(&full, 0);
    mbarrier_wait(&full, 1);  // here: consumes
  }
}

// The memory of an mbarrier serves twice.
__global__ void invalidated(float*, float* y, int) {
  __shared__ std::uint64_t barrier;
  for (unsigned count = 1; count <= 2; ++count) {
    init(&barrier, count);
    if (threadIdx.x < count) mbarrier_arrive(&barrier);
    mbarrier_wait(&barrier, 0);
    __syncthreads();
    if (threadIdx.x == 0) mbarrier_invalidate(&barrier);
    __syncthreads();
  }
  y[threadIdx.x] = 1.0f;
}

__global__ void no_init(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  mbarrier_arrive(&barrier);  // here: no_init
}

__global__ void init_twice(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  if (threadIdx.x == 0) mbarrier_init(&barrier, 1);  // here: init_twice
}

__global__ void init_without_barrier(float*, float*, int n) {
  __shared__ std::uint64_t barrier;
  if (threadIdx.x == 0) mbarrier_init(&barrier, 64);
  if (static_cast<int>(threadIdx.x) == n) mbarrier_arrive(&barrier);  // here: init_without_barrier
}

__global__ void no_fence(float* x, float*, int) {
  __shared__ __align__(16) float slots[4];
  __shared__ std::uint64_t barrier;
  mbarrier_init(&barrier, 1);
  mbarrier_arrive_expect_tx(&barrier, 16);
  bulk_copy(slots, x, 16, &barrier);  // here: no_fence
  mbarrier_wait(&barrier, 0);
}

// Phases that thread 0 completes alone; before the last one it waits for the one before if n says so.
__global__ void unawaited(float*, float*, int n) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_arrive(&barrier);
  mbarrier_wait(&barrier, 0);
  mbarrier_arrive(&barrier);
  if (n == 1) mbarrier_wait(&barrier, 1);
  mbarrier_arrive(&barrier);  // here: unawaited
}

__global__ void bad_parity(float*, float*, int n) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_wait(&barrier, static_cast<unsigned>(n));  // here: bad_parity
}

__global__ void too_many_arrivals(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_expect_tx(&barrier, 16);
  mbarrier_arrive(&barrier);
  mbarrier_arrive(&barrier);  // here: too_many_arrivals
}

__global__ void too_many_bytes(float*, float*, int n) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  mbarrier_expect_tx(&barrier, 1 << 19);
  mbarrier_expect_tx(&barrier, static_cast<unsigned>((1 << 19) - 1 + n));  // here: too_many_bytes
}

__global__ void overwritten_mbarrier(float*, float*, int) {
  __shared__ std::uint64_t barrier;
  init(&barrier, 1);
  barrier = 0;
  mbarrier_arrive(&barrier);  // here: overwritten_mbarrier
}

// Thread 1 waits for thread 0's arrival, and reads what that wrote after; or what thread 2 wrote, which did
// not arrive but only announced (n is 2).
__global__ void expect_is_no_arrive(float*, float* y, int n) {
  __shared__ std::uint64_t barrier;
  __shared__ float slots[1];
  init(&barrier, 1);
  const int t = static_cast<int>(threadIdx.x);
  if (t == 2) {
    if (n == 2) slots[0] = 1.0f;
    mbarrier_expect_tx(&barrier, 0);
  }
  if (t == 0) {
    mbarrier_arrive(&barrier);
    if (n == 0) slots[0] = 1.0f;
  }
  if (t == 1) {
    mbarrier_wait(&barrier, 0);
    mbarrier_wait(&barrier, 0);
  }
  if (t == 33) mbarrier_wait(&barrier, 0);
  if (t == 33) y[0] = slots[0];  // here: expect_is_no_arrive
}

// Thread 0 writes, its warp meets, lane 31 arrives, lane 40 waits, its warp meets, lane 63 reads.
__global__ void chain(float*, float* y, int) {
  __shared__ std::uint64_t barrier;
  __shared__ float slots[1];
  init(&barrier, 1);
  const unsigned t = threadIdx.x;
  if (t == 0) slots[0] = 3.0f;
  __syncwarp();
  if (t == 31) mbarrier_arrive(&barrier);
  if (t == 40) mbarrier_wait(&barrier, 0);
  __syncwarp();
  if (t == 63) y[0] = slots[0];
}

// Everybody reads one word, warp after warp, without a barrier of the block; at last thread 0 writes it.
// Thread n does not say that it has read; -1: everybody does.
__global__ void many_readers(float*, float* y, int n) {
  __shared__ std::uint64_t barrier, turn[32];
  __shared__ float slots[1];
  const unsigned t = threadIdx.x, warp = t / 32;
  if (t == 0) {
    slots[0] = 1.0f;
    for (unsigned i = 0; i < blockDim.x / 32; ++i) mbarrier_init(&turn[i], 1);
  }
  init(&barrier, blockDim.x - (n >= 0 ? 1 : 0));
  for (unsigned i = 0; i < warp; ++i) mbarrier_wait(&turn[i], 0);
  y[t] = slots[0];
  if (t % 32 == 0) mbarrier_arrive(&turn[warp]);
  if (static_cast<int>(t) != n) mbarrier_arrive(&barrier);
  if (t == 0) {
    mbarrier_wait(&barrier, 0);
    slots[0] = 2.0f;  // here: many_readers
  }
}

TEST_KERNELS(phases, polls, invalidated, chain, many_readers, unawaited, no_init, init_twice,
             init_without_barrier, no_fence, bad_parity, too_many_arrivals, too_many_bytes,
             overwritten_mbarrier, expect_is_no_arrive, hangs_polling, producer_and_consumers)

}  // namespace
