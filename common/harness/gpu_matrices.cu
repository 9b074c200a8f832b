#include <algorithm>

#include "common/cuda/check.hpp"
#include "common/harness/gpu_buffer.hpp"
#include "common/harness/gpu_matrices.hpp"
#include "common/harness/random.hpp"
#include "common/poison.hpp"

namespace harness::gpu {

namespace {

constexpr int threads = 256;

// Blocks of `threads` for `count` elements; if there are more, the kernels below stride over the rest.
int blocks_for(std::int64_t count) {
  return static_cast<int>(std::min<std::int64_t>((count + threads - 1) / threads, 1 << 16));
}

__device__ std::int64_t first_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ std::int64_t index_step() { return std::int64_t{gridDim.x} * blockDim.x; }

__global__ void poison_kernel(std::uint32_t* words, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) words[i] = poison_bits;
}

// Where element number i, counted as if the batch were dense, lies.
__device__ std::int64_t offset_of(const Extent& e, std::int64_t i) {
  return e.offset_of_line(i / e.cols) + i % e.cols;
}

template <typename T>
__global__ void fill_kernel(T* data, Extent e, std::uint64_t seed, int significand_bits) {
  for (std::int64_t i = first_index(); i < e.lines() * e.cols; i += index_step()) {
    data[offset_of(e, i)] = T(uniform(seed, i, significand_bits));
  }
}

__global__ void copy_kernel(float* to, const float* from, Extent e) {
  for (std::int64_t i = first_index(); i < e.lines() * e.cols; i += index_step()) {
    to[offset_of(e, i)] = from[offset_of(e, i)];
  }
}

struct Stray {
  unsigned long long count, first;
};

template <typename Word>
__global__ void stray_kernel(const Word* words, std::int64_t count, std::int64_t origin, Extent e,
                             Stray* stray) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    if (words[i] == poison_pattern<Word> || e.holds(i - origin)) continue;
    atomicAdd(&stray->count, 1ull);
    atomicMin(&stray->first, static_cast<unsigned long long>(i));
  }
}

}  // namespace

void poison(void* buffer, std::size_t bytes) {
  const auto words = static_cast<std::int64_t>(bytes / sizeof poison_bits);
  poison_kernel<<<blocks_for(words), threads>>>(static_cast<std::uint32_t*>(buffer), words);
  CUDA_CHECK(cudaGetLastError());
}

void fill_uniform(void* data, Input type, const Extent& e, std::uint64_t seed) {
  if (e.lines() * e.cols == 0) return;
  with_element(type, [&]<typename T>(T) {
    fill_kernel<<<blocks_for(e.lines() * e.cols), threads>>>(static_cast<T*>(data), e, seed,
                                                             traits(type).significand_bits);
  });
  CUDA_CHECK(cudaGetLastError());
}

void copy_matrix(float* to, const float* from, const Extent& e) {
  if (e.lines() * e.cols == 0) return;
  copy_kernel<<<blocks_for(e.lines() * e.cols), threads>>>(to, from, e);
  CUDA_CHECK(cudaGetLastError());
}

StrayWrites stray_writes(const void* buffer, Input type, std::size_t elements, std::int64_t origin,
                         const Extent& extent) {
  const auto count = static_cast<std::int64_t>(elements);
  const Result<Stray> result({0, ~0ull});
  if (traits(type).bytes == 2) {
    stray_kernel<<<blocks_for(count), threads>>>(static_cast<const std::uint16_t*>(buffer), count, origin,
                                                 extent, result.pointer());
  } else {
    stray_kernel<<<blocks_for(count), threads>>>(static_cast<const std::uint32_t*>(buffer), count, origin,
                                                 extent, result.pointer());
  }
  CUDA_CHECK(cudaGetLastError());
  const Stray stray = result.get();
  if (stray.count == 0) return {};
  return {static_cast<std::int64_t>(stray.count), static_cast<std::int64_t>(stray.first) - origin};
}

const void* some_kernel() { return reinterpret_cast<const void*>(poison_kernel); }

}  // namespace harness::gpu
