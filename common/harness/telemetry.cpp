#include "common/harness/telemetry.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace harness {

namespace {

// The few NVML declarations used here (NVML API reference): not every CUDA toolkit comes with its header.
using NvmlDevice = struct NvmlDeviceHandle*;
constexpr int nvml_success = 0, nvml_clock_sm = 1, nvml_clock_memory = 2, nvml_temperature_gpu = 0;
using NvmlInit = int (*)();
using NvmlByBusId = int (*)(const char*, NvmlDevice*);
using NvmlClock = int (*)(NvmlDevice, int, unsigned*);
using NvmlPower = int (*)(NvmlDevice, unsigned*);  // milliwatts
using NvmlTemperature = int (*)(NvmlDevice, int, unsigned*);
// For nvmlDeviceGetFieldValues, which reads several figures by number; each has a status of its own.
struct NvmlFieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type, status;
  union {
    double as_double;
    unsigned as_unsigned;
    unsigned long long as_unsigned_64;
  } value;
};
static_assert(sizeof(NvmlFieldValue) == 40);
constexpr unsigned nvml_power_now = 186;  // milliwatts
constexpr int nvml_type_unsigned = 1;
using NvmlFields = int (*)(NvmlDevice, int, NvmlFieldValue*);
using NvmlDriverVersion = int (*)(char*, unsigned);

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

Telemetry TelemetrySamples::medians() const {
  return {median(sm_clocks),  median(memory_clocks), median(powers),
          median(powers_now), median(temperatures),  median(counted_clocks)};
}

struct Sampler::Impl {
  void* library = nullptr;
  NvmlDevice device = nullptr;
  bool usable = false;
  NvmlClock clock = nullptr;
  NvmlPower power = nullptr;
  NvmlTemperature temperature = nullptr;
  NvmlFields fields = nullptr;  // nullptr: an older driver
  NvmlDriverVersion driver = nullptr;
  TelemetrySamples samples;
  std::jthread thread;

  template <typename Function>
  bool find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }

  void sample(TelemetrySamples& to) const {
    unsigned value = 0;
    if (clock(device, nvml_clock_sm, &value) == nvml_success) to.sm_clocks.push_back(value);
    if (clock(device, nvml_clock_memory, &value) == nvml_success) to.memory_clocks.push_back(value);
    if (power(device, &value) == nvml_success) to.powers.push_back(value / 1000.0);
    NvmlFieldValue now{};
    now.field = nvml_power_now;
    if (fields != nullptr && fields(device, 1, &now) == nvml_success && now.status == nvml_success &&
        now.type == nvml_type_unsigned) {
      to.powers_now.push_back(now.value.as_unsigned / 1000.0);
    }
    if (temperature(device, nvml_temperature_gpu, &value) == nvml_success) to.temperatures.push_back(value);
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
  i.find(i.fields, "nvmlDeviceGetFieldValues");
  i.usable = init() == nvml_success && by_bus_id(pci_bus_id.c_str(), &i.device) == nvml_success;
}

Sampler::~Sampler() = default;

void Sampler::start() {
  Impl& i = *impl_;
  i.samples = {};
  if (!i.usable) return;
  i.thread = std::jthread([&i](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      i.sample(i.samples);
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
  return i.samples.medians();
}

void Sampler::look(TelemetrySamples& samples) const {
  if (impl_->usable) impl_->sample(samples);
}

std::string Sampler::driver_version() const {
  char text[80] = "";
  if (impl_->usable) impl_->driver(text, sizeof text);
  return text;
}

}  // namespace harness
