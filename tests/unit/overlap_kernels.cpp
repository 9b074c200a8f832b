// Kernels for launches that overlap, and non-coherent loads.

#include "common/cuda/dependent_launch.hpp"
#include "tests/unit/kernels.hpp"

namespace {

unsigned index() { return blockIdx.x * blockDim.x + threadIdx.x; }

// y = x + 1. n: the sum of 1: lets the next launch begin first, 2: waits before, 4: waits when it is done.
__global__ void add_one(float* x, float* y, int n) {
  if ((n & 1) != 0) let_next_launch_begin();  // here: lets_next_begin
  if ((n & 2) != 0) wait_for_previous_launch();
  y[index()] = x[index()] + 1.0f;  // here: add_one
  if ((n & 4) != 0) wait_for_previous_launch();
}

// One thread waits for all of its block, except that those from number n on do not wait for it.
__global__ void one_waits(float* x, float* y, int n) {
  if (threadIdx.x == 0) wait_for_previous_launch();
  if (static_cast<int>(threadIdx.x) < n) asm volatile("");  // whoever comes here has nothing to do
  if (n == 0) __syncthreads();
  y[index()] = x[index()] + 1.0f;  // here: one_waits
}

// Reads x, which is nobody else's, before it waits, and then adds what the launch before has left in y.
__global__ void prefetch(float* x, float* y, int) {
  const float value = x[index()];
  wait_for_previous_launch();
  y[index()] += value;
}

__global__ void add_atomically_early(float*, float* y, int) { atomicAdd(&y[0], 1.0f); }

__global__ void only_waits(float*, float*, int) { wait_for_previous_launch(); }

// y = x by non-coherent loads. n: 1: waits first.
__global__ void load_noncoherent(float* x, float* y, int n) {
  if (n == 1) wait_for_previous_launch();
  y[index()] = __ldg(&x[index()]);  // here: load_noncoherent
}

// Each thread reads what another thread of its block has written.
__global__ void write_then_load(float*, float* y, int n) {
  y[index()] = 1.0f;  // here: written_before
  __syncthreads();
  const float value =
      __ldg(&y[blockIdx.x * blockDim.x + blockDim.x - 1 - threadIdx.x]);  // here: write_then_load
  if (n == 1) y[1024 + index()] = value;
}

// Each thread changes what it has read itself.
__global__ void load_then_write(float*, float* y, int) {
  const float value = __ldg(&y[index()]);  // here: loaded_before
  y[index()] = value + 1.0f;               // here: load_then_write
}

// Half of the elements are read, the others written, of the same array.
__global__ void load_beside(float*, float* y, int) { y[2 * index() + 1] = __ldg(&y[2 * index()]); }

// A float4, of which the last element is written by another thread.
__global__ void load_vector(float* x, float* y, int) {
  if (is_last()) x[3] = 2.0f;
  __syncthreads();
  if (threadIdx.x != 0) return;
  const float4 four = __ldg(reinterpret_cast<const float4*>(x));  // here: load_vector
  y[0] = four.w;
}

TEST_KERNELS(add_one, one_waits, prefetch, add_atomically_early, only_waits, load_noncoherent,
             write_then_load, load_then_write, load_beside, load_vector)

}  // namespace
