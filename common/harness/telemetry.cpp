#include "common/harness/telemetry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace harness {

namespace {

// The few declarations of NVML that are used here (NVML API reference); its header does not come with every
// CUDA toolkit.
using NvmlDevice = struct NvmlDeviceHandle*;
constexpr int nvml_success = 0, nvml_clock_sm = 1, nvml_clock_memory = 2, nvml_temperature_gpu = 0;
using NvmlInit = int (*)();
using NvmlByBusId = int (*)(const char*, NvmlDevice*);
using NvmlClock = int (*)(NvmlDevice, int, unsigned*);
using NvmlPower = int (*)(NvmlDevice, unsigned*);  // milliwatts
using NvmlTemperature = int (*)(NvmlDevice, int, unsigned*);
using NvmlDriverVersion = int (*)(char*, unsigned);

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

struct Sampler::Impl {
  void* library = nullptr;
  NvmlDevice device = nullptr;
  bool usable = false;
  NvmlClock clock = nullptr;
  NvmlPower power = nullptr;
  NvmlTemperature temperature = nullptr;
  NvmlDriverVersion driver = nullptr;
  std::vector<double> sm_clocks, memory_clocks, powers, temperatures;
  std::jthread thread;

  template <typename Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }

  void sample() {
    unsigned value = 0;
    if (clock(device, nvml_clock_sm, &value) == nvml_success) sm_clocks.push_back(value);
    if (clock(device, nvml_clock_memory, &value) == nvml_success) memory_clocks.push_back(value);
    if (power(device, &value) == nvml_success) powers.push_back(value / 1000.0);
    if (temperature(device, nvml_temperature_gpu, &value) == nvml_success) temperatures.push_back(value);
  }
};

Sampler::Sampler(const std::string& pci_bus_id) : impl_(std::make_unique<Impl>()) {
  Impl& i = *impl_;
  i.library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (i.library == nullptr) return;
  NvmlInit init = nullptr;
  NvmlByBusId by_bus_id = nullptr;
  if (!i.find(init, "nvmlInit_v2") || !i.find(by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2") ||
      !i.find(i.clock, "nvmlDeviceGetClockInfo") || !i.find(i.power, "nvmlDeviceGetPowerUsage") ||
      !i.find(i.temperature, "nvmlDeviceGetTemperature") || !i.find(i.driver, "nvmlSystemGetDriverVersion")) {
    return;
  }
  i.usable = init() == nvml_success && by_bus_id(pci_bus_id.c_str(), &i.device) == nvml_success;
}

Sampler::~Sampler() = default;

void Sampler::start() {
  Impl& i = *impl_;
  i.sm_clocks.clear();
  i.memory_clocks.clear();
  i.powers.clear();
  i.temperatures.clear();
  if (!i.usable) return;
  i.thread = std::jthread([&i](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      i.sample();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
}

Telemetry Sampler::stop() {
  Impl& i = *impl_;
  if (i.thread.joinable()) {
    i.thread.request_stop();
    i.thread.join();
  }
  return {median(i.sm_clocks), median(i.memory_clocks), median(i.powers), median(i.temperatures)};
}

std::string Sampler::driver_version() const {
  char text[80] = "";
  if (impl_->usable) impl_->driver(text, sizeof text);
  return text;
}

}  // namespace harness
