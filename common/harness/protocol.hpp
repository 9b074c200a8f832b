#pragma once

// In what order a step and the baseline run to be timed, and how long a GPU rests between;
// docs/concepts/measuring.md says why. What runs them is behind an interface: a GPU (gpu_timing.cpp), or a
// test's model of one.

#include <optional>
#include <string>

#include "common/harness/telemetry.hpp"

namespace harness {

// In turn: the step, the baseline, the step, and so on without a break. Where neither takes all the power
// that the board may draw, the clock is the same for both. Rested: the same, but the GPU idles before each
// timed run and then wakes up, so that none pays for the heat and the power of the one before it; and then
// sustained: each for half a second and more without a break, as in a program that does nothing else, at the
// clock that its own power leaves it.
enum class Protocol { in_turn, rested };
const char* name_of(Protocol protocol);

constexpr double idle_ms = 40;  // before a rested run
constexpr double wake_ms =
    0.5;  // of launches that lead a rested run: the first one after any rest seems slow
constexpr int sustained_rounds = 3;
constexpr double sustained_lead_ms = 200;   // before a sustained run, of the same program and not counted
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
  // In turn: of the whole time, both together. Rested: as it was right after each run.
  Telemetry telemetry;
  std::optional<Telemetry> baseline_telemetry;  // where it was looked at by itself
  std::optional<Sustained> sustained;           // by the protocol of that name
};

// What runs the two.
class Contest {
 public:
  enum class Who { step, baseline };

  virtual ~Contest() = default;
  virtual bool has_baseline() const = 0;
  // Launches it so many times back to back, each on the next copy of the problem, and waits; returns
  // microseconds for one launch. `counted`: this is a measurement. So many launches as `lead` says go
  // before, are not timed, and nobody waits between: the timed ones are in the GPU's queue by then.
  virtual double run(Who who, int launches, bool counted, int lead = 0) = 0;
  virtual void idle(double ms) = 0;
  // Seconds since any moment before.
  virtual double now() = 0;
  // The GPU's clock and power: from begin() to end(), looked at all the time or, without `continuous`,
  // whenever look() is called. The one does not end what the other began.
  virtual void begin(Who who, bool continuous) = 0;
  virtual void look(Who who) = 0;
  virtual Telemetry end(Who who) = 0;
};

// Runs as many pairs as `repeat` says, fewer of what takes long; at least one.
Timing time_by(Protocol protocol, Contest& contest, int repeat);

}  // namespace harness
