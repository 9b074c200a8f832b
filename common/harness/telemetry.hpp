#pragma once

#include <memory>
#include <string>
#include <vector>

namespace harness {

// What the driver says about a GPU at work: medians over the samples. 0: unknown.
struct Telemetry {
  double sm_clock_mhz = 0, memory_clock_mhz = 0;
  double power_watts = 0;        // newer GPUs average it over a second
  double power_watts_now = 0;    // not averaged; older drivers do not tell
  double temperature = 0;        // in degrees Celsius
  double counted_clock_mhz = 0;  // of the SMs, by their own counters and not by the driver
};

struct TelemetrySamples {
  std::vector<double> sm_clocks, memory_clocks, powers, powers_now, temperatures, counted_clocks;
  Telemetry medians() const;
};

// Reads clocks, power and temperature through NVML. NVML comes with the driver and is loaded at run time, so
// that programs start on machines without a driver; there everything is 0.
class Sampler {
 public:
  explicit Sampler(const std::string& pci_bus_id);  // as cudaDeviceGetPCIBusId gives it
  ~Sampler();
  // Takes a sample every 10 ms, in a thread of its own.
  void start();
  Telemetry stop();
  // Takes one sample now.
  void look(TelemetrySamples& samples) const;
  std::string driver_version() const;  // "" if unknown

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace harness
