#pragma once

// What the harness asks of a device. Two exist: the GPU (device_gpu.cu) and the CPU device (device_cpu.cpp).

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/harness/problem.hpp"
#include "common/harness/verify.hpp"

namespace harness {

// One step, compiled for each device: entry points that launch its kernel on the whole problem.
// nullptr: this build has none.
struct Step {
  const char* name;
  void (*gpu)(const Gemm&);
  void (*cpu)(const Gemm&);
  void (*cpu_observed)(const Gemm&);
  int min_compute_capability = 0;  // of a GPU that has the step's instructions: 80 for 8.0
};

// Bits of the NaN that fills every word the kernel must not touch, and C before the kernel runs. It is a
// signalling NaN: arithmetic makes it quiet, so what a kernel computed from it is not mistaken for it.
constexpr std::uint32_t poison_bits = 0x7f80dead;

struct DeviceInfo {
  std::string kind;  // "gpu" or "cpu"
  std::string name;
  double peak_tflops = 0;  // FP32 FFMA at the highest clock; 0: unknown or meaningless
  // The GPU only; empty or 0 elsewhere.
  std::string driver, cuda;
  int compute_capability = 0;  // 90 for 9.0
  int multiprocessors = 0;
  double max_clock_mhz = 0;
  std::size_t l2_bytes = 0;
};

// Measured by interleaving step and baseline: A B A B. Times are for one launch.
struct Timing {
  int samples = 0;              // pairs
  int launches_per_sample = 1;  // back to back, for small problems
  double median_us = 0;
  double spread = 0;       // (third quartile - first quartile) / median
  double baseline_us = 0;  // 0: no baseline
  double ratio = 0;        // baseline time / step time, the median over the pairs
  std::string baseline;    // what cuBLAS ran
  double sm_clock_mhz = 0, memory_clock_mhz = 0, power_watts = 0, temperature = 0;  // medians during timing
};

struct TimingRequest {
  int repeat = 20;
  bool cold_cache = true;
  bool baseline = true;
};

// Words of a buffer that must have kept the poison and did not.
struct StrayWrites {
  std::int64_t count = 0;
  std::int64_t first = 0;  // element offset from element (0, 0) of the matrix; may be negative
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  virtual std::size_t free_bytes() = 0;
  // Throws on failure.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;

  // Sets every word of the buffer to the poison.
  virtual void poison(float* buffer, std::size_t elements) = 0;
  // Uniform in [-1, 1), a function of seed and position alone: the same on every device.
  virtual void fill_uniform(float* data, const Extent& extent, std::uint64_t seed) = 0;
  // Copies the elements of a matrix, not what lies between its rows.
  virtual void copy_matrix(float* to, const float* from, const Extent& extent) = 0;
  // Looks at the whole buffer but for the matrix in it.
  virtual StrayWrites stray_writes(const float* buffer, std::size_t elements, const float* data,
                                   const Extent& extent) = 0;

  // Runs the step once and waits. Faults found by a checking device are in faults() afterwards.
  virtual void run(const Step& step, const Gemm& gemm) = 0;
  virtual std::vector<std::string> faults() { return {}; }
  // Tells a checking device what the buffers hold. c_readable: beta is not 0.
  virtual void describe(const Gemm& gemm) { (void)gemm; }

  // Compares C with alpha * A * B + beta * C0 in double precision; C0 has C's layout, nullptr when beta is 0.
  virtual Verdict verify(const Gemm& gemm, const float* c0, double tolerance) = 0;

  // Times the step on `sets`, which are the same problem in different memory. `baseline_c` is where the
  // baseline writes, one for each set.
  virtual Timing time(const Step& step, const std::vector<Gemm>& sets, const std::vector<float*>& baseline_c,
                      const TimingRequest& request) = 0;
};

// A grid has at most 65535 blocks in y and in z: runs `entry` on panels of at most 2^20 rows and on at most
// 2^15 matrices at a time, so that no step needs to care.
void run_in_panels(void (*entry)(const Gemm&), const Gemm& gemm);

std::unique_ptr<Device> make_cpu_device(bool check);

// The GPU that will run, or nullptr with the reason why none can.
std::unique_ptr<Device> make_gpu_device(std::string& why_not);

}  // namespace harness
