#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/cuda/check.hpp"
#include "common/cuda/launch.hpp"
#include "common/harness/gpu_clock.hpp"

namespace harness::gpu {

namespace {

__global__ void read_clocks(ClockReading* readings, unsigned multiprocessors) {
  unsigned here = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
  std::uint64_t ns = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  if (here < multiprocessors) readings[here] = {clock64(), ns};
}

}  // namespace

ClockCounter::ClockCounter() : multiprocessors_(multiprocessors()) {
  CUDA_CHECK(cudaMalloc(&readings_, 2 * multiprocessors_ * sizeof(ClockReading)));
}

ClockCounter::~ClockCounter() { cudaFree(readings_); }

void ClockCounter::read(ClockReading* readings) {
  CUDA_CHECK(cudaMemsetAsync(readings, 0, multiprocessors_ * sizeof(ClockReading)));
  read_clocks<<<multiprocessors_, 1>>>(readings, multiprocessors_);
  CUDA_CHECK(cudaGetLastError());
}

void ClockCounter::start() { read(readings_); }
void ClockCounter::stop() { read(readings_ + multiprocessors_); }

double ClockCounter::mhz() const {
  std::vector<ClockReading> readings(2 * multiprocessors_);
  CUDA_CHECK(
      cudaMemcpy(readings.data(), readings_, readings.size() * sizeof(ClockReading), cudaMemcpyDeviceToHost));
  std::vector<double> found;
  for (int i = 0; i < multiprocessors_; ++i) {
    const ClockReading &from = readings[i], &to = readings[i + multiprocessors_];
    if (from.ns == 0 || to.ns <= from.ns || to.cycles <= from.cycles) continue;
    found.push_back(1e3 * static_cast<double>(to.cycles - from.cycles) /
                    static_cast<double>(to.ns - from.ns));
  }
  if (found.empty()) return 0;
  std::nth_element(found.begin(), found.begin() + found.size() / 2, found.end());
  return found[found.size() / 2];
}

}  // namespace harness::gpu
