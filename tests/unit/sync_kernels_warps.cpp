// Kernels that shuffle, meet at barriers of some threads, or do something as a whole warp.

#include "common/cuda/named_barrier.hpp"
#include "tests/unit/kernels.hpp"

// Every thread of a warpgroup gets the sum of all operands. Defined in sync_warps_test.cpp: the device's
// operations are not compiled for observation.
void warpgroup_sum(float* operand, int line);

namespace {

constexpr unsigned all_lanes = 0xffffffff;

// ---- Shuffles --------------------------------------------------------------------------------------------

// Each lane brings x[lane]; y: what it gets by four operations, 32 values each. n: the width and the
// distance.
template <typename T>
__device__ void shuffle_values(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x), width = n / 100, by = n % 100;
  const T value = static_cast<T>(x[lane]);
  y[lane] = static_cast<float>(__shfl_sync(all_lanes, value, by, width));
  y[32 + lane] = static_cast<float>(__shfl_up_sync(all_lanes, value, by, width));
  y[64 + lane] = static_cast<float>(__shfl_down_sync(all_lanes, value, by, width));
  y[96 + lane] = static_cast<float>(__shfl_xor_sync(all_lanes, value, by, width));
}
__global__ void shuffle_floats(float* x, float* y, int n) { shuffle_values<float>(x, y, n); }
__global__ void shuffle_ints(float* x, float* y, int n) { shuffle_values<int>(x, y, n); }
__global__ void shuffle_doubles(float* x, float* y, int n) { shuffle_values<double>(x, y, n); }

// Each lane brings x[lane] - n; y: the bits of the sum, the least and the largest, as signed or unsigned
// numbers. Even and odd lanes reduce apart.
template <typename T>
__device__ void reduce_values(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = lane % 2 == 0 ? 0x55555555 : 0xaaaaaaaa;
  const T value = static_cast<T>(static_cast<int>(x[lane]) - n);
  y[lane] = __uint_as_float(static_cast<unsigned>(__reduce_add_sync(mask, value)));
  y[32 + lane] = __uint_as_float(static_cast<unsigned>(__reduce_min_sync(mask, value)));
  y[64 + lane] = __uint_as_float(static_cast<unsigned>(__reduce_max_sync(mask, value)));
}
__global__ void reduce_ints(float* x, float* y, int n) { reduce_values<int>(x, y, n); }
__global__ void reduce_unsigneds(float* x, float* y, int n) { reduce_values<unsigned>(x, y, n); }

// Lane n is gone.
__global__ void reduce_without_lane(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == n) return;
  y[lane] = static_cast<float>(__reduce_max_sync(all_lanes, static_cast<int>(x[lane])));
}

// Lane n brings an unsigned, the others an int.
__global__ void reduce_mixed(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == n) {
    y[lane] = static_cast<float>(__reduce_min_sync(all_lanes, 1u));  // here: reduce_unsigned
  } else {
    y[lane] =
        static_cast<float>(__reduce_min_sync(all_lanes, static_cast<int>(x[lane])));  // here: reduce_mixed
  }
}

// The lower n lanes rotate their values; the others are somewhere else, or gone.
__global__ void shuffle_in_part(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned mask = (1u << n) - 1;
  if (lane > n) return;
  if (lane < n) y[lane] = __shfl_sync(mask, x[lane], (lane + 1) % n);
}

// Lane n is gone, and the one below wants its value.
__global__ void shuffle_without_source(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == n) return;
  y[lane] = __shfl_down_sync(all_lanes, x[lane], 1);  // here: shuffle_without_source
}

__global__ void shuffle_elsewhere(float* x, float* y, int n) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane == n) {
    __syncthreads();  // here: lane_elsewhere
  } else {
    y[lane] = __shfl_xor_sync(all_lanes, x[lane], 1);  // here: shuffle_elsewhere
  }
}

__global__ void syncwarp_without_itself(float*, float*, int n) {
  __syncwarp(all_lanes & ~(1u << n));  // here: syncwarp_without_itself
}

// Values go round, but memory is not ordered.
__global__ void shuffle_is_no_barrier(float* x, float* y, int n) {
  __shared__ float slots[32];
  const unsigned lane = threadIdx.x;
  slots[lane] = x[lane];
  const float value = __shfl_xor_sync(all_lanes, x[lane], n);
  y[lane] = value + slots[lane ^ static_cast<unsigned>(n)];  // here: shuffle_is_no_barrier
}

// ---- Operations of a warpgroup ---------------------------------------------------------------------------

// Thread n leaves before. Two rounds; in between, the warps of the first warpgroup run apart.
__global__ void sums_of_warpgroups(float* x, float* y, int n) {
  const int t = static_cast<int>(threadIdx.x);
  if (t == n) return;
  float sum = x[t];
  warpgroup_sum(&sum, __LINE__);  // here: sums_of_warpgroups
  for (int i = 0; i < t / 32 && t < 128; ++i) __syncwarp();
  warpgroup_sum(&sum, __LINE__);
  y[t] = sum;
}

// ---- Barriers of some threads ----------------------------------------------------------------------------

// Each half of a warp exchanges values, the upper half n times.
__global__ void halves_of_a_warp(float*, float* y, int n) {
  __shared__ float slots[64];
  const unsigned t = threadIdx.x, half = t / 16, lanes = half % 2 == 0 ? 0x0000ffff : 0xffff0000;
  int right = 0;
  for (int round = 0; round < (half % 2 == 0 ? 1 : n); ++round) {
    slots[t] = static_cast<float>(round);
    __syncwarp(lanes);
    right += slots[half * 16 + (t + 1) % 16] == static_cast<float>(round);
    __syncwarp(lanes);
  }
  y[t] = static_cast<float>(right);
}

// Thread n reads what thread 0 wrote; both halves of the warp have had a barrier, but not the same one.
__global__ void across_halves(float*, float* y, int n) {
  __shared__ float slots[1];
  const unsigned t = threadIdx.x;
  if (t == 0) slots[0] = 1.0f;
  __syncwarp(t % 32 < 16 ? 0x0000ffff : 0xffff0000);
  if (static_cast<int>(t) == n) y[0] = slots[0];  // here: across_halves
}

// Warp by warp: each adds one to all that the warp before it wrote, and lets the next one go on. n rounds.
__global__ void chain_of_named_barriers(float*, float* y, int n) {
  __shared__ float slots[32];
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int round = 0; round < n; ++round) {
    if (round > 0 || warp > 0) named_barrier_sync(1 + warp, 64);
    slots[31 - lane] = round == 0 && warp == 0 ? 1.0f : slots[31 - lane] + 1.0f;
    __syncwarp();
    if (round + 1 < n || warp + 1 < warps) named_barrier_arrive(1 + (warp + 1) % warps, 64);
  }
  if (warp + 1 == warps) y[lane] = slots[lane];
}

// Warp 1 only says that it has come, and does not wait for what warp 0 wrote before.
__global__ void arrive_is_no_wait(float*, float* y, int) {
  __shared__ float slots[1];
  const unsigned t = threadIdx.x;
  if (t == 0) slots[0] = 1.0f;
  if (t < 32) {
    named_barrier_sync(1, 64);
  } else {
    named_barrier_arrive(1, 64);
  }
  if (t == 40) y[0] = slots[0];  // here: arrive_is_no_wait
}

// A warp comes as a whole, even if some of its lanes are gone, or never were. y: what the other warp wrote.
__global__ void named_barrier_without_some(float* x, float* y, int n) {
  __shared__ float slots[64];
  const unsigned t = threadIdx.x;
  if (static_cast<int>(t % 32) >= n) return;
  slots[t] = x[t];
  named_barrier_sync(1, 64);
  y[t] = slots[t ^ 32];
}

// The same warp comes twice, and opens the barrier for the other one.
__global__ void named_barrier_twice(float*, float* y, int) {
  __shared__ float slots[1];
  const unsigned t = threadIdx.x;
  if (t == 0) slots[0] = 1.0f;
  if (t < 32) {
    __syncwarp();
    named_barrier_arrive(1, 96);
    named_barrier_arrive(1, 96);
  } else {
    named_barrier_sync(1, 96);
    y[t] = slots[0];
  }
}

__global__ void named_barrier_number(float*, float*, int n) {
  named_barrier_sync(static_cast<unsigned>(n), 64);  // here: named_barrier_number
}

__global__ void named_barrier_count(float*, float*, int n) {
  named_barrier_sync(1, static_cast<unsigned>(n));  // here: named_barrier_count
}

__global__ void named_barrier_too_few(float*, float*, int) {
  if (threadIdx.x < 32) named_barrier_sync(3, 64);  // here: named_barrier_too_few
}

__global__ void named_barrier_half_a_warp(float*, float*, int) {
  if (threadIdx.x % 32 < 16) named_barrier_sync(3, 32);  // here: named_barrier_half_a_warp
  __syncthreads();
}

TEST_KERNELS(shuffle_floats, shuffle_ints, shuffle_doubles, shuffle_in_part, reduce_ints, reduce_unsigneds,
             reduce_without_lane, reduce_mixed, sums_of_warpgroups, halves_of_a_warp, chain_of_named_barriers,
             named_barrier_without_some, named_barrier_twice, shuffle_without_source, shuffle_elsewhere,
             syncwarp_without_itself, across_halves, shuffle_is_no_barrier, arrive_is_no_wait,
             named_barrier_number, named_barrier_count, named_barrier_too_few, named_barrier_half_a_warp)

}  // namespace
