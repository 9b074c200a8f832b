// Kernels that copy asynchronously.

#include "common/cuda/async_copy.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// One thread asks for x[0..3] in four groups and changes x[0] before it waits. y: its four slots before,
// between and after the waits.
__global__ void async_copy_steps(float* x, float* y, int) {
  SHARED float slots[4];
  const auto look = [&] {
    for (const float& slot : slots) *y++ = slot;
  };
  for (float& slot : slots) slot = -1.0f;
  for (int i = 0; i < 4; ++i) {
    async_copy<4>(&slots[i], &x[i], true);
    async_copy_commit();
  }
  x[0] += 10.0f;
  look();
  async_copy_wait<4>();
  look();
  async_copy_wait<3>();
  look();
  async_copy_wait<1>();
  look();
  async_copy_wait<0>();
  look();
}

// The second of two copies is in no group when the thread first waits. y: the slots after the first wait and
// after the second.
__global__ void async_copy_not_committed(float* x, float* y, int) {
  SHARED float slots[2];
  async_copy<4>(&slots[0], &x[0], true);
  async_copy_commit();
  async_copy<4>(&slots[1], &x[1], true);
  async_copy_wait<0>();
  y[0] = slots[0];
  y[1] = slots[1];
  async_copy_commit();
  async_copy_wait<0>();
  y[2] = slots[0];
  y[3] = slots[1];
}

// Zeros, whatever x + n is. y: 4 + 8 + 16 bytes of them and what lies behind.
__global__ void async_copy_zeros(float* x, float* y, int n) {
  SHARED float slots[12];
  for (float& slot : slots) slot = 1.0f;
  async_copy<16>(&slots[0], x + n, false);
  async_copy<8>(&slots[4], x + n, false);
  async_copy<4>(&slots[6], x + n, false);
  async_copy_commit();
  async_copy_wait<0>();
  for (const float& slot : slots) *y++ = slot;
}

// Each block leaves with a copy that is in no group, and has more groups than the one before. y: its number.
__global__ void async_copy_left_behind(float* x, float* y, int) {
  SHARED float slots[1];
  slots[0] = static_cast<float>(blockIdx.x);
  for (unsigned i = 0; i <= blockIdx.x; ++i) async_copy_commit();
  async_copy_wait<0>();
  y[blockIdx.x] = slots[0];
  async_copy<4>(slots, x, true);
}

// y: x, each piece of n elements the other way round. Copies the next piece while it reads this one.
__global__ void async_double_buffer(float* x, float* y, int n) {
  SHARED float slots[2][64];
  const int t = static_cast<int>(threadIdx.x), pieces = 1024 / n;
  async_copy<4>(&slots[0][t], &x[t], true);
  async_copy_commit();
  for (int piece = 0; piece < pieces; ++piece) {
    async_copy_wait<0>();
    __syncthreads();
    if (piece + 1 < pieces) async_copy<4>(&slots[(piece + 1) % 2][t], &x[(piece + 1) * n + t], true);
    async_copy_commit();
    y[piece * n + t] = slots[piece % 2][n - 1 - t];
  }
}

// Inside a warp, its own barrier is enough.
__global__ void async_warp_exchange(float* x, float* y, int n) {
  SHARED float slots[64];
  const unsigned t = threadIdx.x, other = t / 32 * 32 + (t + n) % 32;
  async_copy<4>(&slots[t], &x[t], true);
  async_copy_commit();
  async_copy_wait<0>();
  __syncwarp();
  y[t] = slots[other];
}

// ---- Asynchronous copies, asked for by thread 0 ----------------------------------------------------------

__device__ void thread_0_copies(float* slot, const float* x, bool waits) {
  if (thread_number() != 0) return;
  async_copy<4>(slot, x, true);  // here: thread_0_copies
  async_copy_commit();
  if (waits) async_copy_wait<0>();
}

__global__ void async_read_before_wait(float* x, float* y, int n) {
  SHARED float slots[1];
  thread_0_copies(slots, x, false);
  __syncthreads();                                              // does not wait for copies
  if (static_cast<int>(thread_number()) == n) y[0] = slots[0];  // here: async_read_before_wait
  __syncthreads();
  async_copy_wait<0>();
}

// Of two copies under way, the wait is for the first.
__global__ void async_read_of_second_copy(float* x, float* y, int n) {
  SHARED float copied[2];
  thread_0_copies(&copied[0], x, false);
  thread_0_copies(&copied[1], x, false);
  async_copy_wait<1>();
  __syncthreads();
  if (static_cast<int>(thread_number()) == n) {
    y[0] = copied[0];
    y[1] = copied[1];  // here: async_read_of_second_copy
  }
}

__global__ void async_read_without_barrier(float* x, float* y, int n) {
  SHARED float slots[1];
  thread_0_copies(slots, x, true);
  if (static_cast<int>(thread_number()) == n) y[0] = slots[0];  // here: async_read_without_barrier
}

// Thread 0, which has waited, reads at the same place before thread n, which has not.
__global__ void async_starter_reads_first(float* x, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  thread_0_copies(slots, x, true);
  if (t == 0 || t == n) y[t] = slots[0];  // here: async_starter_reads_first
}

__global__ void async_barrier_before_wait(float* x, float* y, int n) {
  SHARED float slots[1];
  thread_0_copies(slots, x, false);
  __syncthreads();
  async_copy_wait<0>();
  if (static_cast<int>(thread_number()) == n) y[0] = slots[0];  // here: async_barrier_before_wait
}

__global__ void async_overwrite_pending(float* x, float* y, int n) {
  SHARED float slots[1];
  thread_0_copies(slots, x, false);
  __syncthreads();
  if (static_cast<int>(thread_number()) == n) slots[0] = 2.0f;  // here: async_overwrite_pending
  __syncthreads();
  async_copy_wait<0>();
  __syncthreads();
  y[0] = slots[0];
}

__global__ void async_copy_onto_pending(float* x, float*, int n) {
  SHARED float slots[1];
  thread_0_copies(slots, x, false);
  __syncthreads();
  if (static_cast<int>(thread_number()) == n) {
    async_copy<4>(slots, x + 1, true);  // here: async_copy_onto_pending
  }
}

// A copy may begin when it is asked for, however late it is waited for.
__global__ void async_copy_onto_read(float* x, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  if (t == 0) slots[0] = 1.0f;
  __syncthreads();
  if (t == 0) y[0] = slots[0];
  if (t == n) async_copy<4>(slots, x, true);  // here: async_copy_onto_read
  async_copy_commit();
  __syncthreads();
  async_copy_wait<0>();
}

// 16 bytes from x + n, or to the n-th element of dynamic shared memory.
__global__ void async_copy_from(float* x, float*, int n) {
  SHARED float slots[4];
  if (is_last()) async_copy<16>(slots, x + n, true);  // here: async_copy_from
  async_copy_commit();
  async_copy_wait<0>();
}

__global__ void async_copy_to(float* x, float*, int n) {
  auto* slots = static_cast<float*>(cpu_device::dynamic_shared());
  if (is_last()) async_copy<16>(slots + n, x, true);  // here: async_copy_to
  async_copy_commit();
  async_copy_wait<0>();
}

TEST_KERNELS(async_copy_steps, async_copy_not_committed, async_copy_zeros, async_copy_left_behind,
             async_double_buffer, async_warp_exchange, async_read_before_wait, async_read_of_second_copy,
             async_read_without_barrier, async_starter_reads_first, async_barrier_before_wait,
             async_overwrite_pending, async_copy_onto_pending, async_copy_onto_read, async_copy_from,
             async_copy_to)

}  // namespace
