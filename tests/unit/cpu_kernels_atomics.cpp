// Kernels with atomic operations on shared memory.

#include "tests/unit/kernels.hpp"

namespace {

// How many of the threads' numbers have each remainder modulo n.
__global__ void histogram(float*, float* y, int n) {
  __shared__ unsigned bins[32];
  const unsigned t = threadIdx.x;
  if (t < 32) bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[t % static_cast<unsigned>(n)], 1u);
  __syncthreads();
  if (t < static_cast<unsigned>(n)) y[t] = static_cast<float>(bins[t]);
}

// y: the sum of x, by compare-and-swap; the greatest and the least thread number; how many threads there are;
// 4 and 1; the lowest of the bits 3 to 31 when the first eight have been cleared; and which numbers have been
// drawn.
__global__ void reductions(float* x, float* y, int) {
  __shared__ float total;
  __shared__ unsigned bits, least, tickets, flags;
  __shared__ int greatest, swapped;
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) {
    total = 0.0f;
    bits = 0;
    least = 0xffffffff;
    greatest = -1;
    swapped = 4;
    tickets = 0;
    flags = 0;
  }
  __syncthreads();
  for (unsigned seen = 0, old = 1; seen != old;) {
    seen = old == 1 ? atomicAdd(&bits, 0u) : old;
    old = atomicCAS(&bits, seen, __float_as_uint(__uint_as_float(seen) + x[t]));
  }
  atomicMax(&greatest, t);
  atomicMin(&least, static_cast<unsigned>(t));
  atomicAdd(&total, 1.0f);
  if (t == 7) atomicExch(&swapped, atomicExch(&swapped, 7) + 1);
  const unsigned ticket = atomicAdd(&tickets, 1u);
  y[8 + ticket] = 1.0f;
  if (t >= 3 && t < 32) atomicOr(&flags, 1u << t);
  __syncthreads();
  if (t < 8) atomicAnd(&flags, ~(1u << t));
  __syncthreads();
  if (t != 0) return;
  y[0] = __uint_as_float(bits);
  y[1] = static_cast<float>(greatest);
  y[2] = static_cast<float>(least);
  y[3] = total;
  y[4] = static_cast<float>(swapped);
  y[5] = static_cast<float>(__ffs(static_cast<int>(atomicOr(&flags, 0u))));
}

// Thread n reads before the barrier.
__global__ void read_beside_atomics(float*, float* y, int n) {
  __shared__ unsigned sum;
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) sum = 0;
  __syncthreads();
  if (t != n) atomicAdd(&sum, 1u);             // here: atomics_beside_a_read
  if (t == n) y[0] = static_cast<float>(sum);  // here: read_beside_atomics
  __syncthreads();
}

// Thread 0's zero is ordered before those of its warp, which come first, but not before the others'.
__global__ void zeroed_for_a_warp(float*, float*, int) {
  __shared__ unsigned sum;
  if (threadIdx.x == 0) sum = 0;  // here: zero_for_a_warp
  __syncwarp();
  atomicAdd(&sum, 1u);  // here: zeroed_for_a_warp
}

// The last to add is of the reader's warp, and ordered before it. Others are not.
__global__ void ordered_after_the_last(float*, float* y, int n) {
  __shared__ unsigned sum;
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0) sum = 0;
  __syncthreads();
  if (t < 32 && n == 1) atomicAdd(&sum, 1u);  // here: older_atomic
  if (t >= 32) {
    atomicAdd(&sum, 1u);
    __syncwarp();
    if (t == 40) y[0] = static_cast<float>(sum);  // here: ordered_after_the_last
  }
  __syncthreads();
}

__global__ void add_to_unwritten(float*, float*, int) {
  __shared__ unsigned sum;
  atomicAdd(&sum, 1u);  // here: add_to_unwritten
}

TEST_KERNELS(histogram, reductions, read_beside_atomics, zeroed_for_a_warp, ordered_after_the_last,
             add_to_unwritten)

}  // namespace
