// The CPU device as the harness sees it: memory from cpu_device, the reference product on the host's cores.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "common/cpu_device/cpu_device.hpp"
#include "common/harness/device.hpp"
#include "common/harness/error.hpp"
#include "common/harness/output_file.hpp"
#include "common/harness/parallel.hpp"
#include "common/harness/random.hpp"
#include "common/harness/reference_cpu.hpp"

namespace harness {

namespace {

class CpuDevice : public Device {
 public:
  explicit CpuDevice(bool check) : check_(check) {
    info_.kind = "cpu";
    info_.name = "CPU device, " + std::to_string(std::thread::hardware_concurrency()) + " cores" +
                 (check ? ", every memory access checked" : "");
    cpu_device::set_checking(check);
    cpu_device::crash_hook = remove_temporaries;
  }

  const DeviceInfo& info() const override { return info_; }

  // MemAvailable counts what can be reclaimed; sysinfo's free memory does not.
  std::size_t free_bytes() override {
    std::ifstream file("/proc/meminfo");
    std::string word;
    std::size_t kib = 0;
    while (file >> word) {
      if (word == "MemAvailable:" && file >> kib) return kib * 1024;
    }
    return static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) *
           static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  }

  void* allocate(std::size_t bytes) override { return cpu_device::allocate(bytes); }
  void release(void* pointer) noexcept override { cpu_device::release(pointer); }
  void upload(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }

  void poison(float* buffer, std::size_t elements) override {
    auto* words = reinterpret_cast<std::uint32_t*>(buffer);
    std::fill(words, words + elements, poison_bits);
  }

  void fill_uniform(float* data, const Extent& e, std::uint64_t seed) override {
    parallel(e.batch * e.rows, [&](std::int64_t i) {
      float* row = data + i / e.rows * e.stride + i % e.rows * e.leading_dimension;
      for (std::int64_t col = 0; col < e.cols; ++col) row[col] = uniform(seed, i * e.cols + col);
    });
  }

  void copy_matrix(float* to, const float* from, const Extent& e) override {
    for (std::int64_t i = 0; i < e.batch * e.rows; ++i) {
      const std::int64_t offset = i / e.rows * e.stride + i % e.rows * e.leading_dimension;
      std::copy_n(from + offset, e.cols, to + offset);
    }
  }

  StrayWrites stray_writes(const float* buffer, std::size_t elements, const float* data,
                           const Extent& e) override {
    const auto* words = reinterpret_cast<const std::uint32_t*>(buffer);
    const std::int64_t origin = data - buffer;
    StrayWrites stray;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(elements); ++i) {
      if (words[i] == poison_bits) continue;
      const std::int64_t at = i - origin;
      const bool inside = at >= 0 && e.stride > 0 && at / e.stride < e.batch &&
                          at % e.stride / e.leading_dimension < e.rows &&
                          at % e.stride % e.leading_dimension < e.cols;
      if (inside) continue;
      if (stray.count++ == 0) stray.first = at;
    }
    return stray;
  }

  void run(const Step& step, const Gemm& gemm) override {
    auto* entry = check_ ? step.cpu_observed : step.cpu;
    if (entry == nullptr) {
      throw DeviceUnavailable("this build cannot check kernels; compile with GCC to have --check");
    }
    run_in_panels(entry, gemm);
    for (const cpu_device::Fault& fault : cpu_device::take_faults()) {
      faults_.push_back(cpu_device::describe(fault));
    }
  }

  std::vector<std::string> faults() override { return std::exchange(faults_, {}); }

  void describe(const Gemm& g) override {
    if (!check_) return;
    cpu_device::describe({"A", g.A, g.M, g.K, g.lda, g.batch, g.strideA, true, false});
    cpu_device::describe({"B", g.B, g.K, g.N, g.ldb, g.batch, g.strideB, true, false});
    cpu_device::describe({"C", g.C, g.M, g.N, g.ldc, g.batch, g.strideC, g.beta != 0, true});
  }

  Verdict verify(const Gemm& gemm, const float* c0, double tolerance) override {
    return verify_on_host(gemm, c0, tolerance);
  }

  // The time that the simulation takes; it says nothing about a GPU.
  Timing time(const Step& step, const std::vector<Gemm>& sets, const std::vector<float*>&,
              const TimingRequest& request) override {
    std::vector<double> samples;
    for (int i = 0; i < request.repeat; ++i) {
      const auto start = std::chrono::steady_clock::now();
      run(step, sets[i % sets.size()]);
      samples.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(samples.begin(), samples.end());
    Timing timing;
    timing.samples = request.repeat;
    timing.median_us = samples[samples.size() / 2];
    timing.spread = (samples[samples.size() * 3 / 4] - samples[samples.size() / 4]) / timing.median_us;
    return timing;
  }

 private:
  bool check_;
  DeviceInfo info_;
  std::vector<std::string> faults_;
};

}  // namespace

void run_in_panels(void (*entry)(const Gemm&), const Gemm& gemm) {
  constexpr int max_rows = 1 << 20, max_matrices = 1 << 15;
  for (int matrix = 0; matrix < gemm.batch; matrix += max_matrices) {
    for (int row = 0; row < gemm.M; row += max_rows) {
      Gemm panel = gemm;
      panel.batch = std::min(max_matrices, gemm.batch - matrix);
      panel.M = std::min(max_rows, gemm.M - row);
      panel.A += matrix * gemm.strideA + row * gemm.lda;
      panel.B += matrix * gemm.strideB;
      panel.C += matrix * gemm.strideC + row * gemm.ldc;
      entry(panel);
    }
  }
}

std::unique_ptr<Device> make_cpu_device(bool check) { return std::make_unique<CpuDevice>(check); }

}  // namespace harness
