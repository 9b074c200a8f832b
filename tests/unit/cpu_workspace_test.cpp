// Workspaces: what they hold when, and faults at their elements.

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/cuda/workspace.hpp"
#include "common/out_of_memory.hpp"
#include "tests/unit/device_test.hpp"

namespace {

class Scratch : public Check {
 protected:
  void read(float* memory, int n) { run_on(memory, y.data(), "read_at", 1, 1, n); }
  void write(float* memory, int n) { run_on(x.data(), memory, "write_at", 1, 1, n); }
  Workspace<float> scratch{"scratch"}, flags{"flags", Fill::zero};
};

TEST_F(Scratch, HoldsNaNAtEachUse) {
  for (const std::size_t elements : {10, 7, 100, 100}) {
    float* memory = scratch.at_least(elements);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
    for (std::size_t i = 0; i < elements; ++i) EXPECT_TRUE(std::isnan(memory[i])) << i;
    std::fill_n(memory, elements, 1.0f);
  }
}

TEST_F(Scratch, GrowsOnly) {
  const float* memory = scratch.at_least(100);
  EXPECT_EQ(scratch.at_least(1), memory);
  EXPECT_EQ(scratch.at_least(100), memory);
}

// What earlier launches wrote counts as little as on the first day.
TEST_F(Scratch, ReadsOfWhatNobodyWroteInThisUse) {
  for (int use = 0; use < 2; ++use) {
    float* memory = scratch.at_least(100);
    read(memory, 12);
    expect(FaultKind::uninitialised_global, 0, "reads scratch[12], which may hold anything");
    EXPECT_TRUE(std::isnan(y[0]));
    write(memory, 12);
    read(memory, 12);
    EXPECT_EQ(y[0], 1.0f);
  }
}

TEST_F(Scratch, EndsBehindWhatWasAskedFor) {
  for (const int elements : {100, 20, 300}) {
    float* memory = scratch.at_least(static_cast<std::size_t>(elements));
    write(memory, elements - 1);
    write(memory, elements);
    expect(FaultKind::out_of_bounds_global, 0, "writes ");
  }
  float* memory = scratch.at_least(20);
  write(memory, 20);
  expect(FaultKind::out_of_bounds_global, 0,
         "writes right behind the end of scratch; scratch has 20 elements");
  write(memory, 23);
  expect(FaultKind::out_of_bounds_global, 0,
         "writes 12 bytes past the end of scratch; scratch has 20 elements");
  memory = scratch.at_least(0);
  ASSERT_NE(memory, nullptr);
  write(memory, 0);
  expect(FaultKind::out_of_bounds_global, 0, "scratch has 0 elements");
}

TEST_F(Scratch, Races) {
  run_on(x.data(), scratch.at_least(1), "global_write_twice", 1, 64, 40);
  expect(FaultKind::race_global, 40, "writes scratch[0], which thread (0,0,0) of block (0,0,0) wrote");
}

TEST_F(Scratch, ZerosMustBeThereAgain) {
  float* memory = flags.at_least(8);
  write(memory, 5);
  std::fill_n(x.data(), 8, 0.0f);
  write(memory, 5);
  cpu_device::end_of_call();
  expect_none();

  std::fill_n(x.data(), 8, 2.0f);
  write(memory, 6);
  read(memory, 6);
  write(memory, 3);
  cpu_device::end_of_call();
  expect(FaultKind::workspace_left, 0,
         "writes flags[3], which is not zero again when the call ends, as are 1 more of flags; the next call "
         "finds it so",
         "write_at");
  EXPECT_EQ(memory[3], 0.0f);
  cpu_device::end_of_call();
}

TEST_F(Scratch, ZerosAreThereOnceAndThenWhatTheKernelsLeave) {
  float* memory = flags.at_least(8);
  read(memory, 7);
  EXPECT_EQ(y[0], 0.0f);
  write(memory, 7);
  EXPECT_EQ(flags.at_least(3), memory);
  read(memory, 7);
  expect(FaultKind::out_of_bounds_global, 0, "reads 16 bytes past the end of flags; flags has 3 elements");
  read(flags.at_least(8), 7);
  EXPECT_EQ(y[0], 1.0f);
  memory = flags.at_least(1000);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(memory[i], 0.0f) << i;
}

// Where launches are only noted, nobody looks into the memory, and it may be as large as the problem.
TEST_F(Scratch, OfLaunchesThatDoNotRun) {
  const auto launches = cpu_device::launches_of(
      [&] { run_on(scratch.at_least(500), flags.at_least(500), "write_at", 1, 1, 0); });
  EXPECT_EQ(launches.size(), 1u);
  EXPECT_TRUE(std::isnan(scratch.at_least(500)[499]));
  EXPECT_EQ(flags.at_least(500)[499], 0.0f);
}

TEST_F(Scratch, ThatIsTooLarge) {
  for (const std::size_t elements : {std::size_t{1} << 58, std::numeric_limits<std::size_t>::max()}) {
    try {
      scratch.at_least(elements);
      ADD_FAILURE() << "there is memory for " << elements << " floats";
    } catch (const OutOfMemory& error) {
      EXPECT_THAT(error.what(), HasSubstr("not enough memory for the workspace scratch, "));
      EXPECT_THAT(error.what(), HasSubstr(" GiB; choose smaller sizes"));
    }
  }
  EXPECT_TRUE(std::isnan(scratch.at_least(3)[2]));  // goes on
}

TEST(Multiprocessors, AreFewAndAlwaysAsMany) { EXPECT_EQ(multiprocessors(), 4); }

}  // namespace
