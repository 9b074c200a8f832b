#include "common/harness/gpu_timing.hpp"

#include <algorithm>
#include <chrono>

#include "common/cuda/check.hpp"
#include "common/harness/panels.hpp"

namespace harness::gpu {

namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Event {
 public:
  Event() { CUDA_CHECK(cudaEventCreate(&event_)); }
  Event(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  void record() { CUDA_CHECK(cudaEventRecord(event_)); }
  // Waits for both; in microseconds.
  static double between(const Event& start, const Event& stop) {
    float ms = 0;
    CUDA_CHECK(cudaEventSynchronize(stop.event_));
    CUDA_CHECK(cudaEventElapsedTime(&ms, start.event_, stop.event_));
    return ms * 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// A kernel that takes seconds (the naive one at 16384 takes 18) needs no 20 repetitions to be timed to a
// fraction of a percent.
constexpr int enough_samples = 3;
constexpr double enough_seconds = 10;

// Runs `sample` until the last five times agree within 2 %, for 0.2 s at least and 2 s at most.
template <typename Sample>
void warm_up(const Sample& sample) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> last;
  while (true) {
    last.push_back(sample());
    if (last.size() > 5) last.erase(last.begin());
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    const auto [low, high] = std::minmax_element(last.begin(), last.end());
    const bool settled = last.size() == 5 && *high <= 1.02 * *low && elapsed.count() > 0.2;
    if (settled || elapsed.count() > 2) return;
  }
}

}  // namespace

Timing time(const Entry& step, const std::vector<AnyGemm>& sets, const std::vector<float*>& baseline_c,
            int repeat, Sampler& sampler, std::unique_ptr<Cublas>& cublas) {
  Timing timing;
  const bool empty = sets[0].M == 0 || sets[0].N == 0;
  const bool baseline = !empty && sets[0].K > 0;
  const auto baseline_problem = [&](std::size_t set) {
    AnyGemm g = sets[set];
    g.C = baseline_c[set];
    return g;
  };
  if (baseline) {
    if (cublas == nullptr) cublas = std::make_unique<Cublas>();
    std::vector<AnyGemm> problems;
    for (std::size_t set = 0; set < sets.size(); ++set) problems.push_back(baseline_problem(set));
    cublas->choose(problems);
    timing.baseline = cublas->chosen();
  }
  std::size_t next = 0;  // the set whose turn it is
  const auto run_step = [&](int launches) {
    for (int i = 0; i < launches; ++i) run_in_panels(step, sets[(next + i) % sets.size()]);
  };
  const auto run_baseline = [&](int launches) {
    for (int i = 0; i < launches; ++i) cublas->run(baseline_problem((next + i) % sets.size()));
  };
  Event start, stop;
  const auto sample = [&](const auto& run, int launches) {
    start.record();
    run(launches);
    stop.record();
    return Event::between(start, stop) / launches;
  };

  sampler.start();
  const double first = sample(run_step, 1);
  // Several launches to a sample where one is short against the resolution of events (about 1 us).
  timing.launches_per_sample = std::clamp(static_cast<int>(300 / std::max(first, 1.0)), 1, 50);
  warm_up([&] {
    const double us = sample(run_step, timing.launches_per_sample);
    if (baseline) sample(run_baseline, timing.launches_per_sample);
    return us;
  });
  std::vector<double> step_us, baseline_us, ratios;
  const auto timing_start = std::chrono::steady_clock::now();
  for (int i = 0; i < repeat; ++i) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - timing_start;
    if (i >= enough_samples && elapsed.count() > enough_seconds) break;
    step_us.push_back(sample(run_step, timing.launches_per_sample));
    next += timing.launches_per_sample;
    if (!baseline) continue;
    baseline_us.push_back(sample(run_baseline, timing.launches_per_sample));
    next += timing.launches_per_sample;
    ratios.push_back(baseline_us.back() / step_us.back());
  }
  timing.telemetry = sampler.stop();
  timing.samples = static_cast<int>(step_us.size());
  timing.median_us = median(step_us);
  std::sort(step_us.begin(), step_us.end());
  timing.spread = (step_us[step_us.size() * 3 / 4] - step_us[step_us.size() / 4]) / timing.median_us;
  if (baseline) {
    timing.baseline_us = median(baseline_us);
    timing.ratio = median(ratios);
  }
  return timing;
}

}  // namespace harness::gpu
