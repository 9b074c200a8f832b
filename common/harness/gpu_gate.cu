#include "common/cuda/check.hpp"
#include "common/harness/gpu_gate.hpp"

namespace harness::gpu {

namespace {

constexpr std::uint64_t most_ns = 200'000'000;

__device__ std::uint64_t now_ns() {
  std::uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void wait_for(const volatile std::uint32_t* opened, std::uint32_t gate) {
  const std::uint64_t start = now_ns();
  while (*opened < gate && now_ns() - start < most_ns) {
  }
}

}  // namespace

Gate::Gate() {
  void* memory = nullptr;
  CUDA_CHECK(cudaHostAlloc(&memory, sizeof *opened_, cudaHostAllocMapped));
  opened_ = static_cast<volatile std::uint32_t*>(memory);
  *opened_ = 0;
}

Gate::~Gate() {
  open();
  cudaFreeHost(const_cast<std::uint32_t*>(opened_));
}

void Gate::close() {
  wait_for<<<1, 1>>>(opened_, ++closed_);
  CUDA_CHECK(cudaGetLastError());
}

void Gate::open() { *opened_ = closed_; }

}  // namespace harness::gpu
