// The main program around a student's kernel: does what the judge orders; see wire.hpp. It is the host's
// process, which calls the student's function, or the device's, which executes kernels; the GPU's is both.
// Everything here runs in the same process as some of the student's code, so nobody trusts what it says.
//
//   worker host | device

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "common/harness/device.hpp"
#include "common/harness/error.hpp"
#include "common/harness/xray.hpp"
#include "common/judge/wire.hpp"

#ifdef FOR_GPU
extern const harness::Entry run_on_gpu;
#else
#include "common/cpu_device/crash.hpp"
#include "common/cpu_device/untrusted.hpp"
#include "common/judge/launches.hpp"
#include "common/judge/walls.hpp"

extern const harness::Entry run_on_cpu_observed;
#endif

namespace judge {

namespace {

bool receive(void* to, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = read(socket_fd, to, bytes);
    if (got <= 0) return false;
    to = static_cast<char*>(to) + got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

void say(const nlohmann::json& answer) {
  std::string text = answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::uint64_t bytes = text.size();
  text.insert(0, reinterpret_cast<const char*>(&bytes), sizeof bytes);
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t sent = write(socket_fd, text.data() + at, text.size() - at);
    if (sent <= 0) _exit(1);
    at += static_cast<std::size_t>(sent);
  }
}

class Worker {
 public:
  Worker() {
    std::string why_not;
#ifdef FOR_GPU
    step_.gpu = run_on_gpu;
    device_ = harness::make_gpu_device(why_not);
#else
    step_.cpu = step_.cpu_observed = launcher(run_on_cpu_observed.input());
    device_ = harness::make_cpu_device(true);
    cpu_device::confine();
#endif
    if (device_ == nullptr) throw harness::DeviceUnavailable("no GPU: " + why_not);
  }

  nlohmann::json obey(const Order& order, nlohmann::json more) {
#ifndef FOR_GPU
    set_launches(std::move(more));
#endif
    (void)more;
    switch (order.what) {
      case Do::hello:
        return {{"device", device_->info().name}, {"kind", device_->info().kind}};
      case Do::load:
        load(order);
        return {{"buffers", {address(0), address(1), address(2)}}};
      case Do::call:
        break;  // the host's
      case Do::lead: {
        if (spare_ != nullptr) device_->release(std::exchange(spare_, nullptr));
        spare_ = device_->allocate(order_.c.bytes);
        harness::AnyGemm gemm = gemm_;
        gemm.C = reinterpret_cast<float*>(static_cast<char*>(spare_) + order_.c.first);
        device_->run(step_, gemm);
        return {};
      }
      case Do::run:
        device_->set_schedule(order.schedule);
        device_->run(step_, gemm_);
        return {{"faults", device_->faults()}, {"schedules", device_->take_schedules()}};
      case Do::run_observed: {
        const harness::XrayPlan all;
        const auto report = harness::run_xray(*device_, step_, gemm_, all);
        return {{"faults", device_->faults()}, {"xray", harness::to_json(report, all.all)}};
      }
      case Do::fetch:
        for (int i = 0; i < 3; ++i) {
          const Place& place = place_in(order_, i);
          device_->download(memory_ + place.buffer, buffers_[i], place.bytes);
        }
        return {};
    }
    throw std::logic_error("an unknown order");
  }

 private:
  static const Place& place_in(const Order& order, int i) {
    return i == 0 ? order.a : i == 1 ? order.b : order.c;
  }

  void load(const Order& order) {
    if (memory_ != nullptr) munmap(memory_, order_.memory);
    memory_ = nullptr;
    const Order before = std::exchange(order_, order);
    void* memory = mmap(nullptr, order.memory, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("the matrices cannot be mapped");
    memory_ = static_cast<char*>(memory);
    char* first[3];
    for (int i = 0; i < 3; ++i) {
      const Place& place = place_in(order_, i);
      if (buffers_[i] == nullptr || place_in(before, i).bytes != place.bytes) {
        if (buffers_[i] != nullptr) device_->release(std::exchange(buffers_[i], nullptr));
        buffers_[i] = device_->allocate(place.bytes);
      }
      device_->upload(buffers_[i], memory_ + place.buffer, place.bytes);
      first[i] = static_cast<char*>(buffers_[i]) + place.first;
    }
    gemm_ = order.gemm;
    gemm_.A = first[0];
    gemm_.B = first[1];
    gemm_.C = reinterpret_cast<float*>(first[2]);
    device_->describe(gemm_);
  }

  std::uint64_t address(int i) const { return reinterpret_cast<std::uint64_t>(buffers_[i]); }

  harness::Step step_{};
  std::unique_ptr<harness::Device> device_;
  Order order_{};
  harness::AnyGemm gemm_;
  char* memory_ = nullptr;
  void* buffers_[3] = {};
  void* spare_ = nullptr;  // for lead
};

std::function<nlohmann::json(const Order&, nlohmann::json)> part([[maybe_unused]] std::string_view how) {
#ifndef FOR_GPU
  raise_walls();
  if (how == "host") {
    cpu_device::install_crash_handler();
    return [](const Order& order, const nlohmann::json&) -> nlohmann::json {
      if (order.what == Do::hello) return {{"device", "none"}};
      return {{"launches", launches_of(run_on_cpu_observed, order)}};
    };
  }
#endif
  return [worker = std::make_shared<Worker>()](const Order& order, nlohmann::json more) {
    return worker->obey(order, std::move(more));
  };
}

int serve(std::string_view how) {
  try {
    const auto obey = part(how);
    Order order;
    while (receive(&order, sizeof order)) {
      std::string more(order.follow, '\0');
      if (!receive(more.data(), more.size())) break;
      say(obey(order, nlohmann::json::parse(more, nullptr, false)));
    }
    return 0;
  } catch (const harness::DeviceUnavailable& error) {
    say({{"error", error.what()}, {"status", 3}});
  } catch (const std::exception& error) {
    say({{"error", error.what()}, {"status", 1}});
  }
  return 1;
}

}  // namespace

}  // namespace judge

int main(int argc, char** argv) { return judge::serve(argc > 1 ? argv[1] : "device"); }
