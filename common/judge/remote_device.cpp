#include "common/judge/remote_device.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include "common/harness/xray.hpp"
#include "common/judge/worker_process.hpp"

namespace judge {

namespace {

using harness::AnyGemm;
using harness::Device;

constexpr std::size_t alignment = 256;
constexpr std::size_t most_faults = 100, longest_fault = 8000;  // what honest programs keep far below

class RemoteDevice : public Device {
 public:
  RemoteDevice(std::unique_ptr<Device> local, std::vector<std::string> command, double cpu_limit_s,
               double total_s)
      : local_(std::move(local)), worker_(command, cpu_limit_s, total_s) {
    worker_.tell({.what = Do::hello});
    if (local_->info().kind == "gpu") return;
    command.back() = "host";
    host_.emplace(std::move(command), cpu_limit_s, total_s);
  }

  const harness::DeviceInfo& info() const override { return local_->info(); }
  std::size_t free_bytes() override { return local_->free_bytes() / 2; }
  void* allocate(std::size_t bytes) override {
    void* buffer = local_->allocate(bytes);
    buffers_[static_cast<const char*>(buffer)] = bytes;
    return buffer;
  }
  void release(void* buffer) noexcept override {
    buffers_.erase(static_cast<const char*>(buffer));
    local_->release(buffer);
  }
  void upload(void* to, const void* from, std::size_t bytes) override { local_->upload(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { local_->download(to, from, bytes); }
  void poison(void* buffer, std::size_t bytes) override { local_->poison(buffer, bytes); }
  void fill_uniform(void* data, harness::Input type, const harness::Extent& extent,
                    std::uint64_t seed) override {
    local_->fill_uniform(data, type, extent, seed);
  }
  void copy_matrix(float* to, const float* from, const harness::Extent& extent) override {
    local_->copy_matrix(to, from, extent);
  }
  harness::StrayWrites stray_writes(const void* buffer, harness::Input type, std::size_t elements,
                                    std::int64_t origin, const harness::Extent& extent) override {
    return local_->stray_writes(buffer, type, elements, origin, extent);
  }
  harness::Verdict verify(const AnyGemm& gemm, const float* c0, double tolerance) override {
    return local_->verify(gemm, c0, tolerance);
  }
  std::vector<std::string> faults() override { return std::exchange(faults_, {}); }
  std::optional<double> last_run_us() const override { return last_run_us_; }
  void set_schedule(unsigned schedule) override { schedule_ = schedule; }
  std::vector<unsigned> take_schedules() override { return std::exchange(schedules_, {}); }

  void run(const harness::Step&, const AnyGemm& gemm) override { order(gemm, Do::run); }
  harness::Observation observe(const harness::Step&, const AnyGemm& gemm, const harness::XrayPlan&) override {
    const nlohmann::json answer = order(gemm, Do::run_observed);
    if (!answer.contains("xray")) throw std::runtime_error("it answered without an X-ray");
    return {std::nullopt, answer["xray"].dump()};
  }
  harness::Timing time(const harness::Step&, const std::vector<AnyGemm>&, const std::vector<float*>&, int,
                       harness::Protocol) override {
    throw std::logic_error("a program of another process is timed once, where it is verified");
  }

 private:
  // The allocation around an address, and its place in the shared memory.
  Place place(const void* data, std::size_t& end) const {
    auto after = buffers_.upper_bound(static_cast<const char*>(data));
    const auto& [buffer, bytes] = *--after;
    const std::size_t at = end;
    end += (bytes + alignment - 1) / alignment * alignment;
    return {at, bytes, static_cast<std::uint64_t>(static_cast<const char*>(data) - buffer)};
  }

  nlohmann::json order(const AnyGemm& gemm, Do what) {
    std::size_t end = 0;
    Order order{.what = Do::load, .gemm = gemm};
    order.a = place(gemm.A, end);
    order.b = place(gemm.B, end);
    order.c = place(gemm.C, end);
    char* const memory = worker_.memory(end);
    order.memory = worker_.memory_bytes();
    order.gemm.A = order.gemm.B = order.gemm.C = nullptr;
    const auto start_of = [](const void* data, const Place& place) {
      return static_cast<const char*>(data) - place.first;
    };
    local_->download(memory + order.a.buffer, start_of(gemm.A, order.a), order.a.bytes);
    local_->download(memory + order.b.buffer, start_of(gemm.B, order.b), order.b.bytes);
    local_->download(memory + order.c.buffer, start_of(gemm.C, order.c), order.c.bytes);
    const std::vector<char> inputs(memory, memory + order.c.buffer);
    const nlohmann::json loaded = worker_.tell(order);
    const std::string launches = host_ ? launches_of(order, loaded) : "";
    if (what == Do::run && local_->info().kind == "gpu") {
      order.what = Do::lead;
      worker_.tell(order);
    }
    const auto start = std::chrono::steady_clock::now();
    order.what = what;
    order.schedule = schedule_;
    const nlohmann::json answer = worker_.tell(order, launches);
    last_run_us_ =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    take_faults(answer);
    order.what = Do::fetch;
    worker_.tell(order);
    // A copy, as the program could go on writing.
    const std::vector<char> results(memory, memory + end);
    for (const auto& [name, of] : {std::pair{"A", order.a}, {"B", order.b}}) {
      if (std::memcmp(&results[of.buffer], &inputs[of.buffer], of.bytes) == 0) continue;
      const auto [first, _] = std::mismatch(inputs.begin() + of.buffer, inputs.begin() + of.buffer + of.bytes,
                                            results.begin() + of.buffer);
      const std::int64_t byte = first - inputs.begin() - static_cast<std::int64_t>(of.buffer + of.first);
      faults_.push_back(fmt::format("write to an input: {} changed, first {} bytes {} {}[0][0]", name,
                                    std::abs(byte), byte < 0 ? "before" : "behind", name));
    }
    local_->upload(const_cast<char*>(start_of(gemm.C, order.c)), &results[order.c.buffer], order.c.bytes);
    return answer;
  }

  // What the host asks the device for. Of what either says, the other gets what has the form that it should.
  std::string launches_of(Order order, const nlohmann::json& loaded) {
    order.what = Do::call;
    const auto buffers = loaded.value("buffers", std::vector<std::uint64_t>(3));
    const auto at = [&](Place& place, std::size_t i) {
      place.buffer = buffers.at(i);
      return reinterpret_cast<char*>(place.buffer + place.first);
    };
    order.gemm.A = at(order.a, 0);
    order.gemm.B = at(order.b, 1);
    order.gemm.C = reinterpret_cast<float*>(at(order.c, 2));
    const nlohmann::json answer = host_->tell(order);
    const auto launches = answer.find("launches");
    if (launches == answer.end() || !launches->is_array())
      throw std::runtime_error("it answered without its launches");
    return launches->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  void take_faults(const nlohmann::json& answer) {
    const auto faults = answer.find("faults");
    if (faults == answer.end() || !faults->is_array())
      throw std::runtime_error("it answered without its faults");
    for (const nlohmann::json& fault : *faults) {
      if (faults_.size() == most_faults) break;
      const bool fits = fault.is_string() && fault.get_ref<const std::string&>().size() <= longest_fault;
      faults_.push_back(fits ? fault.get<std::string>() : "a fault without words");
    }
    schedules_.clear();
    if (const auto schedules = answer.find("schedules"); schedules != answer.end()) {
      for (const nlohmann::json& one : *schedules) {
        if (one.is_number_unsigned()) schedules_.push_back(one.get<unsigned>());
      }
    }
  }

  std::unique_ptr<Device> local_;
  std::map<const char*, std::size_t> buffers_;  // of local_
  WorkerProcess worker_;                        // the device
  std::optional<WorkerProcess> host_;           // with a GPU, the same process
  std::vector<std::string> faults_;
  unsigned schedule_ = 0;
  std::vector<unsigned> schedules_;  // which the device would be run under, too
  std::optional<double> last_run_us_;
};

}  // namespace

std::unique_ptr<Device> make_remote_device(std::unique_ptr<Device> local, std::vector<std::string> command,
                                           double cpu_limit_s, double total_s) {
  return std::make_unique<RemoteDevice>(std::move(local), std::move(command), cpu_limit_s, total_s);
}

}  // namespace judge
