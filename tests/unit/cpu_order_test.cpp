// Faults: threads that need an order and have none, barriers that can never open; and no false alarms.

#include "tests/unit/cpu_check.hpp"

namespace {

// ---- Races ----------------------------------------------------------------------------------------------

INSTANTIATE_TEST_SUITE_P(, Race, testing::Values(1, 31, 32, 63), testing::PrintToStringParamName());

TEST_P(Race, SharedWriteThenRead) {
  run(kernels.shared_write_then_read, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "shared_write_then_read", "which thread (0,0,0) wrote at tests/unit/");
}

TEST_P(Race, SharedReadThenWrite) {
  run(kernels.shared_read_then_write, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "shared_read_then_write", "which thread (0,0,0) read at tests/unit/");
}

TEST_P(Race, SharedWriteTwice) {
  run(kernels.shared_write_twice, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "shared_write_twice", "which thread (0,0,0) wrote at tests/unit/");
}

TEST_P(Race, SharedLatestReaderWrites) {
  run(kernels.shared_readers_then_last_writes, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_shared, "shared_readers_then_last_writes", "which thread (0,0,0) read at ");
}

TEST_P(Race, WarpBarrierOrdersOneWarpOnly) {
  run(kernels.syncwarp_between_warps, dim3(1), dim3(64), GetParam());
  if (GetParam() < 32) {
    EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
  } else {
    expect(FaultKind::race_shared, "syncwarp_between_warps", "no barrier stands between");
  }
}

TEST_P(Race, GlobalWriteThenRead) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run(kernels.global_write_then_read, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_global, "global_write_then_read",
         "reads C[0][0], which thread (0,0,0) of block (0,0,0) wrote");
}

TEST_P(Race, GlobalReadThenWrite) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run(kernels.global_read_then_write, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_global, "global_read_then_write",
         "writes C[0][0], which thread (0,0,0) of block (0,0,0) read");
}

TEST_P(Race, GlobalWriteTwice) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run(kernels.global_write_twice, dim3(1), dim3(64), GetParam());
  expect(FaultKind::race_global, "global_write_twice",
         "writes C[0][0], which thread (0,0,0) of block (0,0,0) wrote");
}

// Two blocks, in whatever order they run: which of the two is reported depends on it.
TEST_F(Check, RacesBetweenBlocks) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  for (const Kernel kernel :
       {kernels.global_write_then_read, kernels.global_read_then_write, kernels.global_write_twice}) {
    for (int i = 0; i < 20; ++i) {
      run(kernel, dim3(5), dim3(32), 0);
      const std::vector<Fault> faults = cpu_device::take_faults();
      ASSERT_GE(faults.size(), 1u);
      for (const Fault& fault : faults) EXPECT_EQ(fault.kind, FaultKind::race_global);
    }
  }
}

// y[i] += y[i + 1]: the thread that writes an element has read it last, the other before it.
TEST_F(Check, GlobalLatestReaderWrites) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  run(kernels.global_add_neighbour, dim3(1), dim3(64), 64);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]), summary(FaultKind::race_global, "global_add_neighbour",
                                        "global_add_neighbour", "0,0,0", "1,0,0"));
  EXPECT_EQ(faults[0].times, 63u);
}

// The same across blocks of one thread.
TEST_F(Check, GlobalLatestReaderWritesInOtherBlocks) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  run(kernels.global_add_neighbour, dim3(64), dim3(1), 64);
  for (const Fault& fault : cpu_device::take_faults()) {
    EXPECT_EQ(fault.kind, FaultKind::race_global);
    EXPECT_EQ(fault.kernel, "global_add_neighbour");
    if (fault.where == here("global_add_neighbour")) return;
  }
  ADD_FAILURE() << "no race at the store";
}

// ---- Barriers -------------------------------------------------------------------------------------------

TEST_F(Check, ExitBeforeBarrier) {
  run(kernels.one_leaves_before_barrier, dim3(1), dim3(8, 8), 9);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]), summary(FaultKind::exit_before_barrier, "one_leaves_before_barrier",
                                        "one_leaves_before_barrier", "0,0,0", "0,0,0"));
  EXPECT_THAT(faults[0].detail, HasSubstr("thread (1,1,0), which has left the kernel"));
}

TEST_F(Check, DivergentBarrier) {
  for (const int n : {7, 32}) {  // inside a warp, between two
    run(kernels.two_barriers, dim3(1), dim3(64), n);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(summary(faults[0]), summary(FaultKind::divergent_barrier, "second_barrier", "two_barriers",
                                          "0,0,0", std::to_string(n) + ",0,0"));
    EXPECT_THAT(faults[0].detail, HasSubstr("thread (0,0,0) waits at " + here("first_barrier")));
  }
  for (const int n : {0, 64}) run(kernels.two_barriers, dim3(1), dim3(64), n);  // everybody at one of them
}

TEST_F(Check, Deadlock) {
  run(kernels.barriers_of_two_kinds, dim3(1), dim3(32), 11);
  const std::vector<Fault> faults = cpu_device::take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(summary(faults[0]),
            summary(FaultKind::deadlock, "block_barrier", "barriers_of_two_kinds", "0,0,0", "11,0,0"));
  EXPECT_THAT(faults[0].detail,
              HasSubstr("thread (0,0,0) waits at one of another kind (" + here("warp_barrier") + ")"));
}

// Without --check, a barrier that can never open ends the launch too, and is reported.
TEST_F(Check, BarriersInThePlainBuild) {
  cpu_device::set_checking(false);
  for (const auto& [kernel, kind] :
       {std::pair{plain_kernels.one_leaves_before_barrier, FaultKind::exit_before_barrier},
        {plain_kernels.two_barriers, FaultKind::divergent_barrier},
        {plain_kernels.barriers_of_two_kinds, FaultKind::deadlock}}) {
    run(kernel, dim3(3), dim3(32), 5);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_GE(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, kind);
  }
}

// ---- Reports --------------------------------------------------------------------------------------------

TEST_F(Check, AFaultDoesNotSpoilTheNextLaunch) {
  run(kernels.one_leaves_before_barrier, dim3(1), dim3(1024), 9);
  EXPECT_EQ(cpu_device::take_faults().size(), 1u);
  run(kernels.block_exchange, dim3(1), dim3(1024), 2);
  EXPECT_EQ(y.values(), std::vector<float>(1024, 2.0f));
}

TEST_F(Check, FaultsAreHandedOutOnce) {
  run(kernels.one_leaves_before_barrier, dim3(1), dim3(32), 9);
  EXPECT_EQ(cpu_device::take_faults().size(), 1u);
  EXPECT_THAT(cpu_device::take_faults(), IsEmpty());
}

TEST_F(Check, NothingIsCheckedWhenCheckingIsOff) {
  cpu_device::set_checking(false);
  cpu_device::describe(view("A", y.data(), 4, 8, 8, true, false));
  run(kernels.write_at, dim3(1), dim3(1), 9);
  run(kernels.shared_write_then_read, dim3(1), dim3(64), 1);
}

// ---- No false alarms: the fixture fails on any fault ----------------------------------------------------

TEST_F(Check, BarriersSeparateReadsFromWrites) { run(kernels.read_barrier_write, dim3(7), dim3(64), 64); }

TEST_F(Check, ExchangeInsideAWarp) {
  run(kernels.warp_exchange, dim3(1), dim3(256), 3);
  EXPECT_EQ(y[0], 3.0f);
  EXPECT_EQ(y[255], 10.0f);
}

TEST_F(Check, ExchangeInsideABlock) {
  run(kernels.block_exchange, dim3(4), dim3(256), 5);
  EXPECT_EQ(y.values(), std::vector<float>(1024, 5.0f));
}

TEST_F(Check, AThreadMayDoWhatItLikesWithItsOwn) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32, false));
  run(kernels.write_own_element, dim3(16), dim3(64), 3);
  EXPECT_EQ(y.values(), std::vector<float>(1024, 6.0f));
}

TEST_F(Check, LanesMayLeaveBeforeAWarpBarrier) { run(kernels.lanes_leave_early, dim3(1), dim3(64), 20); }

TEST_F(Check, InPlaceWithABarrier) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  run(kernels.add_neighbour_after_barrier, dim3(1), dim3(64), 64);
  EXPECT_EQ(y[63], 2.0f);
}

TEST_F(Check, TwoLaunchesAreOrdered) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run(kernels.write_at, dim3(2), dim3(32), 5);
  run(kernels.write_at, dim3(1), dim3(1), 5);
  launch(kernels.read_at, dim3(1), dim3(1), 0, y.data(), x.data(), 5);
}

TEST_F(Check, BlocksMayReadTheSame) {
  cpu_device::describe(view("A", x.data(), 32, 32, 32, true, false));
  cpu_device::describe(view("C", y.data(), 32, 32, 32, false, true));
  run(kernels.copy_float, dim3(8), dim3(128), 0);
  run(kernels.copy_float4, dim3(8), dim3(128), 256);
  EXPECT_EQ(y.values(), x.values());
}

}  // namespace
