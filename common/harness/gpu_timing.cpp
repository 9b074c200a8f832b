#include "common/harness/gpu_timing.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/cuda/check.hpp"
#include "common/harness/gpu_clock.hpp"
#include "common/harness/gpu_gate.hpp"
#include "common/harness/panels.hpp"

namespace harness::gpu {

namespace {

class Event {
 public:
  Event() { CUDA_CHECK(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record() { CUDA_CHECK(cudaEventRecord(event_)); }
  // In microseconds; waits for both.
  static double between(const Event& start, const Event& stop) {
    float ms = 0;
    CUDA_CHECK(cudaEventSynchronize(stop.event_));
    CUDA_CHECK(cudaEventElapsedTime(&ms, start.event_, stop.event_));
    return ms * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class OnGpu : public Contest {
 public:
  // cublas: nullptr if there is no baseline.
  OnGpu(const Entry& step, const std::vector<AnyGemm>& sets, const std::vector<float*>& baseline_c,
        Sampler& sampler, Cublas* cublas)
      : step_(step), sets_(sets), baseline_c_(baseline_c), sampler_(sampler), cublas_(cublas) {}

  bool has_baseline() const override { return cublas_ != nullptr; }

  double run(Who who, int launches, bool counted, int lead) override {
    const bool gated = counted && lead + launches <= most_gated;
    if (gated) gate_.close();
    for (int i = 0; i < lead + launches; ++i, ++next_) {
      if (i == lead) {
        if (counted) clock_.start();
        start_.record();
      }
      const std::size_t set = next_ % sets_.size();
      if (who == Who::step) {
        run_in_panels(step_, sets_[set]);
      } else {
        AnyGemm g = sets_[set];
        g.C = baseline_c_[set];
        cublas_->run(g);
      }
    }
    stop_.record();
    if (counted) clock_.stop();
    if (gated) gate_.open();
    const double us = Event::between(start_, stop_) / launches;
    if (counted) samples_[index(who)].counted_clocks.push_back(clock_.mhz());
    return us;
  }

  void idle(double ms) override {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
  }
  double now() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  void begin(Who who, bool continuous) override {
    samples_[index(who)] = {};
    if (continuous) sampler_.start();
    continuous_[index(who)] = continuous;
  }
  void look(Who who) override { sampler_.look(samples_[index(who)]); }
  Telemetry end(Who who) override {
    Telemetry seen = samples_[index(who)].medians();
    const double counted = seen.counted_clock_mhz;
    if (continuous_[index(who)]) seen = sampler_.stop();
    seen.counted_clock_mhz = counted;
    return seen;
  }

 private:
  static std::size_t index(Who who) { return who == Who::step ? 0 : 1; }

  const Entry& step_;
  const std::vector<AnyGemm>& sets_;
  const std::vector<float*>& baseline_c_;
  Sampler& sampler_;
  Cublas* cublas_;
  Event start_, stop_;
  Gate gate_;
  ClockCounter clock_;
  std::size_t next_ = 0;  // the set whose turn it is
  TelemetrySamples samples_[2];
  bool continuous_[2] = {};
};

}  // namespace

Timing time(const Entry& step, const std::vector<AnyGemm>& sets, const std::vector<float*>& baseline_c,
            int repeat, Protocol protocol, Sampler& sampler, std::unique_ptr<Cublas>& cublas) {
  const bool empty = sets[0].M == 0 || sets[0].N == 0;
  const bool baseline = !empty && sets[0].K > 0;
  if (baseline) {
    if (cublas == nullptr) cublas = std::make_unique<Cublas>(step.precision());
    std::vector<AnyGemm> problems = sets;
    for (std::size_t set = 0; set < sets.size(); ++set) problems[set].C = baseline_c[set];
    cublas->choose(problems);
  }
  OnGpu contest(step, sets, baseline_c, sampler, baseline ? cublas.get() : nullptr);
  Timing timing = time_by(protocol, contest, repeat);
  if (baseline) timing.baseline = cublas->chosen();
  return timing;
}

}  // namespace harness::gpu
