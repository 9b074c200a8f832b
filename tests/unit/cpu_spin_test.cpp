// Threads that read the same again and again, threads that never end, and the order in which warps take
// turns.

#include "common/cuda/workspace.hpp"
#include "tests/unit/device_test.hpp"

namespace {

class Spinning : public BothBuilds {
 protected:
  Spinning() { cpu_device::describe({"data", data, 1, 64, 64, 1, 64, true, true, 4, true}); }
  ~Spinning() override {
    cpu_device::set_watchdog(10);
    cpu_device::set_schedule(0);
    cpu_device::take_schedules();
  }
  void run(const std::string& name, unsigned blocks, unsigned threads, int n = 0) {
    run_as<GridKernel>(name, {.grid = blocks, .block = threads}, flags, data, y.data(), n);
  }
  static Who in_block(unsigned block, unsigned thread = 0) { return {{block, 0, 0}, {thread, 0, 0}}; }

  Workspace<unsigned> ready{"ready", Fill::zero};
  Workspace<float> partial{"partial"};
  unsigned* flags = ready.at_least(64);
  float* data = partial.at_least(64);
};
class SpinningObserved : public Spinning {};  // what the plain build cannot see: accesses
INSTANTIATE_TEST_SUITE_P(, Spinning, testing::Values("plain", "observed"), name_of_build);
INSTANTIATE_TEST_SUITE_P(, SpinningObserved, testing::Values("observed"), name_of_build);
constexpr int repeats = 20;

// ---- No false alarms --------------------------------------------------------------------------------------

TEST_P(SpinningObserved, AFlagMadeByHand) {
  for (int i = 0; i < repeats; ++i) run("volatile_flag", 2, 64);
  EXPECT_EQ(y[63], 5.0f);
  EXPECT_EQ(flags[0], 0u);
}

TEST_P(SpinningObserved, ToAndFroMoreOftenThanADeadlockTakes) {
  run("to_and_fro", 1, 64, 50);
  EXPECT_EQ(y[0], 100.0f);
  flags[0] = 0;
}

TEST_P(Spinning, ALock) {
  for (int i = 0; i < repeats; ++i) {
    std::fill_n(data, 2, 0.0f);
    run("spin_lock", 20, 32);
    EXPECT_EQ(data[0], 20.0f);
  }
}

TEST_P(Spinning, ReadingOftenIsNoSpin) {
  std::fill_n(data, 64, 1.0f);
  run("read_often", 2, 32, 8000);  // three times it lets others run
  EXPECT_EQ(y[31], 8000.0f);
}

TEST_P(Spinning, WorkForLongerThanTheWatchdogWaits) {
  std::fill_n(data, 64, 1.0f);
  cpu_device::set_watchdog(0.05);
  run("count", 200, 32, 3000);  // each thread, and each block, is done in time
  EXPECT_EQ(y[0], 3000.0f);
}

// ---- Faults -----------------------------------------------------------------------------------------------

TEST_P(SpinningObserved, AFlagWithoutFences) {
  for (const int n : {1, 2}) {
    for (int i = 0; i < repeats; ++i) {
      run("volatile_flag", 2, 64, n);
      const std::vector<Fault> faults = cpu_device::take_faults();
      ASSERT_EQ(faults.size(), 1u) << n;
      EXPECT_EQ(faults[0].kind, FaultKind::race_global);
    }
  }
}

TEST_P(SpinningObserved, SpinningForNobodyIsADeadlock) {
  for (const unsigned blocks : {1u, 4u}) {
    run("spin_for_nobody", blocks, 1);
    expect(
        FaultKind::deadlock, 0,
        "waits here for another value of what it reads again and again, which no thread that can still run "
        "will write");
  }
}

TEST_P(Spinning, AThreadThatNeverEnds) {
  std::fill_n(data, 64, 1.0f);
  cpu_device::set_watchdog(0.2);
  run("count", 1, 1, -1);
  expect(FaultKind::no_progress, 0, "has run for 0.2 s without coming to a barrier");
}

TEST_P(Spinning, ABlockThatNeverEnds) {
  std::fill_n(data, 64, 1.0f);
  cpu_device::set_watchdog(0.2);
  run("count_together", 1, 64, -1);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, FaultKind::no_progress);
  EXPECT_THAT(faults[0].detail, HasSubstr("none of which has left the kernel in 0.6"));
}

// ---- Schedules --------------------------------------------------------------------------------------------

TEST_P(Spinning, AStarvedWarpComesLast) {
  run("order_of_warps", 1, 128);
  EXPECT_THAT(std::vector<float>(y.data(), y.data() + 4), ElementsAre(0, 1, 2, 3));
  cpu_device::set_schedule(2);
  run("order_of_warps", 1, 128);
  EXPECT_THAT(std::vector<float>(y.data(), y.data() + 4), ElementsAre(0, 3, 1, 2));
}

// Two warps come to another barrier first: the first of each role, then the others.
TEST_P(SpinningObserved, OneWarpOfEachRole) {
  run("order_of_warps", 1, 128);
  EXPECT_THAT(cpu_device::take_schedules(), ElementsAre(1u, 3u, 2u, 4u));
  EXPECT_THAT(cpu_device::take_schedules(), IsEmpty());
}

}  // namespace
