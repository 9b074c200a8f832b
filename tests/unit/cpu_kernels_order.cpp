// Kernels whose threads need an order, with the barriers for it and without.

#include "tests/unit/kernels.hpp"

namespace {

// Everybody reads everything; then, after a barrier, everything changes.
__global__ void read_barrier_write(float*, float* y, int n) {
  SHARED float slots[64];
  const unsigned t = threadIdx.x;
  slots[t] = 1.0f;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum += slots[i];
  __syncthreads();
  slots[(t + 1) % n] = sum;
  __syncthreads();
  y[t] = slots[t];
}

// No barrier, but each thread touches only its own elements, again and again.
__global__ void write_own_element(float*, float* y, int n) {
  SHARED float slots[64];
  const unsigned t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  slots[t] = 0.0f;
  y[i] = 0.0f;
  for (int round = 0; round < n; ++round) {
    slots[t] = slots[t] + 1.0f;
    if (slots[t] > 0.0f) y[i] = y[i] + slots[t];
  }
}

// In place in global memory, within one block.
__global__ void add_neighbour_after_barrier(float*, float* y, int n) {
  const unsigned t = threadIdx.x;
  const float sum = y[t] + y[(t + 1) % n];
  __syncthreads();
  y[t] = sum;
}

// ---- Faulty kernels -------------------------------------------------------------------------------------

// Threads run in the order of their numbers, up to the next barrier. Thread 0 and thread n:

__global__ void shared_write_then_read(float*, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  if (t == 0) slots[0] = 1.0f;
  if (t == n) y[0] = slots[0];  // here: shared_write_then_read
}

// Thread 0, which may read what it has written, does so at the same place before thread n. In a function of
// its own, or the compiler would keep the value for thread 0 in a register.
__attribute__((noinline)) float read_slot(const float* slot) {
  return *slot;  // here: shared_writer_reads_first
}
__global__ void shared_writer_reads_first(float*, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  if (t == 0) slots[0] = 1.0f;
  if (t == 0 || t == n) y[t] = read_slot(slots);
}

__global__ void shared_read_then_write(float*, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  if (t == n) slots[0] = 1.0f;
  __syncthreads();
  if (t == 0) y[0] = slots[0];
  if (t == n) slots[0] = 2.0f;  // here: shared_read_then_write
  __syncthreads();
  y[1] = slots[0];
}

__global__ void shared_write_twice(float*, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  if (t == 0 || t == n) slots[0] = static_cast<float>(t);  // here: shared_write_twice
  __syncthreads();
  y[0] = slots[0];
}

// Threads 0 and n read; thread n, whose read is the latest, writes.
__global__ void shared_readers_then_last_writes(float*, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  if (t == 0) slots[0] = 1.0f;
  __syncthreads();
  if (t == 0 || t == n) y[t] = slots[0];
  if (t == n) slots[0] = 2.0f;  // here: shared_readers_then_last_writes
  __syncthreads();
  y[0] = slots[0];
}

// __syncwarp orders a warp, not two.
__global__ void syncwarp_between_warps(float*, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  if (t == 0) slots[0] = 1.0f;
  __syncwarp();
  if (t == n) y[0] = slots[0];  // here: syncwarp_between_warps
}

// The same in global memory, by thread 0 of the first block and thread 0 of the last, or thread n of the
// only block.

__device__ bool is_first_party() { return block_number() == 0 && thread_number() == 0; }
__device__ bool is_second_party(int n) {
  return gridDim.x > 1 ? blockIdx.x == gridDim.x - 1 && thread_number() == 0
                       : static_cast<int>(thread_number()) == n;
}

__global__ void global_write_then_read(float* x, float* y, int n) {
  if (is_first_party()) y[0] = 1.0f;
  if (is_second_party(n)) x[0] = y[0];  // here: global_write_then_read
}

__global__ void global_read_then_write(float* x, float* y, int n) {
  if (is_first_party()) x[0] = y[0];
  if (is_second_party(n)) y[0] = 2.0f;  // here: global_read_then_write
}

__global__ void global_write_twice(float*, float* y, int n) {
  if (is_first_party() || is_second_party(n)) y[0] = 1.0f;  // here: global_write_twice
}

// In place and without a barrier. The owner reads each element last, and then writes it.
__global__ void global_add_neighbour(float*, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const float neighbour = i + 1 < n ? y[i + 1] : 0.0f;
  const float own = y[i];
  y[i] = own + neighbour;  // here: global_add_neighbour
}

__global__ void two_barriers(float*, float*, int n) {
  if (static_cast<int>(thread_number()) < n) {
    __syncthreads();  // here: first_barrier
  } else {
    __syncthreads();  // here: second_barrier
  }
}

__global__ void barriers_of_two_kinds(float*, float*, int n) {
  if (static_cast<int>(thread_number()) < n) {
    __syncwarp();  // here: warp_barrier
  } else {
    __syncthreads();  // here: block_barrier
  }
}

// All threads write the same, but thread n another value.
__global__ void equal_writes(float*, float* y, int n) {
  __shared__ float slot;
  slot = static_cast<int>(threadIdx.x) == n ? 2.0f : 1.0f;  // here: equal_writes
  __syncthreads();
  y[threadIdx.x] = slot;
}

TEST_KERNELS(equal_writes, read_barrier_write, write_own_element, add_neighbour_after_barrier,
             shared_write_then_read, shared_writer_reads_first, shared_read_then_write, shared_write_twice,
             shared_readers_then_last_writes, syncwarp_between_warps, global_write_then_read,
             global_read_then_write, global_write_twice, global_add_neighbour, two_barriers,
             barriers_of_two_kinds)

}  // namespace
