#pragma once

// In which order a step and the baseline are run to be timed, and how long the GPU rests in between;
// docs/concepts/measuring.md says why. What runs them is behind an interface: a GPU (gpu_timing.cpp), or a
// test's model of one.

#include <optional>
#include <string>

#include "common/harness/telemetry.hpp"

namespace harness {

// In turn: the step, the baseline, the step, and so on without a break. As long as neither reaches the
// board's power limit, the clock is the same for both. Rested: the same, but the GPU idles before each timed
// run and is then woken up, so that no run pays for the heat and the power of the one before it. After these,
// sustained runs: each for half a second or more without a break, as in a program that does nothing else, at
// the clock that its own power permits; rested_only leaves them out.
enum class Protocol { in_turn, rested, rested_only };
const char* name_of(Protocol protocol);

constexpr double idle_ms = 40;  // before a rested run
constexpr double wake_ms =
    0.5;  // of untimed launches before a rested run: the first launch after a rest seems slow
constexpr int sustained_rounds = 3;
constexpr double sustained_lead_ms = 200;   // before a sustained run: the same launches, not counted
constexpr double sustained_least_ms = 500;  // of a sustained run

// Times are for one launch.
struct Sustained {
  double median_us = 0, baseline_us = 0;
  double ratio = 0;          // baseline time / step time, the median over the rounds; 0: no baseline
  double least_seconds = 0;  // the shortest of the runs
  Telemetry telemetry, baseline_telemetry;
};

struct Timing {
  Protocol protocol = Protocol::in_turn;
  int samples = 0;              // pairs
  int launches_per_sample = 1;  // back to back, for small problems
  double median_us = 0;
  double spread = 0;       // (third quartile - first quartile) / median
  double baseline_us = 0;  // 0: no baseline
  double ratio = 0;        // baseline time / step time, the median over the pairs
  std::string baseline;    // what cuBLAS ran
  // In turn: over the whole time, of both together. Rested: as read right after each run. counted_clock_mhz:
  // during each run.
  Telemetry telemetry;
  std::optional<Telemetry> baseline_telemetry;  // in turn: only counted_clock_mhz
  std::optional<Sustained> sustained;           // rested only
};

// What runs the two.
class Contest {
 public:
  enum class Who { step, baseline };

  virtual ~Contest() = default;
  virtual bool has_baseline() const = 0;
  // Launches it `launches` times back to back, each on the next copy of the problem, and waits; returns the
  // microseconds per launch. `counted`: this is a measurement; if the launches are few, none begins before
  // all are in the GPU's queue. `lead` untimed launches precede them, without waiting in between.
  virtual double run(Who who, int launches, bool counted, int lead = 0) = 0;
  virtual void idle(double ms) = 0;
  // In seconds, since some fixed moment.
  virtual double now() = 0;
  // The GPU's clock and power from begin() to end(), sampled all the time or, without `continuous`, whenever
  // look() is called. The step's and the baseline's are independent of each other.
  virtual void begin(Who who, bool continuous) = 0;
  virtual void look(Who who) = 0;
  virtual Telemetry end(Who who) = 0;
};

// Runs `repeat` pairs, or fewer if they take long; at least one.
Timing time_by(Protocol protocol, Contest& contest, int repeat);

}  // namespace harness
