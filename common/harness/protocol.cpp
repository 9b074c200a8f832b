#include "common/harness/protocol.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace harness {

namespace {

using Who = Contest::Who;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A kernel that takes seconds (the naive one takes 18 at 16384) can be timed to a fraction of a percent
// without 20 repetitions.
constexpr int enough_samples = 3;
constexpr double enough_seconds = 10;

// Several launches per sample if one is short compared with the resolution of events (about 1 us).
int launches_to_a_sample(double us) { return std::clamp(static_cast<int>(300 / std::max(us, 1.0)), 1, 50); }

// Enough of them to take that time.
int launches_to_fill(double ms, double us) {
  return static_cast<int>(std::clamp(std::ceil(1e3 * ms / std::max(us, 0.5)), 1.0, 1e6));
}

// Runs the pair until the step's last five times agree within 2 %, for at least 0.2 s and at most 2 s.
void warm_up(Contest& contest, int launches) {
  const double start = contest.now();
  std::vector<double> last;
  while (true) {
    last.push_back(contest.run(Who::step, launches, false));
    if (contest.has_baseline()) contest.run(Who::baseline, launches, false);
    if (last.size() > 5) last.erase(last.begin());
    const double elapsed = contest.now() - start;
    const auto [low, high] = std::minmax_element(last.begin(), last.end());
    const bool settled = last.size() == 5 && *high <= 1.02 * *low && elapsed > 0.2;
    if (settled || elapsed > 2) return;
  }
}

// Runs the pairs. If idle_before_ms is not 0, the GPU idles before each run, and clock and power are read
// after it.
void time_pairs(Contest& contest, int repeat, double idle_before_ms, Timing& timing) {
  // Of the last run; initially such that a single launch leads the first.
  double last_us[] = {1e3 * wake_ms, 1e3 * wake_ms};
  const auto us_of = [&](Who who) -> double& { return last_us[who == Who::step ? 0 : 1]; };
  std::vector<double> step_us, baseline_us, ratios;
  double spent = 0;  // without idling
  const auto run = [&](Who who) {
    if (idle_before_ms > 0) contest.idle(idle_before_ms);
    const double start = contest.now();
    const int lead = idle_before_ms > 0 ? launches_to_fill(wake_ms, us_of(who)) : 0;
    const double us = contest.run(who, timing.launches_per_sample, true, lead);
    if (idle_before_ms > 0) contest.look(who);
    spent += contest.now() - start;
    us_of(who) = us;
    return us;
  };
  for (int i = 0; i < repeat; ++i) {
    if (i >= enough_samples && spent > enough_seconds) break;
    step_us.push_back(run(Who::step));
    if (!contest.has_baseline()) continue;
    baseline_us.push_back(run(Who::baseline));
    ratios.push_back(baseline_us.back() / step_us.back());
  }
  timing.samples = static_cast<int>(step_us.size());
  timing.median_us = median(step_us);
  std::sort(step_us.begin(), step_us.end());
  timing.spread = (step_us[step_us.size() * 3 / 4] - step_us[step_us.size() / 4]) / timing.median_us;
  if (contest.has_baseline()) {
    timing.baseline_us = median(baseline_us);
    timing.ratio = median(ratios);
  }
}

// One sustained run; returns microseconds per launch. A GPU at its power limit is slower than a rested one,
// so launches of us_rested each fill the time; a tenth more in case it is not.
double run_sustained(Contest& contest, Who who, double us_rested, Sustained& sustained) {
  contest.run(who, launches_to_fill(sustained_lead_ms, us_rested), false);
  contest.begin(who, true);
  const int launches = launches_to_fill(1.1 * sustained_least_ms, us_rested);
  const double us = contest.run(who, launches, true);
  const double seconds = us * launches * 1e-6;
  sustained.least_seconds =
      sustained.least_seconds == 0 ? seconds : std::min(sustained.least_seconds, seconds);
  return us;
}

Telemetry median_of(const std::vector<Telemetry>& rounds) {
  const auto middle = [&](double Telemetry::* figure) {
    std::vector<double> values;
    for (const Telemetry& round : rounds) values.push_back(round.*figure);
    return median(values);
  };
  return {middle(&Telemetry::sm_clock_mhz), middle(&Telemetry::memory_clock_mhz),
          middle(&Telemetry::power_watts),  middle(&Telemetry::power_watts_now),
          middle(&Telemetry::temperature),  middle(&Telemetry::counted_clock_mhz)};
}

Sustained time_sustained(Contest& contest, const Timing& rested) {
  Sustained sustained;
  std::vector<double> step_us, baseline_us, ratios;
  std::vector<Telemetry> of_step, of_baseline;
  for (int round = 0; round < sustained_rounds; ++round) {
    step_us.push_back(run_sustained(contest, Who::step, rested.median_us, sustained));
    of_step.push_back(contest.end(Who::step));
    if (!contest.has_baseline()) continue;
    baseline_us.push_back(run_sustained(contest, Who::baseline, rested.baseline_us, sustained));
    of_baseline.push_back(contest.end(Who::baseline));
    ratios.push_back(baseline_us.back() / step_us.back());
  }
  sustained.median_us = median(step_us);
  sustained.telemetry = median_of(of_step);
  if (contest.has_baseline()) {
    sustained.baseline_us = median(baseline_us);
    sustained.ratio = median(ratios);
    sustained.baseline_telemetry = median_of(of_baseline);
  }
  return sustained;
}

}  // namespace

const char* name_of(Protocol protocol) { return protocol == Protocol::in_turn ? "in turn" : "rested"; }

Timing time_by(Protocol protocol, Contest& contest, int repeat) {
  Timing timing;
  timing.protocol = protocol;
  const bool rested = protocol != Protocol::in_turn;
  if (!rested) contest.begin(Who::step, true);
  timing.launches_per_sample = launches_to_a_sample(contest.run(Who::step, 1, false));
  warm_up(contest, timing.launches_per_sample);
  if (rested) contest.begin(Who::step, false);
  contest.begin(Who::baseline, false);
  time_pairs(contest, std::max(repeat, 1), rested ? idle_ms : 0, timing);
  timing.telemetry = contest.end(Who::step);
  if (contest.has_baseline()) timing.baseline_telemetry = contest.end(Who::baseline);
  if (protocol == Protocol::rested) timing.sustained = time_sustained(contest, timing);
  return timing;
}

}  // namespace harness
