// Parts of words; and reports that do not depend on timing.

#include <vector>

#include "tests/unit/sync_check.hpp"

namespace {

TEST_P(Sync, NeighboursWriteHalvesAndBytes) {
  run(kernels.halves, 64);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], static_cast<float>(2 * t));
}

TEST_P(Sync, HalvesOfGlobalMemory) {
  cpu_device::describe(view("C", y.data(), 101, true, 2));
  run(kernels.global_halves, 32, 101, 4);
  for (int i = 0; i < 101; ++i) EXPECT_EQ(reinterpret_cast<const std::uint16_t*>(y.data())[i], i);
}

#ifdef HAVE_OBSERVED

// ---- What is wrong ---------------------------------------------------------------------------------------

TEST_F(SyncFault, UnwrittenHalf) {
  run(kernels.unwritten_half, 1, 0);
  expect(FaultKind::uninitialised_shared, "unwritten_half", 0, "slots + 2 bytes");
  run(kernels.unwritten_half, 1, 1);
  expect(FaultKind::uninitialised_shared, "unwritten_half", 0, "slots + 0 bytes");
}

TEST_F(SyncFault, RaceOnAHalf) {
  for (const int n : {1, 33}) run(kernels.half_race, 64, n);
  for (const int n : {2, 34}) {
    run(kernels.half_race, 64, n);
    expect(FaultKind::race_shared, "half_race", static_cast<unsigned>(n), "slots + 0 bytes");
  }
}

TEST_F(SyncFault, HalfBehindAMatrix) {
  cpu_device::describe(view("C", y.data(), 101, true, 2));
  run(kernels.global_halves, 32, 102, 4);
  expect(FaultKind::out_of_bounds_global, "global_halves", 5,
         "writes right behind the end of C; C is 1 x 101");
}

// ---- Reports do not depend on timing ---------------------------------------------------------------------

TEST_F(SyncFault, TheLowestBlockComesFirst) {
  cpu_device::describe(view("C", y.data(), 32 * 3, true));
  for (int i = 0; i < 30; ++i) {
    run(kernels.fault_in_blocks, 32, 2, 64);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].block.x, 3u);
    EXPECT_EQ(faults[0].thread.x, 31u);
    EXPECT_EQ(faults[0].times, 61u * 32);
  }
}

TEST_F(SyncFault, BlocksBeforeTheOneThatStopsRunToTheirEnd) {
  cpu_device::describe(view("A", x.data(), 64, false));
  for (int i = 0; i < 30; ++i) {
    for (const int n : {1, 2, 9}) {
      run(kernels.stop_in_blocks, 32, n, 16);
      const std::vector<Fault> faults = cpu_device::take_faults();
      ASSERT_EQ(faults.size(), 2u);
      EXPECT_EQ(faults[0].where, here("stop_late"));
      EXPECT_EQ(faults[0].block.x, static_cast<unsigned>(n) - 1);
      EXPECT_EQ(faults[0].times, 32u);
      EXPECT_EQ(faults[1].where, here("stop_in_blocks"));
      EXPECT_EQ(faults[1].block.x, static_cast<unsigned>(n));
      EXPECT_EQ(faults[1].times, 1u);
    }
  }
}

TEST_F(SyncFault, OfTwoBlocksTheLaterIsReported) {
  cpu_device::describe(view("C", y.data(), 64, true));
  for (int i = 0; i < 30; ++i) {
    run(kernels.race_of_blocks, 32, 0, 2);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].block.x, 1u);
    EXPECT_EQ(faults[0].times, 1u);
    EXPECT_THAT(faults[0].detail,
                HasSubstr("writes C[0][0], which thread (0,0,0) of block (0,0,0) wrote in the "
                          "same launch at " +
                          here("race_of_blocks")));
  }
}

#endif

}  // namespace
