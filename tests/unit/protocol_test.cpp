// How a step and the baseline are timed, on a model of a GPU: its clock falls while a program draws more than
// the board may, and recovers while it idles.

#include "common/harness/protocol.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace {

using harness::Contest;
using harness::Protocol;
using harness::Sustained;
using harness::Telemetry;
using harness::Timing;
using Who = Contest::Who;

struct Program {
  double us = 0;     // of a launch at the full clock
  double clock = 1;  // what its power leaves of the clock when it lasts; 1: all
};

// The first launch after an idle time takes longer. The clock moves towards what the running program leaves
// of it, or while nothing runs towards 1, by the factor e in `settling` seconds.
class Model : public Contest {
 public:
  struct Run {
    Who who;
    int launches, lead;
    bool counted;
    double idle_before_s, seconds, us;
  };

  Model(Program step, Program baseline) : programs_{step, baseline} {}

  bool has_baseline() const override { return programs_[1].us > 0; }
  double run(Who who, int launches, bool counted, int lead) override {
    const Program& program = programs_[who == Who::step ? 0 : 1];
    double seconds = 0, untimed = idled_ > 0 ? wake_up : 0;
    if (lead == 0) std::swap(seconds, untimed);
    for (int i = 0; i < lead + launches; ++i) {
      const double launch = program.us * 1e-6 / clock_;
      (i < lead ? untimed : seconds) += launch;
      settle(program.clock, launch);
    }
    time_ += untimed + seconds;
    runs.push_back(
        {who, launches, lead, counted, std::exchange(idled_, 0.0), seconds, 1e6 * seconds / launches});
    return runs.back().us;
  }
  void idle(double ms) override {
    time_ += ms * 1e-3;
    idled_ += ms * 1e-3;
    settle(1, ms * 1e-3);
  }
  double now() override { return time_; }
  void begin(Who who, bool continuous) override {
    continuous_[who] = continuous;
    looks_[who] = 0;
    seen_[who] = {};
  }
  void look(Who who) override {
    EXPECT_FALSE(continuous_.at(who));
    ++looks_[who];
    seen_[who].sm_clock_mhz = 1000 * clock_;
  }
  Telemetry end(Who who) override {
    ended.push_back({who, continuous_.at(who), looks_.at(who)});
    if (continuous_.at(who)) seen_[who].sm_clock_mhz = 1000 * clock_;
    return seen_[who];
  }

  std::vector<const Run*> counted(Who who) const {
    std::vector<const Run*> found;
    for (const Run& run : runs) {
      if (run.counted && run.who == who) found.push_back(&run);
    }
    return found;
  }

  struct End {
    Who who;
    bool continuous;
    int looks;
  };
  std::vector<Run> runs;
  std::vector<End> ended;

 private:
  static constexpr double settling = 0.005, wake_up = 0.0001;
  void settle(double target, double seconds) {
    clock_ = target + (clock_ - target) * std::exp(-seconds / settling);
  }

  std::vector<Program> programs_;
  double clock_ = 1, time_ = 100, idled_ = 0;
  std::map<Who, bool> continuous_;
  std::map<Who, int> looks_;
  std::map<Who, Telemetry> seen_;
};

constexpr Program cool{1000, 1}, hot{500, 0.7}, none{};

TEST(InTurn, AlternatesWithoutABreak) {
  Model model(cool, {900, 1});
  const Timing timing = harness::time_by(Protocol::in_turn, model, 20);
  EXPECT_EQ(timing.samples, 20);
  EXPECT_NEAR(timing.median_us, 1000, 1e-6);
  EXPECT_NEAR(timing.baseline_us, 900, 1e-6);
  EXPECT_NEAR(timing.ratio, 0.9, 1e-9);
  EXPECT_FALSE(timing.sustained.has_value());
  EXPECT_TRUE(timing.baseline_telemetry.has_value());
  Who expected = Who::step;
  for (const Model::Run& run : model.runs) {
    EXPECT_EQ(run.idle_before_s, 0);
    if (!run.counted) continue;
    EXPECT_EQ(run.who, expected);
    expected = expected == Who::step ? Who::baseline : Who::step;
  }
  ASSERT_EQ(model.ended.size(), 2u);
  EXPECT_TRUE(model.ended[0].continuous);
  EXPECT_FALSE(model.ended[1].continuous);  // of the baseline, only what runs count themselves
}

TEST(InTurn, WarmsUpUntilTimesAgree) {
  Model model({1000, 0.8}, none);  // the clock falls at first
  harness::time_by(Protocol::in_turn, model, 5);
  double before = 0;
  for (const Model::Run& run : model.runs) {
    if (!run.counted) before += run.seconds;
  }
  EXPECT_GT(before, 0.2);
  EXPECT_LT(before, 2.1);
  for (const Model::Run* run : model.counted(Who::step)) EXPECT_NEAR(run->us, 1250, 1);
}

// What the protocol is for: a step that follows a hot program looks slow, though by itself it is not.
TEST(InTurn, ChargesTheStepForTheBaselinesPower) {
  Model model(cool, hot);
  EXPECT_GT(harness::time_by(Protocol::in_turn, model, 20).median_us, 1050);
}

TEST(Rested, SustainedRunsCanBeLeftOut) {
  Model model(cool, hot);
  EXPECT_TRUE(harness::time_by(Protocol::rested, model, 3).sustained.has_value());
  EXPECT_FALSE(harness::time_by(Protocol::rested_only, model, 3).sustained.has_value());
}

TEST(Rested, EachRunFindsARestedGpu) {
  Model model(cool, hot);
  const Timing timing = harness::time_by(Protocol::rested, model, 20);
  EXPECT_EQ(timing.protocol, Protocol::rested);
  EXPECT_EQ(timing.samples, 20);
  EXPECT_NEAR(timing.median_us, 1000, 5);
  EXPECT_NEAR(timing.baseline_us, 500, 15);  // the launch that wakes the GPU is a hot one, too
  EXPECT_NEAR(timing.ratio, 0.5, 0.015);
  const auto steps = model.counted(Who::step), baselines = model.counted(Who::baseline);
  ASSERT_EQ(steps.size(), 20u + harness::sustained_rounds);
  ASSERT_EQ(baselines.size(), 20u + harness::sustained_rounds);
  for (std::size_t i = 0; i < 20; ++i) {
    for (const Model::Run* run : {steps[i], baselines[i]}) {
      EXPECT_NEAR(run->idle_before_s, 0.04, 1e-9);
      EXPECT_EQ(run->lead, 1);  // takes half a millisecond, or a whole one
    }
    EXPECT_LT(steps[i], baselines[i]);  // in turn
    EXPECT_LT(baselines[i], steps[i + 1]);
  }
  EXPECT_GT(timing.telemetry.sm_clock_mhz, 990);
  ASSERT_TRUE(timing.baseline_telemetry.has_value());
  EXPECT_LT(timing.baseline_telemetry->sm_clock_mhz, 990);  // even a short run of the hot one
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(model.ended[i].continuous);
    EXPECT_EQ(model.ended[i].looks, 20);
  }
}

TEST(Sustained, EachRunLastsAtItsOwnClock) {
  Model model(cool, hot);
  const Timing timing = harness::time_by(Protocol::rested, model, 20);
  ASSERT_TRUE(timing.sustained.has_value());
  const Sustained& sustained = *timing.sustained;
  // The step is not charged for the baseline's power: what it begins with is not counted.
  EXPECT_NEAR(sustained.median_us, 1000, 1);
  EXPECT_NEAR(sustained.baseline_us, 500 / 0.7, 1);
  EXPECT_NEAR(sustained.ratio, 500 / 0.7 / 1000, 0.002);
  EXPECT_NEAR(sustained.telemetry.sm_clock_mhz, 1000, 1);
  EXPECT_NEAR(sustained.baseline_telemetry.sm_clock_mhz, 700, 1);
  EXPECT_GE(sustained.least_seconds, 0.5);
  for (const Who who : {Who::step, Who::baseline}) {
    const auto runs = model.counted(who);
    for (std::size_t i = 20; i < runs.size(); ++i) {
      EXPECT_GE(runs[i]->seconds, 0.5);
      EXPECT_EQ(runs[i]->idle_before_s, 0);
      const Model::Run* lead = runs[i] - 1;  // of the same program
      EXPECT_EQ(lead->who, who);
      EXPECT_FALSE(lead->counted);
      EXPECT_GE(lead->seconds, 0.15);
    }
  }
}

// Short launches lead for as long as long ones.
TEST(Rested, WakesForHalfAMillisecond) {
  Model model({40, 1}, none);
  harness::time_by(Protocol::rested, model, 20);
  const auto steps = model.counted(Who::step);
  for (std::size_t i = 1; i < 20; ++i) EXPECT_EQ(steps[i]->lead, 13);
}

// However short or long a launch is, and with nothing to compare with.
TEST(Sustained, LaunchesThatAreShortOrLong) {
  for (const double us : {3.0, 40.0, 9'000.0, 800'000.0}) {
    Model model({us, 1}, none);
    const Timing timing = harness::time_by(Protocol::rested, model, 20);
    EXPECT_NEAR(timing.median_us, us, 1e-6 * us);
    EXPECT_NEAR(timing.sustained->median_us, us, 1e-6 * us);
    EXPECT_GE(timing.sustained->least_seconds, 0.5) << us;
    EXPECT_LT(timing.sustained->least_seconds, 1) << us;
    EXPECT_EQ(timing.ratio, 0);
    EXPECT_EQ(timing.sustained->ratio, 0);
    EXPECT_FALSE(timing.baseline_telemetry.has_value());
    EXPECT_EQ(model.counted(Who::baseline).size(), 0u);
    const int launches = us < 10 ? 50 : us < 300 ? 7 : 1;
    EXPECT_EQ(timing.launches_per_sample, launches) << us;
  }
}

TEST(TimeBy, TakesFewerSamplesOfWhatTakesLong) {
  for (const Protocol protocol : {Protocol::in_turn, Protocol::rested}) {
    Model model({6e6, 1}, none);
    EXPECT_EQ(harness::time_by(protocol, model, 20).samples, 3);
    Model brief({1e3, 1}, none);
    EXPECT_EQ(harness::time_by(protocol, brief, 200).samples, 200);  // idling does not count
    Model once({1e3, 1}, none);
    EXPECT_EQ(harness::time_by(protocol, once, 0).samples, 1);
  }
}

TEST(TimeBy, SpreadIsTheDistanceOfTheQuartiles) {
  class Uneven : public Model {
   public:
    Uneven() : Model(cool, none) {}
    double run(Who who, int launches, bool counted, int lead) override {
      Model::run(who, launches, counted, lead);
      return counted ? 1000 + 10 * (calls_++ % 20) : 1000;
    }

   private:
    int calls_ = 0;
  };
  Uneven uneven;
  const Timing timing = harness::time_by(Protocol::in_turn, uneven, 20);
  EXPECT_EQ(timing.median_us, 1100);
  EXPECT_NEAR(timing.spread, 100.0 / 1100, 1e-9);
}

}  // namespace
