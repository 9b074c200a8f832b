// Kernels whose threads read the same again and again, and kernels that do not end.

#include "common/cuda/named_barrier.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// The second block reads what the first one wrote, behind a flag made by hand, of volatile accesses and
// fences. n is 1: without the fence before it; 2: without the one after it.
__global__ void volatile_flag(unsigned* flags, float* data, float* y, int n) {
  volatile unsigned* flag = flags;
  const unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    data[t] = 5.0f;
    __syncthreads();
    if (t == 0) {
      if (n != 1) __threadfence();
      *flag = 1;
    }
  } else if (blockIdx.x == 1) {
    if (t == 0) {
      while (*flag == 0) {
      }
      *flag = 0;
      if (n != 2) __threadfence();
    }
    __syncthreads();
    y[t] = data[t];  // here: volatile_flag
  }
}

// Two warps hand a number to and fro, each reading until the other has written, n times.
__global__ void to_and_fro(unsigned* flags, float* data, float* y, int n) {
  volatile unsigned* turn = flags;
  const unsigned warp = threadIdx.x / 32;
  if (threadIdx.x % 32 != 0) return;
  for (int i = 0; i < n; ++i) {
    while (*turn % 2 != warp) {
    }
    __threadfence();
    data[0] = (i == 0 && warp == 0 ? 0.0f : data[0]) + 1.0f;
    __threadfence();
    *turn = *turn + 1;
  }
  while (*turn != 2u * static_cast<unsigned>(n)) {
  }
  if (warp == 1) y[0] = data[0];
}

// It reads what nobody writes.
__global__ void spin_for_nobody(unsigned* flags, float*, float* y, int) {
  volatile unsigned* flag = flags;
  while (*flag == 0) {  // here: spin_for_nobody
  }
  y[0] = 1.0f;
}

// A lock: whoever exchanges a 0 for a 1 has it.
__global__ void spin_lock(unsigned* flags, float* data, float* y, int) {
  if (threadIdx.x != 0) return;
  while (atomicExch(&flags[0], 1u) != 0) {
  }
  __threadfence();
  data[0] = (blockIdx.x == 0 && data[1] != 1.0f ? 0.0f : data[0]) + 1.0f;
  data[1] = 1.0f;
  y[blockIdx.x] = data[0];
  __threadfence();
  atomicExch(&flags[0], 0u);
}

// Counts to n by steps that are 0 for n < 0.
__global__ void count(unsigned*, float* data, float* y, int n) {
  const int step = n < 0 ? 0 : 1;
  float sum = 0.0f;
  for (int i = 0; i != n; i += step) sum += data[0];  // here: count
  y[0] = sum;
}

// The same with a barrier in the loop.
__global__ void count_together(unsigned*, float* data, float* y, int n) {
  const int step = n < 0 ? 0 : 1;
  float sum = 0.0f;
  for (int i = 0; i != n; i += step) {
    sum += data[threadIdx.x];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}

// Reads one element more often than a thread does that waits for it.
__global__ void read_often(unsigned*, float* data, float* y, int n) {
  const volatile float* one = data;
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += *one;
  y[threadIdx.x] = sum;
}

// Each warp notes in its turn that it has been there; the number of the barrier is n.
__global__ void order_of_warps(unsigned* flags, float*, float* y, int) {
  if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = static_cast<float>(atomicAdd(&flags[0], 1u));
  if (threadIdx.x / 32 < 2) named_barrier_sync(1, 64);
  __syncthreads();
  if (threadIdx.x == 0) flags[0] = 0;
}

TEST_KERNELS(volatile_flag, to_and_fro, spin_for_nobody, spin_lock, count, count_together, read_often,
             order_of_warps);

}  // namespace
