// Kernels whose blocks exchange data, correctly and not.

#include "common/cuda/grid_flag.hpp"
#include "tests/unit/kernels.hpp"

namespace {

// ---- Correct kernels -------------------------------------------------------------------------------------

// Block after block: each adds one to what the block before it wrote, element by element from the other end,
// and to what the first block wrote, which it knows through all those between.
__global__ void chain_of_blocks(unsigned* flags, float* data, float* y, int) {
  const unsigned t = threadIdx.x, n = blockDim.x, b = blockIdx.x;
  float sum = 1.0f;
  if (b > 0) {
    if (t == 0) flag_wait_and_clear(&flags[b - 1]);
    __syncthreads();
    sum = 1.0f + __ldcg(&data[(b - 1) * n + n - 1 - t]) + 0.0f * data[n - 1 - t];
  }
  __stcg(&data[b * n + t], sum);
  __syncthreads();
  if (b + 1 < gridDim.x) {
    if (t == n - 1) flag_set(&flags[b]);
  } else {
    y[t] = sum;
  }
}

// The last block waits for all others, each by a thread of its own, which reads what that block wrote.
__global__ void wait_for_many(unsigned* flags, float* data, float* y, int) {
  const unsigned t = threadIdx.x, b = blockIdx.x, others = gridDim.x - 1;
  if (b < others) {
    if (t == 0) {
      data[b] = static_cast<float>(b + 1);
      flag_set(&flags[b]);
    }
  } else if (t < others) {
    flag_wait_and_clear(&flags[t]);
    y[t] = data[t];
  }
}

// A flag between two threads of a block: the last one writes, the first one reads.
__global__ void flag_inside_a_block(unsigned* flags, float* data, float* y, int) {
  const unsigned b = blockIdx.x;
  if (threadIdx.x == 0) {
    flag_wait_and_clear(&flags[b]);
    y[b] = data[b];
  }
  if (threadIdx.x == blockDim.x - 1) {
    data[b] = static_cast<float>(b);
    flag_set(&flags[b]);
  }
}

// The first block reads, the second writes over it.
__global__ void write_after_read(unsigned* flags, float* data, float* y, int) {
  const unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    y[t] = data[t];
    __syncthreads();
    if (t == 0) flag_set(flags);
  } else {
    if (t == 0) flag_wait_and_clear(flags);
    __syncthreads();
    data[blockDim.x - 1 - t] = 7.0f;
  }
}

// Whichever block comes last adds up what all have written. n: 1: it leaves out its fence, 2: the others
// theirs; 3: it makes the counter zero by an ordinary store; 4: the last but one does so.
__global__ void last_block_sums(unsigned* flags, float* data, float* y, int n) {
  __shared__ bool last;
  data[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
  if (n != 2) __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned ticket = atomicAdd(flags, 1u);  // here: ticket_beside_reset
    last = ticket == gridDim.x - 1;
    if (n != 1) __threadfence();
    if (n == 4 && ticket == gridDim.x - 2) flags[0] = 0;  // here: reset_beside_ticket
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  float sum = 0.0f;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) sum += data[i];  // here: last_block_sums
  y[0] = sum;
  if (n == 3) {
    flags[0] = 0;
  } else if (n != 4) {  // which has a store beside this, too, if the last block comes before it
    atomicExch(flags, 0u);
  }
}

// Everybody adds to the same elements. n: the thread of the last block that reads one of them.
__global__ void add_atomically(unsigned* flags, float* data, float* y, int n) {
  atomicAdd(flags, 1u);
  atomicAdd(reinterpret_cast<int*>(flags) + 1, -2);
  atomicAdd(&data[threadIdx.x % 2], 0.5f);
  if (is_last()) {
    y[0] = atomicExch(&data[2], 9.0f);
    y[1] = static_cast<float>(atomicExch(reinterpret_cast<int*>(flags) + 2, 5));
  }
  if (blockIdx.x == gridDim.x - 1 && static_cast<int>(threadIdx.x) == n) {
    y[2] = data[0];  // here: add_atomically
  }
}

__global__ void bypass_l1(unsigned*, float* data, float* y, int) {
  const unsigned t = threadIdx.x;
  auto* from = reinterpret_cast<float4*>(data) + 8;
  auto* to = reinterpret_cast<float4*>(y) + 8;
  __stcg(&y[t], __ldcg(&data[t]));   // here: bypass
  __stcg(&to[t], __ldcg(&from[t]));  // here: bypass4
}

// ---- Faulty kernels --------------------------------------------------------------------------------------

// The first block writes, the last one reads. n: what is left out, the sum of 1: the barrier before the flag
// is set, 2: the barrier behind waiting, 4: waiting. 8: the first block writes once more when it has set the
// flag.
__global__ void hand_over(unsigned* flags, float* data, float* y, int n) {
  const unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    if (t == 0 && (n & 1) != 0) flag_set(flags);
    data[t] = static_cast<float>(t);
    __syncthreads();
    if (t == 0 && (n & 1) == 0) flag_set(flags);
    if ((n & 8) != 0) data[t] = 0.0f;
  }
  if (blockIdx.x == gridDim.x - 1) {
    if (t == 0 && (n & 4) == 0) flag_wait_and_clear(flags);
    if ((n & 2) == 0) __syncthreads();
    const float value = data[blockDim.x - 1 - t];  // here: hand_over
    y[t] = value;
  }
}

// Block n waits for the last block; -1: for a flag that nobody sets.
__global__ void wait_for_later_block(unsigned* flags, float*, float*, int n) {
  if (threadIdx.x == 0) {
    if (n >= 0 && blockIdx.x == gridDim.x - 1) flag_set(&flags[2]);
    if (static_cast<int>(blockIdx.x) == max(n, 0))
      flag_wait_and_clear(&flags[2]);  // here: wait_for_later_block
  }
  __syncthreads();  // here: meanwhile
}

// The lanes of a warp want something of the one that waits.
__global__ void shuffle_while_waiting(unsigned* flags, float* data, float* y, int n) {
  const int t = static_cast<int>(threadIdx.x);
  if (t == n) flag_wait_and_clear(flags);  // here: shuffle_while_waiting
  y[t] = __shfl_sync(0xffffffff, data[t], n);
}

__global__ void set_flag_in_blocks(unsigned* flags, float*, float*, int n) {
  if (static_cast<int>(blockIdx.x) < n) flag_set(&flags[1]);  // here: set_flag_in_blocks
}

__global__ void wait_twice(unsigned* flags, float*, float*, int) {
  if (blockIdx.x == 0) {
    flag_set(flags);
    return;
  }
  flag_wait_and_clear(flags);  // here: first_wait
  flag_wait_and_clear(flags);  // here: second_wait
}

__global__ void set_flag_at(unsigned* flags, float*, float*, int n) {
  flag_set(flags + n);  // here: set_flag_at
}

__global__ void wait_for_flag_at(unsigned* flags, float*, float*, int n) {
  flag_wait_and_clear(flags + n);  // here: wait_for_flag_at
}

__global__ void add_misaligned(unsigned* flags, float*, float*, int n) {
  auto* address = reinterpret_cast<unsigned*>(reinterpret_cast<char*>(flags) + n);
  atomicAdd(address, 1u);  // here: add_misaligned
}

TEST_KERNELS(chain_of_blocks, wait_for_many, flag_inside_a_block, write_after_read, last_block_sums,
             add_atomically, bypass_l1, hand_over, wait_for_later_block, shuffle_while_waiting,
             set_flag_in_blocks, wait_twice, set_flag_at, wait_for_flag_at, add_misaligned)

}  // namespace
