// Parts of words; and reports that do not depend on timing.

#include "tests/unit/device_test.hpp"

namespace {

TEST_P(BothBuilds, NeighboursWriteHalvesAndBytes) {
  run("halves", 1, 64);
  for (int t = 0; t < 64; ++t) EXPECT_EQ(y[t], static_cast<float>(2 * t));
}

TEST_P(BothBuilds, HalvesOfGlobalMemory) {
  cpu_device::describe({"C", y.data(), 1, 101, 101, 1, 101, true, true, 2});
  run("global_halves", 4, 32, 101);
  for (int i = 0; i < 101; ++i) EXPECT_EQ(reinterpret_cast<const std::uint16_t*>(y.data())[i], i);
}

TEST_F(Check, HalfBehindAMatrix) {
  cpu_device::describe({"C", y.data(), 1, 101, 101, 1, 101, true, true, 2});
  run("global_halves", 4, 32, 102);
  expect(FaultKind::out_of_bounds_global, {{3, 0, 0}, {5, 0, 0}},
         "writes right behind the end of C; C is 1 x 101");
}

TEST_F(Check, UnwrittenHalf) {
  run("unwritten_half", 1, 1, 0);
  expect(FaultKind::uninitialised_shared, 0, "reads slots[1],");
  run("unwritten_half", 1, 1, 1);
  expect(FaultKind::uninitialised_shared, 0, "reads slots[0],");
}

TEST_F(Check, RaceOnAHalf) {
  for (const int n : {1, 33}) run("half_race", 1, 64, n);
  expect_none();
  for (const int n : {2, 34}) {
    run("half_race", 1, 64, n);
    expect(FaultKind::race_shared, n, "writes slots[0],");
  }
}

// ---- Reports do not depend on timing ---------------------------------------------------------------------

TEST_F(Check, TheLowestBlockComesFirst) {
  cpu_device::describe(view("C", y.data(), 1, 32 * 3, 32 * 3));
  for (int i = 0; i < 30; ++i) {
    run("fault_in_blocks", 64, 32, 2);
    EXPECT_EQ(expect(FaultKind::out_of_bounds_global, {{3, 0, 0}, {31, 0, 0}}).times, 61u * 32);
  }
}

TEST_F(Check, BlocksBeforeTheOneThatStopsRunToTheirEnd) {
  cpu_device::describe(view("A", x.data(), 1, 64, 64, true, false));
  for (int i = 0; i < 30; ++i) {
    for (const unsigned n : {1u, 2u, 9u}) {
      run("stop_in_blocks", 16, 32, static_cast<int>(n));
      const std::vector<Fault> faults = cpu_device::take_faults();
      ASSERT_EQ(faults.size(), 2u);
      EXPECT_EQ(faults[0].where, here("stop_late"));
      EXPECT_EQ(faults[0].block.x, n - 1);
      EXPECT_EQ(faults[0].times, 32u);
      EXPECT_EQ(faults[1].where, here("stop_in_blocks"));
      EXPECT_EQ(faults[1].block.x, n);
      EXPECT_EQ(faults[1].times, 1u);
    }
  }
}

TEST_F(Check, OfTwoBlocksTheLaterIsReported) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  for (int i = 0; i < 30; ++i) {
    run("race_of_blocks", 2, 32);
    const Fault fault =
        expect(FaultKind::race_global, {{1, 0, 0}, {0, 0, 0}},
               "writes C[0][0], which thread (0,0,0) of block (0,0,0) wrote in the same launch at " +
                   here("race_of_blocks"));
    EXPECT_EQ(fault.times, 1u);
  }
}

}  // namespace
