#pragma once

// How many mma's a GPU does in a second, and in how many cycles.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "common/harness/telemetry.hpp"
#include "experiments/tensor_core_arithmetic/mma_once.hpp"

namespace tensor_core_arithmetic {

__device__ __forceinline__ long long nanoseconds() {
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Independent mma's: AS * BS chains, as in a warp's tile of AS * 16 rows and BS * 8 columns. operands: bits,
// of which every lane takes its own. sums: [threads of the grid], so that nothing is left out. times: [warps
// of the grid][start, stop in cycles of the SM, start, stop in nanoseconds].
template <typename Shape, int AS, int BS>
__global__ void multiply_much(const Bits* operands, float* sums, long long* times, int passes) {
  std::uint32_t a[AS][4], b[BS][2];
  float d[AS][BS][4];
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = 0; i < AS * 4; ++i) a[i / 4][i % 4] = operands[i * 32 + threadIdx.x % 32];
  for (int i = 0; i < BS * 2; ++i) b[i / 2][i % 2] = operands[(AS * 4 + i) * 32 + threadIdx.x % 32];
  for (int i = 0; i < AS * BS * 4; ++i) d[i / 4 / BS][i / 4 % BS][i % 4] = 0.0f;
  __syncthreads();
  const long long start_ns = nanoseconds(), start = clock64();
#pragma unroll 4
  for (int pass = 0; pass < passes; ++pass) {
#pragma unroll
    for (int i = 0; i < AS; ++i) {
#pragma unroll
      for (int j = 0; j < BS; ++j) {
        if constexpr (Shape::K == 8) {
          mma_tf32<Unrounded::cut_off>(d[i][j], a[i], b[j]);
        } else {
          mma_bf16(d[i][j], a[i], b[j]);
        }
      }
    }
  }
  const long long stop = clock64();  // the last ones may be under way: nothing beside so many passes
  const long long stop_ns = nanoseconds();
  float sum = 0.0f;
  for (int i = 0; i < AS * BS * 4; ++i) sum += d[i / 4 / BS][i / 4 % BS][i % 4];
  sums[thread] = sum;
  if (threadIdx.x % 32 == 0) {
    long long* to = times + thread / 32 * 4;
    to[0] = start;
    to[1] = stop;
    to[2] = start_ns;
    to[3] = stop_ns;
  }
}

using Much = void (*)(const Bits*, float*, long long*, int);
struct Rate {
  int chains;
  Much kernel;
};

template <typename Shape>
std::vector<Rate> rates_of() {
  return {{1, multiply_much<Shape, 1, 1>},
          {2, multiply_much<Shape, 1, 2>},
          {4, multiply_much<Shape, 2, 2>},
          {8, multiply_much<Shape, 2, 4>},
          {16, multiply_much<Shape, 4, 4>}};
}

class Events {
 public:
  Events() {
    CUDA_CHECK(cudaEventCreate(&start_));
    CUDA_CHECK(cudaEventCreate(&stop_));
  }
  ~Events() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  template <typename Work>
  double seconds(const Work& work) {
    CUDA_CHECK(cudaEventRecord(start_));
    work();
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventRecord(stop_));
    CUDA_CHECK(cudaEventSynchronize(stop_));
    float milliseconds = 0;
    CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

inline json run_rates(const Type& type, int multiprocessors, harness::Sampler& sampler) {
  constexpr int schedulers = 4, most_warps = 16, passes = 4000, rested_runs = 7;
  json rows = json::array();
  std::vector<Bits> random_operands(24 * 32), zeros(24 * 32);
  std::mt19937 random(3);
  for (Bits& bits : random_operands) {  // of [1, 2) or (-2, -1], in both halves of a register
    bits = (static_cast<Bits>(random()) & 0x807f807f) | 0x3f803f80;
    if (type.K == 8) bits &= type.mask;
  }
  const double flop = 2.0 * type.M * N * type.K;
  Buffer<float> sums(static_cast<std::size_t>(multiprocessors) * most_warps * 32);
  Buffer<long long> times(static_cast<std::size_t>(multiprocessors) * most_warps * 4);
  Events events;
  // What the SMs' clocks say of the latest launch: cycles per mma and scheduler, sorted by SM, and the clock,
  // as cycles by nanoseconds.
  struct Clocks {
    std::vector<double> cycles;
    double mhz;
    double median() const { return cycles[cycles.size() / 2]; }
  };
  const auto read_clocks = [&](int warps, double mmas_of_warp) {
    const std::vector<long long> t = times.read();
    Clocks clocks;
    std::vector<double> mhz;
    for (int block = 0; block < multiprocessors; ++block) {
      const long long* first = &t[static_cast<std::size_t>(block * warps) * 4];
      long long start = first[0], stop = first[1];
      for (int warp = 1; warp < warps; ++warp) {
        start = std::min(start, first[warp * 4]);
        stop = std::max(stop, first[warp * 4 + 1]);
      }
      clocks.cycles.push_back(double(stop - start) * schedulers / (warps * mmas_of_warp));
      mhz.push_back(double(first[1] - first[0]) / double(first[3] - first[2]) * 1e3);
    }
    std::sort(clocks.cycles.begin(), clocks.cycles.end());
    std::sort(mhz.begin(), mhz.end());
    clocks.mhz = mhz[mhz.size() / 2];
    return clocks;
  };
  const auto with = [&](const char* data, const Rate& rate, int warps) {
    Buffer<Bits> operands(std::strcmp(data, "zeros") == 0 ? zeros : random_operands);
    const auto launch = [&](int passes) {
      rate.kernel<<<multiprocessors, warps * 32>>>(operands.data(), sums.data(), times.data(), passes);
    };
    const double mmas = double(multiprocessors) * warps * rate.chains * passes;
    const double of_warp = double(rate.chains) * passes;
    // Rested: one launch after an idle gap.
    std::vector<double> seconds, cycles, slowest, mhz;
    for (int run = -1; run < rested_runs; ++run) {
      std::this_thread::sleep_for(std::chrono::milliseconds(40));
      const double s = events.seconds([&] { launch(passes); });
      if (run < 0) continue;
      const Clocks clocks = read_clocks(warps, of_warp);
      seconds.push_back(s);
      cycles.push_back(clocks.median());
      slowest.push_back(clocks.cycles.back());
      mhz.push_back(clocks.mhz);
    }
    const auto median = [](std::vector<double>& values) {
      std::sort(values.begin(), values.end());
      return values[values.size() / 2];
    };
    const double s = median(seconds);
    json row{{"type", type.name},
             {"data", data},
             {"chains", rate.chains},
             {"warps_per_scheduler", warps / schedulers},
             {"mmas", mmas},
             {"seconds", s},
             {"tflops", mmas * flop / s * 1e-12},
             {"cycles_per_mma_and_scheduler", median(cycles)},
             {"cycles_of_slowest_sm", median(slowest)},
             {"sm_clock_by_counters_mhz", median(mhz)}};
    std::printf(
        "%s %-7s %2d chains, %d warps per scheduler: %6.1f TFLOP/s, %6.2f cycles per mma (%.2f) at %.0f MHz",
        type.name, data, rate.chains, warps / schedulers, row["tflops"].get<double>(),
        row["cycles_per_mma_and_scheduler"].get<double>(), row["cycles_of_slowest_sm"].get<double>(),
        row["sm_clock_by_counters_mhz"].get<double>());
    if (rate.chains >= 8) {
      // Sustained: back to back, a second for the power to settle, and then another one. Each launch ten
      // times as long, so that what is between launches does not count.
      constexpr int longer = 10;
      const int launches = std::max(1, static_cast<int>(1.0 / (s * longer)));
      const auto work = [&] {
        for (int n = 0; n < launches; ++n) launch(passes * longer);
      };
      events.seconds(work);
      sampler.start();
      const double all = events.seconds(work);
      const harness::Telemetry t = sampler.stop();
      const Clocks clocks = read_clocks(warps, of_warp * longer);
      const double tflops = mmas * longer * launches * flop / all * 1e-12;
      row["sustained"] = {{"seconds", all},
                          {"launches", launches},
                          {"tflops", tflops},
                          {"cycles_per_mma_and_scheduler", clocks.median()},
                          {"cycles_of_slowest_sm", clocks.cycles.back()},
                          {"sm_clock_by_counters_mhz", clocks.mhz},
                          {"sm_clock_mhz", t.sm_clock_mhz},
                          {"power_watts", t.power_watts},
                          {"temperature_celsius", t.temperature}};
      std::printf("; sustained %6.1f TFLOP/s, %.2f cycles (%.2f) at %.0f MHz, by NVML %.0f, %.0f W", tflops,
                  clocks.median(), clocks.cycles.back(), clocks.mhz, t.sm_clock_mhz, t.power_watts);
    }
    std::printf("\n");
    rows.push_back(std::move(row));
  };
  const std::vector<Rate> rates = type.K == 8 ? rates_of<MmaTf32Shape>() : rates_of<MmaBf16Shape>();
  for (const Rate& rate : rates) {
    for (int warps_per_scheduler : {1, 2, 4}) {
      if (rate.chains * warps_per_scheduler > 32) continue;
      with("random", rate, warps_per_scheduler * schedulers);
    }
  }
  with("zeros", rates[3], 2 * schedulers);
  return rows;
}

}  // namespace tensor_core_arithmetic
