// Clusters on a GPU: the kernels that cluster_test.cpp runs on the CPU device give the same here.

#include <vector>

#include "tests/unit/cluster_right.hpp"
#include "tests/unit/gpu_test.hpp"

namespace {

constexpr unsigned threads = 64, most_blocks = 16;

// y, of as many elements as there are threads, after the kernel has run on x[i] = i + 1.
std::vector<float> run_kernel(void (*kernel)(float*, float*, int), unsigned blocks, unsigned cluster,
                              int n = 0) {
  float *x = nullptr, *y = nullptr;
  std::vector<float> values(threads * most_blocks);
  const std::size_t bytes = values.size() * sizeof(float);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  CUDA_CHECK(cudaMalloc(&x, bytes));
  CUDA_CHECK(cudaMalloc(&y, bytes));
  CUDA_CHECK(cudaMemcpy(x, values.data(), bytes, cudaMemcpyHostToDevice));
  launch(kernel, LaunchConfig{.grid = blocks, .block = threads, .shared_bytes = 1024, .cluster = cluster}, x,
         y, n);
  CUDA_CHECK(cudaMemcpy(values.data(), y, bytes, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaFree(x));
  CUDA_CHECK(cudaFree(y));
  return values;
}

float x(unsigned i) { return static_cast<float>(i + 1); }

void run(int) {
  for (const unsigned cluster : {1u, 2u, 4u, 8u, 16u}) {
    const std::vector<float> sums = run_kernel(sum_of_cluster, 16, cluster);
    const std::vector<float> copies = run_kernel(multicast, 16, cluster);
    const std::vector<float> others = run_kernel(multicast_to_others, 16, cluster);
    for (unsigned i = 0; i < 16 * threads; ++i) {
      float sum = 0.0f;
      for (unsigned rank = 0; rank < cluster; ++rank) {
        sum += x((i / threads / cluster * cluster + rank) * threads + i % threads);
      }
      expect(sums[i] == sum, "the sum over a cluster of " + std::to_string(cluster));
      expect(copies[i] == x(i % threads), "a copy to a cluster of " + std::to_string(cluster));
      expect(others[i] == x(i % threads), "a copy to others in a cluster of " + std::to_string(cluster));
    }
  }
  const std::vector<float> split = run_kernel(split_barrier, 4, 4);
  for (unsigned i = 0; i < 4 * threads; ++i) {
    expect(split[i] == 2.0f * x((i / threads + 3) % 4 * threads + i % threads), "arriving and waiting apart");
  }
  expect(run_kernel(early_exits, 2, 2)[threads + 31] == x(31), "threads that have left are not waited for");
  expect(run_kernel(ring, 4, 4, 25)[0] == 100.0f, "around the ring");
  expect(run_kernel(alone, 1, 1)[0] == x(63), "a cluster of one");
}

}  // namespace

int main() { return test_gpu(run, 9); }
