#pragma once

#include <memory>
#include <string>

namespace harness {

// What the driver says of a GPU at work, sampled while timing runs: medians over the samples.
struct Telemetry {
  double sm_clock_mhz = 0, memory_clock_mhz = 0, power_watts = 0, temperature = 0;  // 0: not told
};

// Reads clocks, power and temperature through NVML, in a thread of its own. NVML comes with the driver and
// is opened at run time, so that programs start on machines without one; where it is missing all is 0.
class Sampler {
 public:
  explicit Sampler(const std::string& pci_bus_id);  // as cudaDeviceGetPCIBusId gives it
  ~Sampler();
  void start();
  Telemetry stop();
  std::string driver_version() const;  // "" if unknown

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harness
