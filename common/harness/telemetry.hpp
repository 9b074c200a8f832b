#pragma once

#include <memory>
#include <string>
#include <vector>

namespace harness {

// What the driver says of a GPU at work: medians over the samples. 0: not told.
struct Telemetry {
  double sm_clock_mhz = 0, memory_clock_mhz = 0;
  double power_watts = 0;      // which newer GPUs average over a second
  double power_watts_now = 0;  // at the moment, as older drivers do not tell
  double temperature = 0;      // in degrees Celsius
};

struct TelemetrySamples {
  std::vector<double> sm_clocks, memory_clocks, powers, powers_now, temperatures;
  Telemetry medians() const;
};

// Reads clocks, power and temperature through NVML. NVML comes with the driver and is opened at run time, so
// that programs start on machines without one; where it is missing all is 0.
class Sampler {
 public:
  explicit Sampler(const std::string& pci_bus_id);  // as cudaDeviceGetPCIBusId gives it
  ~Sampler();
  // Takes samples every 10 ms, in a thread of its own.
  void start();
  Telemetry stop();
  // Takes one now.
  void look(TelemetrySamples& samples) const;
  std::string driver_version() const;  // "" if unknown

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harness
