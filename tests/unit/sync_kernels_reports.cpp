// Kernels that access parts of words, and kernels whose blocks go wrong at different times.

#include "tests/unit/kernels.hpp"

namespace {

// ---- Parts of words --------------------------------------------------------------------------------------

using Half = std::uint16_t;

// Neighbours write the halves of a word, and a byte each; then whole words are read.
__global__ void halves(float*, float* y, int) {
  __shared__ __align__(8) Half slots[64];
  __shared__ __align__(8) unsigned char bytes[64];
  const unsigned t = threadIdx.x;
  slots[t] = static_cast<Half>(t);
  bytes[t] = static_cast<unsigned char>(t);
  __syncthreads();
  const auto* words = reinterpret_cast<const std::uint32_t*>(slots);
  y[t] = static_cast<float>(words[t / 2] >> t % 2 * 16 & 0xffff) +
         static_cast<float>(reinterpret_cast<const std::uint32_t*>(bytes)[t / 4] >> t % 4 * 8 & 0xff);
  __syncthreads();
  if (t < 32) reinterpret_cast<std::uint32_t*>(slots)[t] = 0;
}

__global__ void unwritten_half(float*, float* y, int n) {
  __shared__ __align__(4) Half slots[2];
  slots[n] = 1;
  const auto* word = reinterpret_cast<const std::uint32_t*>(slots);
  y[0] = static_cast<float>(*word);  // here: unwritten_half
}

// Thread 0 writes a half, and thread n the half with its number modulo 2.
__global__ void half_race(float*, float* y, int n) {
  __shared__ __align__(4) Half slots[2];
  const int t = static_cast<int>(threadIdx.x);
  if (t == 0 || t == n) slots[t % 2] = 1;  // here: half_race
  __syncthreads();
  y[0] = slots[0];
}

// Halves of the words of y, seen as Half.
__global__ void global_halves(float*, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) reinterpret_cast<Half*>(y)[i] = static_cast<Half>(i);  // here: global_halves
}

// ---- What is reported ------------------------------------------------------------------------------------

// The blocks from n on write where nobody may, each once; the last thread first, as the others wait.
__global__ void fault_in_blocks(float*, float* y, int n) {
  if (static_cast<int>(blockIdx.x) < n) return;
  if (threadIdx.x + 1 != blockDim.x) __syncwarp();
  y[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;  // here: fault_in_blocks
}

// Those from n on cannot go on; the one before does something wrong, late, and the last does so early.
__global__ void stop_in_blocks(float* x, float* y, int n) {
  const int block = static_cast<int>(blockIdx.x);
  if (block + 1 == n) {
    for (int i = 0; i < 1000; ++i) __syncthreads();
    x[block] = 1.0f;  // here: stop_late
  }
  if (block + 1 == static_cast<int>(gridDim.x)) x[block] = 1.0f;
  if (block >= n && threadIdx.x % 2 == 0) __syncthreads();
  y[block] = 1.0f;
  if (block >= n) __syncthreads();  // here: stop_in_blocks
}

// All blocks write the same.
__global__ void race_of_blocks(float*, float* y, int) {
  if (threadIdx.x == 0) y[0] = 1.0f;  // here: race_of_blocks
}

TEST_KERNELS(halves, global_halves, unwritten_half, half_race, fault_in_blocks, stop_in_blocks,
             race_of_blocks)

}  // namespace
