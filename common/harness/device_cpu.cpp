// The CPU device as the harness sees it: cpu_device's memory, and a reference product on the host's cores.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "common/cores.hpp"
#include "common/cpu_device/cpu_device.hpp"
#include "common/cpu_device/reserved_memory.hpp"
#include "common/harness/device.hpp"
#include "common/harness/error.hpp"
#include "common/harness/output_file.hpp"
#include "common/harness/panels.hpp"
#include "common/harness/parallel.hpp"
#include "common/harness/random.hpp"
#include "common/harness/reference_cpu.hpp"
#include "common/harness/sparse_memory.hpp"
#include "common/poison.hpp"

namespace harness {

namespace {

template <typename Word>
StrayWrites stray_words(const Word* words, std::size_t count, std::int64_t origin, const Extent& extent) {
  StrayWrites stray;
  const auto look = [&](std::size_t first, std::size_t last) {  // bytes
    for (std::size_t word = first / sizeof(Word); word < last / sizeof(Word); ++word) {
      const std::int64_t offset = static_cast<std::int64_t>(word) - origin;
      if (words[word] == poison_pattern<Word> || extent.holds(offset)) continue;
      if (stray.count++ == 0) stray.first = offset;
    }
  };
  const std::size_t bytes = count * sizeof(Word);
  if (bytes >= cpu_device::reserved_from) {
    for_each_written(words, bytes, look);
  } else {
    look(0, bytes);
  }
  return stray;
}

class CpuDevice : public Device {
 public:
  explicit CpuDevice(bool check) : check_(check) {
    info_.kind = "cpu";
    info_.name = "CPU device, " + std::to_string(usable_cores()) + " cores" +
                 (check ? ", every memory access checked" : "");
    cpu_device::set_checking(check);
    cpu_device::crash_hook = remove_temporaries;
  }

  const DeviceInfo& info() const override { return info_; }

  // MemAvailable includes what can be reclaimed; sysinfo's free memory does not.
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

  std::size_t sparse_from() const override { return cpu_device::reserved_from; }
  void* allocate(std::size_t bytes) override { return cpu_device::allocate(bytes); }
  void release(void* pointer) noexcept override { cpu_device::release(pointer); }
  void upload(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }

  void poison(void* buffer, std::size_t bytes) override {
    if (bytes >= sparse_from()) return map_pattern(buffer, bytes, poison_bits);
    std::fill_n(static_cast<std::uint32_t*>(buffer), bytes / sizeof poison_bits, poison_bits);
  }

  void fill_uniform(void* data, Input type, const Extent& e, std::uint64_t seed) override {
    with_element(type, [&]<typename T>(T) {
      parallel(e.lines(), [&](std::int64_t line) {
        T* row = static_cast<T*>(data) + e.offset_of_line(line);
        for (std::int64_t col = 0; col < e.cols; ++col) {
          row[col] = T(uniform(seed, line * e.cols + col, traits(type).significand_bits));
        }
      });
    });
  }

  void copy_matrix(float* to, const float* from, const Extent& e) override {
    for (std::int64_t line = 0; line < e.lines(); ++line) {
      const std::int64_t offset = e.offset_of_line(line);
      std::copy_n(from + offset, e.cols, to + offset);
    }
  }

  StrayWrites stray_writes(const void* buffer, Input type, std::size_t elements, std::int64_t origin,
                           const Extent& extent) override {
    return traits(type).bytes == 2
               ? stray_words(static_cast<const std::uint16_t*>(buffer), elements, origin, extent)
               : stray_words(static_cast<const std::uint32_t*>(buffer), elements, origin, extent);
  }

  void run(const Step& step, const AnyGemm& gemm) override {
    const Entry& entry = check_ ? step.cpu_observed : step.cpu;
    if (!entry) {
      throw DeviceUnavailable("this build cannot check kernels; compile with GCC to have --check");
    }
    run_and_count(entry, gemm, [] {});
    if (check_) cpu_device::end_of_call();
    for (const cpu_device::Fault& fault : cpu_device::take_faults()) {
      faults_.push_back(cpu_device::describe(fault));
    }
  }

  std::vector<std::string> faults() override { return std::exchange(faults_, {}); }

  void set_schedule(unsigned schedule) override { cpu_device::set_schedule(schedule); }
  std::vector<unsigned> take_schedules() override { return cpu_device::take_schedules(); }
  void explore_orders(bool on) override { cpu_device::explore_orders(on); }
  cpu_device::OrdersRun next_order(bool enough) override { return cpu_device::next_order(enough); }

  void describe(const AnyGemm& g) override {
    if (!check_) return;
    const auto bytes = static_cast<unsigned>(g.element_bytes());
    cpu_device::describe({"A", g.A, g.M, g.K, g.lda, g.batch, g.strideA, true, false, bytes});
    cpu_device::describe({"B", g.B, g.K, g.N, g.ldb, g.batch, g.strideB, true, false, bytes});
    cpu_device::describe({"C", g.C, g.M, g.N, g.ldc, g.batch, g.strideC, g.beta != 0, true});
  }

  Verdict verify(const AnyGemm& gemm, const float* c0, double tolerance) override {
    return verify_on_host(gemm, c0, tolerance);
  }

  // The time of the simulation, which says nothing about a GPU.
  Timing time(const Step& step, const std::vector<AnyGemm>& sets, const std::vector<float*>&, int repeat,
              Protocol) override {
    std::vector<double> samples;
    for (int i = 0; i < repeat; ++i) {
      const auto start = std::chrono::steady_clock::now();
      run(step, sets[i % sets.size()]);
      samples.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(samples.begin(), samples.end());
    Timing timing;
    timing.samples = repeat;
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

std::unique_ptr<Device> make_cpu_device(bool check, double watchdog) {
  cpu_device::set_watchdog(watchdog);
  return std::make_unique<CpuDevice>(check);
}

}  // namespace harness
