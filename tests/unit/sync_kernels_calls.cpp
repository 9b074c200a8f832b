// Kernels whose threads come to a barrier, or to an operation of their warp, by different calls; and kernels
// whose threads leave early.

#include "common/cuda/mma.hpp"
#include "common/cuda/named_barrier.hpp"
#include "tests/unit/kernels.hpp"

namespace {

constexpr unsigned all_lanes = 0xffffffff;

// ---- Barriers behind one line ----------------------------------------------------------------------------

__device__ __forceinline__ void fill(float* slot, float value) {
  *slot = value;
  __syncthreads();  // here: barrier_in_fill
}

// The threads below n come by one call, the others by another.
__global__ void one_barrier_two_calls(float*, float* y, int n) {
  __shared__ float slots[64];
  const unsigned t = threadIdx.x;
  if (static_cast<int>(t) < n) {
    fill(&slots[t], 1.0f);  // here: first_fill
  } else {
    fill(&slots[t], 2.0f);  // here: second_fill
  }
  y[t] = slots[t ^ 1];
}

__attribute__((noinline)) void fill_by_call(float* slot, float value) {
  *slot = value;
  __syncthreads();  // here: barrier_in_fill_by_call
}

__global__ void one_barrier_two_real_calls(float*, float* y, int n) {
  __shared__ float slots[64];
  const unsigned t = threadIdx.x;
  if (static_cast<int>(t) < n) {
    fill_by_call(&slots[t], 1.0f);  // here: first_real_fill
  } else {
    fill_by_call(&slots[t], 2.0f);  // here: second_real_fill
  }
  y[t] = slots[t ^ 1];
}

// The same calls by all threads, one after the other; the compiler may unroll the loop, and repeat its
// barrier in two branches.
__global__ void barriers_in_turn(float*, float* y, int n) {
  __shared__ float slots[2][64];
  const unsigned t = threadIdx.x;
  const bool low = static_cast<int>(t) < n;
  float sum = 0.0f;
#pragma GCC unroll 4
  for (int i = 0; i < 8; ++i) {
    if (low) sum += 1.0f;
    fill(&slots[0][t], sum);
    if (low) sum -= 1.0f;
    fill_by_call(&slots[1][t], sum);
    sum += slots[0][t ^ 1] + slots[1][t ^ 1];
    __syncthreads();
  }
  y[t] = sum;
}

// ---- Operations of a warp in both branches ---------------------------------------------------------------

// The lanes below n and the others come by different calls. y: what the lane beside it wrote, and brought.
__global__ void meet_from_two_branches(float* x, float* y, int n) {
  __shared__ float slots[32];
  const unsigned lane = threadIdx.x;
  float got;
  if (static_cast<int>(lane) < n) {
    slots[lane] = x[lane];
    __syncwarp();
    got = __shfl_xor_sync(all_lanes, x[lane], 1);
  } else {
    slots[lane] = -x[lane];
    __syncwarp();
    got = __shfl_xor_sync(all_lanes, -x[lane], 1);
  }
  y[lane] = slots[lane ^ 1];
  y[32 + lane] = got;
}

// Both say something about the lanes of the lower half.
__global__ void meet_with_two_masks(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < n) {
    y[lane] = __shfl_sync(0x0000ffff, x[lane], 0);  // here: smaller_mask
  } else {
    y[lane] = __shfl_sync(all_lanes, x[lane], 0);  // here: larger_mask
  }
}

// Lanes below n exchange values, but one of them wants that of lane n.
__global__ void shuffle_from_outside(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane < n) y[lane] = __shfl_down_sync((1u << n) - 1, x[lane], 1);  // here: shuffle_from_outside
}

__device__ __forceinline__ void multiply(float (&d)[4], std::uint32_t bits) {
  const std::uint32_t a[4] = {bits, bits, bits, bits}, b[2] = {bits, bits};
  mma_bf16(d, a, b);  // here: mma_in_multiply
}

// mma, unlike the others, is for lanes that are at the same place.
__global__ void mma_from_two_branches(float*, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  float d[4] = {};
  if (lane < n) {
    multiply(d, 0x3f803f80);  // here: first_multiply
  } else {
    multiply(d, 0x40004000);  // here: second_multiply
  }
  y[lane] = d[0];
}

// ---- Named barriers --------------------------------------------------------------------------------------

// Warps come by different calls, or, if n is no multiple of 32, lanes of a warp.
__global__ void named_barrier_two_calls(float*, float* y, int n) {
  __shared__ float slots[64];
  const unsigned t = threadIdx.x;
  slots[t] = static_cast<float>(t);
  if (static_cast<int>(t) < n) {
    named_barrier_sync(1, 64);  // here: first_named
  } else {
    named_barrier_sync(1, 64);  // here: second_named
  }
  y[t] = slots[t ^ 32];
}

// ---- Threads that leave ----------------------------------------------------------------------------------

// From n on they have nothing to do. The others go round three times.
__global__ void some_leave_before_barriers(float* x, float* y, int n) {
  __shared__ float slots[128];
  const int t = static_cast<int>(threadIdx.x);
  if (t >= n) return;
  float value = x[t];
  for (int i = 0; i < 3; ++i) {
    slots[t] = value;
    __syncthreads();
    value = slots[(t + 1) % n];
    __syncthreads();
  }
  y[t] = value;
}

// The last one leaves when the others wait already.
__global__ void one_leaves_late(float* x, float* y, int n) {
  __shared__ float slots[128];
  const int t = static_cast<int>(threadIdx.x), last = static_cast<int>(blockDim.x) - 1;
  if (t == last) {
    for (int i = 0; i < n; ++i) __syncwarp(1u << t % 32);
    return;
  }
  slots[t] = x[t];
  __syncthreads();
  y[t] = slots[(t + 1) % last];
}

// Nobody waits for thread n, nor for what it wrote.
__global__ void leaves_after_writing(float*, float* y, int n) {
  __shared__ float slots[64];
  const int t = static_cast<int>(threadIdx.x);
  slots[t] = 1.0f;  // here: wrote_and_left
  if (t == n) return;
  __syncthreads();
  y[t] = slots[(t + 1) % 64];  // here: leaves_after_writing
}

TEST_KERNELS(one_barrier_two_calls, one_barrier_two_real_calls, barriers_in_turn, meet_from_two_branches,
             meet_with_two_masks, shuffle_from_outside, mma_from_two_branches, named_barrier_two_calls,
             some_leave_before_barriers, one_leaves_late, leaves_after_writing)

}  // namespace
