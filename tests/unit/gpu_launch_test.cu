// Launches on a GPU: configurations, clusters, the alignment of dynamic shared memory, workspaces, launches
// that overlap, flags between blocks.

#include <cstdint>
#include <string>
#include <vector>

#include "common/cuda/dependent_launch.hpp"
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/grid_flag.hpp"
#include "common/cuda/workspace.hpp"
#include "common/out_of_memory.hpp"
#include "tests/unit/gpu_test.hpp"

namespace {

struct alignas(1024) AlignedTile {
  float values[64];
};

__global__ void count_blocks(int* counts, int plus) {
  if (threadIdx.x == blockDim.x - 1) atomicAdd(&counts[blockIdx.y * gridDim.x + blockIdx.x], plus);
}

// Writes late, and lets the next launch begin early.
__global__ void write_late(int* out, int value) {
  let_next_launch_begin();
  for (int i = 0; i < 100; ++i) __nanosleep(1000);
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Adds to what the launch before has written, element by element from the other end.
__global__ void add_to_previous(const int* in, int* out) {
  wait_for_previous_launch();
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = __ldcg(&in[gridDim.x * blockDim.x - 1 - i]) + 1;
}

// Block after block: each adds one to what the block before it wrote, element by element from the other end.
__global__ void chain_of_blocks(unsigned* flags, int* data) {
  const unsigned t = threadIdx.x, n = blockDim.x, b = blockIdx.x;
  int sum = 1;
  if (b > 0) {
    if (t == 0) flag_wait_and_clear(&flags[b - 1]);
    __syncthreads();
    sum += __ldcg(&data[(b - 1) * n + n - 1 - t]);
  }
  __stcg(&data[b * n + t], sum);
  __syncthreads();
  if (t == 0 && b + 1 < gridDim.x) flag_set(&flags[b]);
}

// out: the blocks of the cluster.
__global__ void size_of_cluster(int* out) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t size;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  out[blockIdx.y * gridDim.x + blockIdx.x] = static_cast<int>(size);
#endif
}

// out: how far the memory is from a multiple of 1024 bytes, and what was stored there.
__global__ void align_dynamic_shared(int* out) {
  auto& tile = dynamic_shared<AlignedTile>();
  tile.values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[0] = static_cast<int>(__cvta_generic_to_shared(&tile) % 1024);
  out[1] = static_cast<int>(tile.values[63]);
}

// The variable may lie before the tile. out: as above, if the kernel comes so far.
__global__ void align_beside_static_shared(int* out) {
  __shared__ float beside[7];
  beside[threadIdx.x % 7] = static_cast<float>(out[2]);
  auto& tile = dynamic_shared<AlignedTile>();
  __syncthreads();
  out[0] = static_cast<int>(__cvta_generic_to_shared(&tile) % 1024);
  out[1] = static_cast<int>(beside[3]);
}

std::vector<int> values_of(const int* data, std::size_t size) {
  std::vector<int> host(size);
  CUDA_CHECK(cudaMemcpy(host.data(), data, size * sizeof(int), cudaMemcpyDeviceToHost));
  return host;
}

struct Counts {
  int* data = nullptr;
  Counts() {
    CUDA_CHECK(cudaMalloc(&data, 64 * sizeof(int)));
    CUDA_CHECK(cudaMemset(data, 0, 64 * sizeof(int)));
  }
  std::vector<int> values() const { return values_of(data, 64); }
};

bool all_of_12(const std::vector<int>& values, int expected) {
  for (int i = 0; i < 64; ++i) {
    if (values[i] != (i < 12 ? expected : 0)) return false;
  }
  return true;
}

void run(int compute_capability) {
  {
    Counts counts;
    launch(count_blocks, dim3(6, 2), dim3(64), 0, counts.data, 1);
    launch(count_blocks, LaunchConfig{.grid = {6, 2}, .block = 64}, counts.data, 10);
    launch(count_blocks, LaunchConfig{.grid = {6, 2}, .block = 64, .shared_bytes = 64 * 1024}, counts.data,
           100);
    launch(count_blocks, LaunchConfig{.grid = {6, 0}, .block = 64}, counts.data, 1000);
    expect(all_of_12(counts.values(), 111), "each launch runs each block once");
    std::string said;
    try {
      launch(count_blocks, dim3(6, 2), dim3(64), 1 << 20, counts.data, 1000);
    } catch (const TooLittleShared& error) {
      said = error.what();
    }
    expect(
        said.starts_with("a block of this kernel takes 1048576 bytes of shared memory, and this GPU gives"),
        "a block that wants more shared memory than there is, is refused in words");
    expect(all_of_12(counts.values(), 111), "and leaves nothing behind");
  }
  if (compute_capability >= 9) {
    Counts sizes;
    launch(size_of_cluster, LaunchConfig{.grid = {6, 2}, .block = 32, .cluster = {3, 2}}, sizes.data);
    expect(all_of_12(sizes.values(), 6), "a cluster of 3 x 2 blocks");
    launch(size_of_cluster, LaunchConfig{.grid = {6, 2}, .block = 32}, sizes.data);
    expect(all_of_12(sizes.values(), 1), "a block without a cluster is one by itself");
    bool refused = false;
    try {
      launch(size_of_cluster, LaunchConfig{.grid = {5, 2}, .block = 32, .cluster = {2, 1}}, sizes.data);
    } catch (const CudaError&) {
      refused = true;
    }
    expect(refused, "a cluster that does not divide the grid is refused");
  }
  {
    Counts out;
    launch(align_dynamic_shared, dim3(1), dim3(64), sizeof(AlignedTile), out.data);
    const std::vector<int> values = out.values();
    expect(values[0] == 0 && values[1] == 63, "dynamic shared memory is aligned as its type is");
  }
  {
    Workspace<int> zeros("zeros", Fill::zero);
    int* counts = zeros.at_least(64);
    launch(count_blocks, dim3(6, 2), dim3(64), 0, counts, 1);
    launch(count_blocks, dim3(6, 2), dim3(64), 0, zeros.at_least(12), 10);
    expect(zeros.at_least(64) == counts, "a workspace stays where it is until it grows");
    expect(all_of_12(values_of(counts, 64), 11), "a workspace keeps what it holds");
    expect(values_of(zeros.at_least(100000), 100000) == std::vector<int>(100000),
           "what a workspace grows by, and all the rest, is zero");
    bool refused = false;
    try {
      zeros.at_least(std::size_t{1} << 50);
    } catch (const OutOfMemory&) {
      refused = true;
    }
    expect(refused, "a workspace that is too large is refused");
    expect(values_of(zeros.at_least(3), 3) == std::vector<int>(3), "and another one is possible");
    Workspace<int> written("written"), sums("sums");
    for (int value : {7, 8}) {
      int *in = written.at_least(256), *out = sums.at_least(256);
      launch(write_late, dim3(4), dim3(64), 0, in, value);
      launch(add_to_previous, LaunchConfig{.grid = 4, .block = 64, .overlaps_previous = true}, in, out);
      expect(values_of(out, 256) == std::vector<int>(256, value + 1),
             "a launch that waits for the one before sees what it has written");
    }
    const int blocks = 10 * multiprocessors();  // more than run at the same time, and twice
    Workspace<unsigned> flags("flags", Fill::zero);
    for (int i = 0; i < 2; ++i) {
      int* data = sums.at_least(static_cast<std::size_t>(blocks) * 1024);
      launch(chain_of_blocks, dim3(blocks), dim3(1024), 0, flags.at_least(blocks), data);
      expect(values_of(data + (blocks - 1) * 1024, 1024) == std::vector<int>(1024, blocks),
             "flags hand on from block to block");
    }
    int device = 0, count = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    expect(multiprocessors() == count && multiprocessors() == count, "multiprocessors");
  }
  // Last: a trap leaves nothing that can be used.
  Counts out;
  launch(align_beside_static_shared, dim3(1), dim3(64), sizeof(AlignedTile), out.data);
  expect(cudaDeviceSynchronize() != cudaSuccess || out.values()[0] == 0,
         "a kernel that does not get its alignment ends with an error");
}

}  // namespace

int main() { return test_gpu(run); }
