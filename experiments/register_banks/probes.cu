// Measures how many cycles an FFMA takes, by which registers it reads.
//
// Each kernel times a loop of FFMAs over sums that stay in registers. Which registers an FFMA reads, C++
// cannot say: as compiled here, all kernels do the same. The tool beside this file puts other FFMAs into the
// places of these, one pattern to a kernel, in a copy of the program, and writes what it put there to
// patterns.txt. The copy reads that file, runs each kernel, compares every sum with what the FFMAs of the
// file give, and reports the cycles.

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/check.hpp"
#include "common/harness/telemetry.hpp"

namespace {

constexpr int warp_size = 32, schedulers = 4;  // of an SM; warp w of a block belongs to scheduler w % 4
constexpr int starts = 4;                      // threads begin with as many different values
constexpr int launches = 5;                    // that are measured

// Two sizes of kernel. registers: of the array, as many as ptxas can keep without spilling; ffmas: of the
// loop; threads: of the largest block; kernels: at least as many as there are patterns.
struct Size {
  int registers, ffmas, threads, kernels, passes;
  int warps() const { return threads / warp_size; }
};
constexpr Size small_size{116, 1024, 512, 32, 200}, large_size{216, 2048, 256, 4, 100};

// sums: [blocks][registers][threads]; times: [blocks][warps][start, stop].
template <bool large, int number>
__global__ void __launch_bounds__(large ? large_size.threads : small_size.threads)
    probe(float* sums, long long* times, int passes) {
  constexpr Size size = large ? large_size : small_size;
  float r[size.registers];
  const float first = static_cast<float>(threadIdx.x % starts);
#pragma unroll
  for (int i = 0; i < size.registers; ++i) r[i] = first + static_cast<float>(i + 1);
  __syncthreads();
  const long long start = clock64();
#pragma unroll 1
  do {
#pragma unroll
    for (int n = 0; n < size.ffmas; ++n) {
      asm volatile("fma.rn.f32 %0, %1, %2, %0;"
                   : "+f"(r[n % size.registers])
                   : "f"(r[(n + 1) % size.registers]), "f"(r[(n + 2) % size.registers]));
    }
  } while (--passes > 0);
  const long long stop = clock64();
  if (threadIdx.x % warp_size == 0) {
    long long* to = times + (blockIdx.x * (size.threads / warp_size) + threadIdx.x / warp_size) * 2;
    to[0] = start;
    to[1] = stop;
  }
  float* to = sums + static_cast<long long>(blockIdx.x) * size.registers * size.threads + threadIdx.x;
#pragma unroll
  for (int i = 0; i < size.registers; ++i) to[i * size.threads] = r[i];
}

using Probe = void (*)(float*, long long*, int);

template <bool large, int... number>
std::vector<Probe> all_probes(std::integer_sequence<int, number...>) {
  return {probe<large, number>...};
}

struct Ffma {  // places in the array `r` of the kernel
  int d, a, b, c;
};

struct Pattern {
  std::string name;
  Size size;
  Probe kernel = nullptr;
  std::vector<int> registers;  // the number of each element of the kernel's array
  std::vector<Ffma> ffmas;

  int place(const std::string& operand) const {  // of "R12", "R12.reuse,"
    const auto found = std::find(registers.begin(), registers.end(), std::stoi(operand.substr(1)));
    if (found == registers.end())
      throw std::runtime_error(name + " uses " + operand + ", not one of its own");
    return static_cast<int>(found - registers.begin());
  }

  // What the elements are after so many passes. All begin as integers, so double holds a * b + c exactly; it
  // is rounded once, as by an FFMA.
  std::vector<float> expected(int first, int passes) const {
    std::vector<float> r;
    for (std::size_t i = 0; i < registers.size(); ++i)
      r.push_back(static_cast<float>(first + 1 + static_cast<int>(i)));
    for (int pass = 0; pass < passes; ++pass) {
      for (const auto& [d, a, b, c] : ffmas)
        r[d] = static_cast<float>(static_cast<double>(r[a]) * r[b] + r[c]);
    }
    return r;
  }
};

// Lines "pattern NAME small|large KERNEL ...", "registers N N ...", and one for each FFMA as nvdisasm prints
// it.
std::vector<Pattern> read_patterns(const std::string& path) {
  const auto small = all_probes<false>(std::make_integer_sequence<int, small_size.kernels>());
  const auto large = all_probes<true>(std::make_integer_sequence<int, large_size.kernels>());
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(path + " cannot be read: the tool writes it beside its copy of the program");
  std::vector<Pattern> patterns;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind, name, size, d, a, b, c;
    words >> kind;
    if (std::size_t kernel = 0; kind == "pattern" && words >> name >> size >> kernel) {
      const bool is_large = size == "large";
      patterns.push_back(
          {name, is_large ? large_size : small_size, (is_large ? large : small).at(kernel), {}, {}});
    } else if (kind == "registers") {
      for (int number = 0; words >> number;) patterns.back().registers.push_back(number);
    } else if (kind == "FFMA" && words >> d >> a >> b >> c) {
      const Pattern& p = patterns.back();
      patterns.back().ffmas.push_back({p.place(d), p.place(a), p.place(b), p.place(c)});
    }
  }
  for (const Pattern& p : patterns) {
    if (p.registers.size() != std::size_t(p.size.registers) || p.ffmas.size() != std::size_t(p.size.ffmas)) {
      throw std::runtime_error(path + " was not written for this program: " + p.name + " is of another size");
    }
  }
  return patterns;
}

// Cycles per FFMA and scheduler, sorted: of each scheduler and each launch.
std::vector<double> measure(const Pattern& p, int blocks, int warps_per_scheduler, float* sums,
                            long long* times) {
  constexpr int shared_bytes = 160 * 1024;  // most of what an SM has: one block on each
  const int warps = schedulers * warps_per_scheduler;
  std::vector<long long> clocks(static_cast<std::size_t>(blocks) * p.size.warps() * 2);
  std::vector<double> found;
  CUDA_CHECK(cudaFuncSetAttribute(p.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  for (int launch = -1; launch < launches; ++launch) {  // the first one fills the instruction cache
    p.kernel<<<blocks, warps * warp_size, shared_bytes>>>(sums, times, p.size.passes);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaMemcpy(clocks.data(), times, clocks.size() * sizeof(long long), cudaMemcpyDeviceToHost));
    for (int n = 0; launch >= 0 && n < blocks * schedulers; ++n) {
      long long start = LLONG_MAX, stop = 0;
      for (int warp = n % schedulers; warp < warps; warp += schedulers) {
        const long long* time = &clocks[(n / schedulers * p.size.warps() + warp) * 2];
        start = std::min(start, time[0]);
        stop = std::max(stop, time[1]);
      }
      found.push_back(double(stop - start) / p.size.passes / p.size.ffmas / warps_per_scheduler);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// How many sums are not what the pattern gives.
std::size_t wrong_sums(const Pattern& p, int blocks, int threads, const float* sums) {
  std::vector<float> got(static_cast<std::size_t>(blocks) * p.size.registers * p.size.threads);
  CUDA_CHECK(cudaMemcpy(got.data(), sums, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
  std::size_t wrong = 0;
  for (int first = 0; first < starts; ++first) {
    const std::vector<float> expected = p.expected(first, p.size.passes);
    for (int row = 0; row < blocks * p.size.registers; ++row) {
      for (int thread = first; thread < threads; thread += starts) {
        const float sum = got[static_cast<std::size_t>(row) * p.size.threads + thread];
        wrong += !(sum == expected[row % p.size.registers]);
      }
    }
  }
  return wrong;
}

int measure_all(const std::vector<Pattern>& patterns, const std::string& json_path) {
  cudaDeviceProp properties{};
  int runtime = 0, clock_khz = 0;
  char bus_id[32], date[32];
  CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  CUDA_CHECK(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, 0));
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 0));
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  const int blocks = properties.multiProcessorCount;
  std::size_t most = 0;
  for (const Size& s : {small_size, large_size}) most = std::max<std::size_t>(most, s.registers * s.threads);
  float* sums = nullptr;
  long long* times = nullptr;
  CUDA_CHECK(cudaMalloc(&sums, blocks * most * sizeof *sums));
  CUDA_CHECK(cudaMalloc(&times, blocks * small_size.warps() * 2 * sizeof *times));
  harness::Sampler sampler(bus_id);
  sampler.start();
  nlohmann::json results = nlohmann::json::array();
  bool pass = true;
  std::printf("cycles per FFMA and scheduler\n%-30s %6s %9s %9s\n", "pattern", "warps", "minimum", "median");
  for (const Pattern& p : patterns) {
    for (int warps : {1, 2, 4}) {  // per scheduler
      if (warps * schedulers > p.size.warps()) continue;
      CUDA_CHECK(cudaMemset(sums, 0xff, blocks * most * sizeof *sums));  // NaN
      const std::vector<double> cycles = measure(p, blocks, warps, sums, times);
      const double minimum = cycles.front(), median = cycles[cycles.size() / 2];
      const bool right = wrong_sums(p, blocks, warps * schedulers * warp_size, sums) == 0;
      pass = pass && right;
      std::printf("%-30s %6d %9.4f %9.4f  %s\n", p.name.c_str(), warps, minimum, median,
                  right ? "" : "WRONG SUMS");
      nlohmann::json result{{"pattern", p.name},
                            {"warps_per_scheduler", warps},
                            {"cycles_per_ffma", median},
                            {"pass", right},
                            {"cycles_per_ffma_min", minimum},
                            {"ffmas", p.size.ffmas},
                            {"passes", p.size.passes},
                            {"launches", launches}};
      results.push_back(std::move(result));
    }
  }
  const harness::Telemetry telemetry = sampler.stop();
  const nlohmann::json device{
      {"device", properties.name},
      {"device_kind", "gpu"},
      {"multiprocessors", blocks},
      {"compute_capability", properties.major * 10 + properties.minor},
      {"driver", sampler.driver_version()},
      {"cuda", std::to_string(runtime / 1000) + "." + std::to_string(runtime % 1000 / 10)},
      {"max_sm_clock_mhz", clock_khz * 1e-3},
      {"sm_clock_mhz", telemetry.sm_clock_mhz},
      {"memory_clock_mhz", telemetry.memory_clock_mhz},
      {"power_watts", telemetry.power_watts},
      {"temperature_celsius", telemetry.temperature},
      {"date", date}};
  for (nlohmann::json& result : results) result.update(device);
  std::ofstream file;
  if (!json_path.empty()) file.open(json_path);
  if (!json_path.empty() && !(file << results.dump(1) << std::endl)) {
    throw std::runtime_error(json_path + " cannot be written");
  }
  std::printf("%s\n", pass ? "PASS" : "FAIL");
  return pass ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const bool measuring = words.empty() || (words.size() == 2 && words[0] == "--json");
    if (!measuring && !(words.size() == 2 && words[0] == "--expect")) {
      throw std::runtime_error("usage: register_banks [--json FILE | --expect PASSES]");
    }
    char self[4096] = "";
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) throw std::runtime_error("there is no /proc");
    const std::string folder = std::string(self).substr(0, std::string(self).rfind('/'));
    const std::vector<Pattern> patterns = read_patterns(folder + "/patterns.txt");
    if (measuring) return measure_all(patterns, words.empty() ? "" : words[1]);
    for (const Pattern& pattern : patterns) {  // the sums of the threads that begin with 0; needs no GPU
      std::printf("%s", pattern.name.c_str());
      for (float sum : pattern.expected(0, std::stoi(words[1]))) std::printf(" %.9g", sum);
      std::printf("\n");
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
