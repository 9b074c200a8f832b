// Workspaces: what they hold when, and faults at their elements.

#include <cmath>
#include <cstdint>
#include <limits>

#include "common/cuda/workspace.hpp"
#include "common/out_of_memory.hpp"
#include "tests/unit/cpu_check.hpp"

namespace {

std::string only_detail(FaultKind kind) {
  const std::vector<Fault> faults = cpu_device::take_faults();
  if (faults.size() != 1) return std::to_string(faults.size()) + " faults";
  return faults[0].kind == kind ? faults[0].detail : describe(faults[0]);
}

TEST_F(Check, AWorkspaceHoldsNaNAtEachUse) {
  Workspace<float> scratch("scratch");
  for (const std::size_t elements : {10, 7, 100, 100}) {
    float* memory = scratch.at_least(elements);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
    for (std::size_t i = 0; i < elements; ++i) EXPECT_TRUE(std::isnan(memory[i])) << i;
    std::fill_n(memory, elements, 1.0f);
  }
}

TEST_F(Check, AWorkspaceGrowsOnly) {
  Workspace<float> scratch("scratch");
  const float* memory = scratch.at_least(100);
  EXPECT_EQ(scratch.at_least(1), memory);
  EXPECT_EQ(scratch.at_least(100), memory);
}

// What the launches before have written counts as little as on the first day.
TEST_F(Check, ReadsOfAWorkspaceThatNobodyWroteInThisUse) {
  Workspace<float> scratch("scratch");
  for (int use = 0; use < 2; ++use) {
    float* memory = scratch.at_least(100);
    launch(kernels.read_at, dim3(1), dim3(1), 0, memory, y.data(), 12);
    EXPECT_EQ(only_detail(FaultKind::uninitialised_global), "reads scratch[12], which may hold anything");
    EXPECT_TRUE(std::isnan(y[0]));
    launch(kernels.write_at, dim3(1), dim3(1), 0, x.data(), memory, 12);
    launch(kernels.read_at, dim3(1), dim3(1), 0, memory, y.data(), 12);
    EXPECT_EQ(y[0], 1.0f);
  }
}

TEST_F(Check, AWorkspaceEndsBehindWhatWasAskedFor) {
  Workspace<float> scratch("scratch");
  for (const int elements : {100, 20, 300}) {
    float* memory = scratch.at_least(static_cast<std::size_t>(elements));
    launch(kernels.write_at, dim3(1), dim3(1), 0, x.data(), memory, elements - 1);
    launch(kernels.write_at, dim3(1), dim3(1), 0, x.data(), memory, elements);
    EXPECT_THAT(only_detail(FaultKind::out_of_bounds_global), HasSubstr("writes "));
  }
  float* memory = scratch.at_least(20);
  launch(kernels.write_at, dim3(1), dim3(1), 0, x.data(), memory, 20);
  EXPECT_EQ(only_detail(FaultKind::out_of_bounds_global),
            "writes right behind the end of scratch; scratch has 20 elements");
  launch(kernels.write_at, dim3(1), dim3(1), 0, x.data(), memory, 23);
  EXPECT_EQ(only_detail(FaultKind::out_of_bounds_global),
            "writes 12 bytes past the end of scratch; scratch has 20 elements");
}

TEST_F(Check, RacesInAWorkspace) {
  Workspace<float> scratch("scratch");
  float* memory = scratch.at_least(1);
  launch(kernels.global_write_twice, dim3(1), dim3(64), 0, x.data(), memory, 40);
  EXPECT_THAT(only_detail(FaultKind::race_global),
              HasSubstr("writes scratch[0], which thread (0,0,0) of block (0,0,0) wrote"));
}

TEST_F(Check, ZerosAreThereOnceAndThenWhatTheKernelsLeave) {
  Workspace<float> flags("flags", Fill::zero);
  float* memory = flags.at_least(8);
  launch(kernels.read_at, dim3(1), dim3(1), 0, memory, y.data(), 7);
  EXPECT_EQ(y[0], 0.0f);
  launch(kernels.write_at, dim3(1), dim3(1), 0, x.data(), memory, 7);
  EXPECT_EQ(flags.at_least(3), memory);
  launch(kernels.read_at, dim3(1), dim3(1), 0, memory, y.data(), 7);
  EXPECT_EQ(only_detail(FaultKind::out_of_bounds_global),
            "reads 16 bytes past the end of flags; flags has 3 elements");
  launch(kernels.read_at, dim3(1), dim3(1), 0, flags.at_least(8), y.data(), 7);
  EXPECT_EQ(y[0], 1.0f);
  memory = flags.at_least(1000);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(memory[i], 0.0f) << i;
}

// Where launches are only noted, nobody looks into the memory, and it may be as large as the problem.
TEST_F(Check, AWorkspaceOfLaunchesThatDoNotRun) {
  Workspace<float> scratch("scratch"), flags("flags", Fill::zero);
  const auto launches = cpu_device::launches_of(
      [&] { launch(kernels.write_at, dim3(1), dim3(1), 0, scratch.at_least(500), flags.at_least(500), 0); });
  EXPECT_EQ(launches.size(), 1u);
  EXPECT_TRUE(std::isnan(scratch.at_least(500)[499]));
  EXPECT_EQ(flags.at_least(500)[499], 0.0f);
}

TEST_F(Check, AWorkspaceWithoutElements) {
  Workspace<float> scratch("scratch");
  float* memory = scratch.at_least(0);
  ASSERT_NE(memory, nullptr);
  launch(kernels.write_at, dim3(1), dim3(1), 0, x.data(), memory, 0);
  EXPECT_THAT(only_detail(FaultKind::out_of_bounds_global), HasSubstr("scratch has 0 elements"));
}

TEST_F(Check, AWorkspaceThatIsTooLarge) {
  Workspace<float> scratch("scratch");
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
