// Kernels that show how a kernel runs: its indices, its barriers, its shared memory, its stack.

#include "tests/unit/kernels.hpp"

namespace {

// x: how often each thread of the grid ran; y: what it saw, four uint3.
__global__ void record_indices(float* x, float* y, int) {
  const unsigned number = block_number() * threads_per_block() + thread_number();
  ++reinterpret_cast<unsigned*>(x)[number];
  auto* seen = reinterpret_cast<unsigned*>(y) + 12 * number;
  const auto note = [&](const uint3& index) {
    *seen++ = index.x;
    *seen++ = index.y;
    *seen++ = index.z;
  };
  note(threadIdx);
  note(blockIdx);
  note(blockDim);
  note(gridDim);
}

// n rounds in which each thread writes its slot and reads that of a thread in the next warp.
// y: the number of rounds in which it read what it should.
__global__ void block_exchange(float*, float* y, int n) {
  SHARED float slots[1024];
  const unsigned t = thread_number(), other = (t + 33) % threads_per_block();
  int right = 0;
  for (int round = 0; round < n; ++round) {
    slots[t] = static_cast<float>(2000 * round + t);
    __syncthreads();
    right += slots[other] == static_cast<float>(2000 * round + other);
    __syncthreads();
  }
  y[block_number() * threads_per_block() + t] = static_cast<float>(right);
}

// The same inside each warp, with more rounds the higher the warp's number: no warp waits for another.
__global__ void warp_exchange(float*, float* y, int n) {
  SHARED float slots[1024];
  const unsigned t = thread_number(), other = t / 32 * 32 + (t + 5) % 32;
  int right = 0;
  for (int round = 0; round < n + static_cast<int>(t / 32); ++round) {
    slots[t] = static_cast<float>(2000 * round + t);
    __syncwarp();
    right += slots[other] == static_cast<float>(2000 * round + other);
    __syncwarp();
  }
  y[t] = static_cast<float>(right);
}

__global__ void reverse_in_dynamic_shared(float* x, float* y, int n) {
  auto* slots = static_cast<float*>(cpu_device::dynamic_shared());
  const unsigned t = thread_number();
  slots[t] = x[t];
  __syncthreads();
  y[t] = slots[n - 1 - t];  // here: reverse_in_dynamic_shared
}

// x: dynamic, y: static shared memory, as the thread finds it.
__global__ void look_before_writing(float* x, float* y, int) {
  SHARED float slots[32];
  auto* dynamic = static_cast<float*>(cpu_device::dynamic_shared());
  const unsigned t = thread_number(), number = block_number() * threads_per_block() + t;
  x[number] = dynamic[t];
  y[number] = slots[t];
  dynamic[t] = slots[t] = 1.0f;
}

// Shared variables that a host can name: of a helper, and beside the kernels.
SHARED float beside_kernels;
SharedOfHelpers& shared_of_helper() {
  SHARED SharedOfHelpers of_helpers;
  return of_helpers;
}
__global__ void fill_shared(float*, float*, int) {
  shared_of_helper() = {{7, 7}, {7, 7, 7}, beside_kernels = 7};
}
void shared_of_helpers(SharedOfHelpers* seen) {
  *seen = shared_of_helper();
  seen->beside = beside_kernels;
}

// Returns when n blocks run at the same time.
__global__ void meet(float* x, float*, int n) {
  auto* arrived = reinterpret_cast<volatile int*>(x);
  arrived[blockIdx.x] = 1;
  for (int i = 0; i < n; ++i) {
    while (arrived[i] == 0) {
    }
  }
}

// Lanes from n on return; the others' __syncwarp does not wait for them.
__global__ void lanes_leave_early(float*, float* y, int n) {
  const unsigned t = threadIdx.x;
  if (t % 32 >= static_cast<unsigned>(n)) return;
  __syncwarp();
  y[t] = 1.0f;
}

__attribute__((noinline)) int depth(volatile int* below, int n) {
  volatile int here[64];
  here[0] = n;
  return n == 0 ? *below : depth(here, n - 1) + here[0];
}

__global__ void recurse(float*, float* y, int n) {
  volatile int start = 0;
  if (is_last()) y[0] = static_cast<float>(depth(&start, n));
}

// n: 0: divides by it; 1: comes where nobody can; 2: aborts.
__global__ void end_by_signal(float*, float* y, int n) {
  if (!is_last()) return;
  if (n == 1) __builtin_trap();
  if (n == 2) __builtin_abort();
  y[0] = static_cast<float>(static_cast<int>(threadIdx.x) / n);
}

TEST_KERNELS(end_by_signal, record_indices, block_exchange, warp_exchange, reverse_in_dynamic_shared,
             look_before_writing, fill_shared, meet, lanes_leave_early, recurse, shared_of_helpers)

}  // namespace
