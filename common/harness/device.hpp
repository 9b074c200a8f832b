#pragma once

// What the harness asks of a device. There are two: the GPU (device_gpu.cpp) and the CPU device
// (device_cpu.cpp).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cpu_device/orders_run.hpp"
#include "common/harness/entry.hpp"
#include "common/harness/extent.hpp"
#include "common/harness/panels.hpp"
#include "common/harness/protocol.hpp"
#include "common/harness/verify.hpp"

namespace harness {

class Device;
struct Observation;
struct XrayPlan;

// One step, compiled for each device that this build supports.
struct Step {
  const char* name = "";
  Entry gpu = {}, cpu = {}, cpu_observed = {};
  const char* needs = "";  // of a GPU; see needs.hpp
  // In a build with CUDA for GPUs that all lack the instructions: those GPUs, "sm_75".
  const char* gpu_built_for = nullptr;
  // If the step is in another program: makes a device that has it computed there and checks the result with
  // this one.
  std::function<std::unique_ptr<Device>(std::unique_ptr<Device>)> elsewhere = {};

  Input input() const { return cpu.input(); }
  // The GPU's, if there is one: an experiment changes the GPU's kernel only.
  Precision precision() const { return (gpu ? gpu : cpu).precision(); }
};

struct DeviceInfo {
  std::string kind;  // "gpu" or "cpu"
  std::string name;
  // The GPU only; empty or 0 elsewhere.
  std::string driver, cuda;
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  double max_clock_mhz = 0;
  std::size_t l2_bytes = 0;

  // At the highest clock, in this precision; 0: unknown or meaningless.
  double peak_tflops(Precision precision) const {
    return multiprocessors * peak_flops_per_cycle(precision, compute_capability) * max_clock_mhz * 1e-6;
  }
};

// Elements of a buffer that should still hold the poison and do not.
struct StrayWrites {
  std::int64_t count = 0;
  std::int64_t first = 0;  // element offset from element (0, 0) of the matrix; may be negative
};

// How many parts of C were computed in a way that a step names; see common/accuracy.hpp.
struct WayTaken {
  std::string name;
  std::int64_t parts = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  virtual std::size_t free_bytes() = 0;
  // Allocations of so many bytes take memory only where they are written.
  virtual std::size_t sparse_from() const { return SIZE_MAX; }
  // Throws on failure.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;

  // Fills the buffer, all of an allocation, with the poison.
  virtual void poison(void* buffer, std::size_t bytes) = 0;
  // Uniform in [-1, 1) and exact in the type, a function of seed and position alone: the same on every
  // device.
  virtual void fill_uniform(void* data, Input type, const Extent& extent, std::uint64_t seed) = 0;
  // Copies the elements of a matrix, but not the gaps between its rows.
  virtual void copy_matrix(float* to, const float* from, const Extent& extent) = 0;
  // Looks at the whole buffer except for the matrix in it, which begins at element `origin`.
  virtual StrayWrites stray_writes(const void* buffer, Input type, std::size_t elements, std::int64_t origin,
                                   const Extent& extent) = 0;

  // Runs the step once and waits. Afterwards faults() has what a checking device found.
  virtual void run(const Step& step, const AnyGemm& gemm) = 0;
  virtual std::vector<std::string> faults() { return {}; }
  // How it computed the parts of C; empty if there is only one way.
  const std::vector<WayTaken>& ways() const { return ways_; }
  // In what order threads take turns; for a checking CPU device. See cpu_device::set_schedule().
  virtual void set_schedule(unsigned schedule) { (void)schedule; }
  // Which schedules would show more about the runs under schedule 0 since the last call, best first.
  virtual std::vector<unsigned> take_schedules() { return {}; }
  // Under all orders; for a checking CPU device. See cpu_device::explore_orders(), cpu_device::next_order().
  virtual void explore_orders(bool on) { (void)on; }
  virtual cpu_device::OrdersRun next_order(bool enough) { return (void)enough, cpu_device::OrdersRun{}; }
  // Runs it and observes every access; for a checking CPU device.
  virtual Observation observe(const Step& step, const AnyGemm& gemm, const XrayPlan& plan);
  // The time of the last run, if the device knows it better than a clock around run().
  virtual std::optional<double> last_run_us() const { return {}; }
  // Tells a checking device what the buffers hold. c_readable: beta is not 0.
  virtual void describe(const AnyGemm& gemm) { (void)gemm; }

  // Compares C with alpha * A * B + beta * C0 in double precision; C0 has C's layout, nullptr when beta is 0.
  virtual Verdict verify(const AnyGemm& gemm, const float* c0, double tolerance) = 0;

  // Times the step on `sets`, which are the same problem in different memory. `baseline_c` is where the
  // baseline writes, one for each set. The CPU device has no baseline, and simply runs one set after the
  // other.
  virtual Timing time(const Step& step, const std::vector<AnyGemm>& sets,
                      const std::vector<float*>& baseline_c, int repeat, Protocol protocol) = 0;

 protected:
  // run() of a step that is in this program. `wait` returns when a panel has been computed.
  template <typename Wait>
  void run_and_count(const Entry& entry, const AnyGemm& gemm, const Wait& wait) {
    ways_.clear();
    run_in_panels(entry, gemm, [&](const Ways& ways) {
      if (ways.number == 0) return;
      wait();
      std::vector<unsigned> counts(static_cast<std::size_t>(ways.number));
      download(counts.data(), ways.counts, counts.size() * sizeof(unsigned));
      ways_.resize(counts.size());
      for (std::size_t i = 0; i < counts.size(); ++i) {
        ways_[i].name = ways.names[i];
        ways_[i].parts += counts[i];
      }
    });
    wait();
  }

 private:
  std::vector<WayTaken> ways_;
};

// `watchdog`: see cpu_device::set_watchdog().
std::unique_ptr<Device> make_cpu_device(bool check, double watchdog = 10);

// The GPU to run on, or nullptr and the reason why there is none.
std::unique_ptr<Device> make_gpu_device(std::string& why_not);

}  // namespace harness
