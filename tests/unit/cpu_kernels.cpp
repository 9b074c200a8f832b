// Each place that a test expects in a report is marked by a comment "here: NAME".

#include "tests/unit/cpu_kernels.hpp"

#include "common/cuda/async_copy.hpp"

namespace {

// All shared variables start at multiples of 64 bytes, so that there is a gap after those that end between.
#define SHARED __shared__ __align__(64)

__device__ unsigned thread_number() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ unsigned threads_per_block() { return blockDim.x * blockDim.y * blockDim.z; }
__device__ unsigned block_number() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }

// ---- Right ones
// ---------------------------------------------------------------------------------------------

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
  y[t] = slots[n - 1 - t];
}

__global__ void copy_float4(float* x, float* y, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < static_cast<unsigned>(n)) {
    reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];  // here: copy_float4
  }
}

__global__ void copy_float2(float* x, float* y, int n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < static_cast<unsigned>(n)) {
    const float2 value = reinterpret_cast<const float2*>(x)[i];
    reinterpret_cast<float2*>(y)[i] = make_float2(value.x, value.y);
  }
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
  SHARED SharedOfHelpers slots;
  return slots;
}
__global__ void fill_shared(float*, float*, int) {
  shared_of_helper() = {{7, 7}, {7, 7, 7}, beside_kernels = 7};
}
SharedOfHelpers shared_of_helpers() {
  SharedOfHelpers seen = shared_of_helper();
  seen.beside = beside_kernels;
  return seen;
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

__global__ void copy_float(float* x, float* y, int) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const float value = x[i];  // here: load
  y[i] = value;              // here: store
}

__global__ void load_read_only(float* x, float* y, int) {
  const float4 v = __ldg(reinterpret_cast<const float4*>(x) + threadIdx.x);  // here: ldg_float4
  y[threadIdx.x] = __fmaf_rn(v.x, 2.0f, __ldg(x + threadIdx.x));             // here: ldg_float
}

__global__ void sum_float4(float* x, float* y, int) {
  const float4 v = reinterpret_cast<const float4*>(x)[threadIdx.x];  // here: load_float4
  y[threadIdx.x] = v.x + v.y + v.z + v.w;
}

__global__ void through_shared(float*, float* y, int n) {
  SHARED float slots[64];
  slots[threadIdx.x] = static_cast<float>(threadIdx.x);  // here: shared_store
  __syncthreads();
  y[threadIdx.x] = slots[n - 1 - threadIdx.x];  // here: shared_load
}

__global__ void float4_to_shared(float* x, float* y, int n) {
  SHARED float slots[128];
  reinterpret_cast<float4*>(slots)[threadIdx.x] = reinterpret_cast<const float4*>(x)[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = slots[n - 1 - threadIdx.x];
}

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

// Lanes from n on return; the others' __syncwarp does not wait for them.
__global__ void lanes_leave_early(float*, float* y, int n) {
  const unsigned t = threadIdx.x;
  if (t % 32 >= static_cast<unsigned>(n)) return;
  __syncwarp();
  y[t] = 1.0f;
}

// In place in global memory, within one block.
__global__ void add_neighbour_after_barrier(float*, float* y, int n) {
  const unsigned t = threadIdx.x;
  const float sum = y[t] + y[(t + 1) % n];
  __syncthreads();
  y[t] = sum;
}

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

// ---- Wrong ones
// ----------------------------------------------------------------------------------------------- In those
// with several blocks or threads, the last thread of the last block does it, unless it says otherwise.

__device__ bool is_last() {
  return block_number() == gridDim.x * gridDim.y * gridDim.z - 1 &&
         thread_number() == threads_per_block() - 1;
}

__global__ void write_at(float*, float* y, int n) {
  if (is_last()) y[n] = 1.0f;  // here: write_at
}

__global__ void read_at(float* x, float* y, int n) {
  if (is_last()) {
    const float value = x[n];  // here: read_at
    y[0] = value;
  }
}

__global__ void write_static_shared_at(float*, float* y, int n) {
  SHARED float slots[3];
  float* pointer = slots;
  if (!is_last()) return;
  pointer[0] = 1.0f;
  pointer[n] = 2.0f;  // here: write_static_shared_at
  y[0] = pointer[0];
}

__global__ void write_dynamic_shared_at(float*, float*, int n) {
  auto* slots = static_cast<float*>(cpu_device::dynamic_shared());
  if (is_last()) slots[n] = 1.0f;  // here: write_dynamic_shared_at
}

__global__ void index_static_shared(float*, float* y, int n) {
  SHARED float slots[16];
  SHARED float behind[16];
  if (!is_last()) return;
  for (int i = 0; i < 16; ++i) slots[i] = behind[i] = 1.0f;
  y[0] = slots[n];  // here: index_static_shared
  y[1] = behind[1];
}

__global__ void misaligned_float4(float* x, float* y, int n) {
  if (is_last()) {
    const float4 v = *reinterpret_cast<const float4*>(x + n);  // here: misaligned_float4
    y[0] = v.x + v.y + v.z + v.w;
  }
}

__global__ void misaligned_float(float* x, float* y, int n) {
  if (is_last()) {
    const float value = *reinterpret_cast<const float*>(reinterpret_cast<const char*>(x) + n);  // here: bytes
    y[0] = value;
  }
}

__global__ void read_unwritten_shared(float*, float* y, int n) {
  SHARED float slots[64];
  const unsigned t = thread_number();
  if (t < static_cast<unsigned>(n)) slots[t] = 1.0f;
  y[t] = slots[t];  // here: read_unwritten_shared
}

// Threads run in the order of their numbers, up to the next barrier. Thread 0 and thread n:

__global__ void shared_write_then_read(float*, float* y, int n) {
  SHARED float slots[1];
  const int t = static_cast<int>(thread_number());
  if (t == 0) slots[0] = 1.0f;
  if (t == n) y[0] = slots[0];  // here: shared_write_then_read
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

__global__ void one_leaves_before_barrier(float*, float*, int n) {
  if (static_cast<int>(thread_number()) == n) return;
  __syncthreads();  // here: one_leaves_before_barrier
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

__attribute__((noinline)) int depth(volatile int* below, int n) {
  volatile int here[64];
  here[0] = n;
  return n == 0 ? *below : depth(here, n - 1) + here[0];
}

__global__ void recurse(float*, float* y, int n) {
  volatile int start = 0;
  if (is_last()) y[0] = static_cast<float>(depth(&start, n));
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
  SHARED float slots[2];
  thread_0_copies(&slots[0], x, false);
  thread_0_copies(&slots[1], x, false);
  async_copy_wait<1>();
  __syncthreads();
  if (static_cast<int>(thread_number()) == n) {
    y[0] = slots[0];
    y[1] = slots[1];  // here: async_read_of_second_copy
  }
}

__global__ void async_read_without_barrier(float* x, float* y, int n) {
  SHARED float slots[1];
  thread_0_copies(slots, x, true);
  if (static_cast<int>(thread_number()) == n) y[0] = slots[0];  // here: async_read_without_barrier
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

}  // namespace

extern const Kernels KERNELS;
const Kernels KERNELS{
    .record_indices = record_indices,
    .block_exchange = block_exchange,
    .warp_exchange = warp_exchange,
    .reverse_in_dynamic_shared = reverse_in_dynamic_shared,
    .copy_float4 = copy_float4,
    .copy_float2 = copy_float2,
    .look_before_writing = look_before_writing,
    .fill_shared = fill_shared,
    .meet = meet,
    .copy_float = copy_float,
    .load_read_only = load_read_only,
    .sum_float4 = sum_float4,
    .through_shared = through_shared,
    .float4_to_shared = float4_to_shared,
    .read_barrier_write = read_barrier_write,
    .write_own_element = write_own_element,
    .lanes_leave_early = lanes_leave_early,
    .add_neighbour_after_barrier = add_neighbour_after_barrier,
    .async_copy_steps = async_copy_steps,
    .async_copy_not_committed = async_copy_not_committed,
    .async_copy_zeros = async_copy_zeros,
    .async_copy_left_behind = async_copy_left_behind,
    .async_double_buffer = async_double_buffer,
    .async_warp_exchange = async_warp_exchange,
    .shared_of_helpers = shared_of_helpers,
    .write_at = write_at,
    .read_at = read_at,
    .write_static_shared_at = write_static_shared_at,
    .write_dynamic_shared_at = write_dynamic_shared_at,
    .index_static_shared = index_static_shared,
    .misaligned_float4 = misaligned_float4,
    .misaligned_float = misaligned_float,
    .read_unwritten_shared = read_unwritten_shared,
    .shared_write_then_read = shared_write_then_read,
    .shared_read_then_write = shared_read_then_write,
    .shared_write_twice = shared_write_twice,
    .shared_readers_then_last_writes = shared_readers_then_last_writes,
    .syncwarp_between_warps = syncwarp_between_warps,
    .global_write_then_read = global_write_then_read,
    .global_read_then_write = global_read_then_write,
    .global_write_twice = global_write_twice,
    .global_add_neighbour = global_add_neighbour,
    .one_leaves_before_barrier = one_leaves_before_barrier,
    .two_barriers = two_barriers,
    .barriers_of_two_kinds = barriers_of_two_kinds,
    .recurse = recurse,
    .async_read_before_wait = async_read_before_wait,
    .async_read_of_second_copy = async_read_of_second_copy,
    .async_read_without_barrier = async_read_without_barrier,
    .async_barrier_before_wait = async_barrier_before_wait,
    .async_overwrite_pending = async_overwrite_pending,
    .async_copy_onto_pending = async_copy_onto_pending,
    .async_copy_onto_read = async_copy_onto_read,
    .async_copy_from = async_copy_from,
    .async_copy_to = async_copy_to,
};
