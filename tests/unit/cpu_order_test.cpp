// Faults: threads that need an order and have none, barriers that can never open; and no false alarms.

#include "tests/unit/device_test.hpp"

namespace {

INSTANTIATE_TEST_SUITE_P(, BothBuilds, testing::Values("plain", "observed"), name_of_build);

// ---- Races ----------------------------------------------------------------------------------------------

// Threads 0 and n race: in one warp (1, 31) or in two (32, 63). Thread n runs later.
struct Racing {
  const char* kernel;
  const char* detail;
  FaultKind kind = FaultKind::race_shared;
};
void PrintTo(const Racing& race, std::ostream* out) { *out << race.kernel; }
class Race : public Check, public testing::WithParamInterface<Racing> {};

INSTANTIATE_TEST_SUITE_P(
    Shared, Race,
    testing::Values(Racing{"shared_write_then_read", "which thread (0,0,0) wrote at tests/unit/"},
                    Racing{"shared_writer_reads_first", "which thread (0,0,0) wrote at tests/unit/"},
                    Racing{"shared_read_then_write", "which thread (0,0,0) read at tests/unit/"},
                    Racing{"shared_write_twice", "which thread (0,0,0) wrote at tests/unit/"},
                    Racing{"shared_readers_then_last_writes", "which thread (0,0,0) read at "}));
INSTANTIATE_TEST_SUITE_P(Global, Race,
                         testing::Values(Racing{"global_write_then_read",
                                                "reads C[0][0], which thread (0,0,0) of block (0,0,0) wrote",
                                                FaultKind::race_global},
                                         Racing{"global_read_then_write",
                                                "writes C[0][0], which thread (0,0,0) of block (0,0,0) read",
                                                FaultKind::race_global},
                                         Racing{"global_write_twice",
                                                "writes C[0][0], which thread (0,0,0) of block (0,0,0) wrote",
                                                FaultKind::race_global}));
INSTANTIATE_TEST_SUITE_P(
    Async, Race,
    testing::Values(Racing{"async_read_before_wait", "by thread (0,0,0) has not been waited for",
                           FaultKind::async_not_arrived},
                    Racing{"async_read_of_second_copy", "copied[1]", FaultKind::async_not_arrived},
                    Racing{"async_overwrite_pending", "writes slots", FaultKind::async_not_arrived},
                    Racing{"async_copy_onto_pending", "writes slots", FaultKind::async_not_arrived},
                    Racing{"async_read_without_barrier",
                           "(0,0,0) wrote at tests/unit/cpu_kernels_async.cpp:"},
                    Racing{"async_starter_reads_first", "(0,0,0) wrote at tests/unit/"},
                    Racing{"async_barrier_before_wait", "no barrier stands between"},
                    Racing{"async_copy_onto_read", "which thread (0,0,0) read at "}));

TEST_P(Race, IsReportedByTheLaterThread) {
  if (GetParam().kind == FaultKind::race_global) cpu_device::describe(view("C", y.data(), 32, 32, 32));
  for (const int n : {1, 31, 32, 63}) {
    run(GetParam().kernel, 1, 64, n);
    expect(GetParam().kind, n, GetParam().detail);
  }
}

TEST_F(Check, WarpBarrierOrdersOneWarpOnly) {
  for (const int n : {1, 31}) run("syncwarp_between_warps", 1, 64, n);
  expect_none();
  for (const int n : {32, 63}) {
    run("syncwarp_between_warps", 1, 64, n);
    expect(FaultKind::race_shared, n, "no barrier stands between");
  }
}

// Two blocks, in whatever order they run: which of the two is reported depends on it.
TEST_F(Check, RacesBetweenBlocks) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  for (const char* kernel : {"global_write_then_read", "global_read_then_write", "global_write_twice"}) {
    for (int i = 0; i < 10; ++i) {
      run(kernel, 5, 32);
      const std::vector<Fault> faults = cpu_device::take_faults();
      ASSERT_GE(faults.size(), 1u);
      for (const Fault& fault : faults) EXPECT_EQ(fault.kind, FaultKind::race_global);
    }
  }
}

// y[i] += y[i + 1]: the thread that writes an element has read it last, the other before it.
TEST_F(Check, GlobalLatestReaderWrites) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  run("global_add_neighbour", 1, 64, 64);
  EXPECT_EQ(expect(FaultKind::race_global, 1).times, 63u);
  run("global_add_neighbour", 64, 1, 64);  // the same across blocks
  bool at_the_store = false;
  for (const Fault& fault : cpu_device::take_faults()) {
    EXPECT_EQ(fault.kind, FaultKind::race_global);
    at_the_store |= fault.where == here("global_add_neighbour");
  }
  EXPECT_TRUE(at_the_store);
}

// A race all the same, and so it is called.
TEST_F(Check, WritesOfEqualValues) {
  const std::string same = "; both leave the same value there";
  run("equal_writes", 3, 64, -1);
  EXPECT_THAT(expect(FaultKind::race_shared, 1).detail, testing::EndsWith(same));
  for (const int n : {0, 1, 17, 63}) {
    run("equal_writes", 1, 64, n);
    EXPECT_THAT(expect(FaultKind::race_shared, 1).detail, testing::Not(HasSubstr(same))) << n;
  }
}

// ---- Barriers -------------------------------------------------------------------------------------------

TEST_P(BothBuilds, DivergentBarrier) {
  for (const int n : {7, 32}) {  // inside a warp, between two
    run("two_barriers", 1, 64, n);
    expect(FaultKind::divergent_barrier, n,
           "thread (0,0,0) waits at " + (checked() ? here("first_barrier") : ""), "second_barrier");
  }
  for (const int n : {0, 64}) run("two_barriers", 1, 64, n);  // everybody at one of them
}

TEST_P(BothBuilds, Deadlock) {
  run("barriers_of_two_kinds", 1, 32, 11);
  expect(FaultKind::deadlock, 11,
         "thread (0,0,0) waits at one of another kind" + (checked() ? " (" + here("warp_barrier") + ")" : ""),
         "block_barrier");
}

// ---- Reports --------------------------------------------------------------------------------------------

TEST_F(Check, AFaultDoesNotSpoilTheNextLaunch) {
  run("two_barriers", 1, 1024, 9);
  EXPECT_EQ(cpu_device::take_faults().size(), 1u);
  expect_none();  // each is handed out once
  run("block_exchange", 1, 1024, 2);
  for (int t = 0; t < 1024; ++t) ASSERT_EQ(y[t], 2.0f);
}

TEST_F(Check, NothingIsCheckedWhenCheckingIsOff) {
  cpu_device::set_checking(false);
  cpu_device::describe(view("A", y.data(), 4, 8, 8, true, false));
  run("write_at", 1, 1, 9);
  run("shared_write_then_read", 1, 64, 1);
}

// ---- No false alarms: the fixture fails on any fault. Others are in cpu_device_test.cpp -----------------

TEST_F(Check, BarriersSeparateReadsFromWrites) { run("read_barrier_write", 7, 64, 64); }

TEST_F(Check, AThreadMayDoWhatItLikesWithItsOwn) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32, false));
  run("write_own_element", 16, 64, 3);
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(y[i], 6.0f);
}

TEST_F(Check, LanesMayLeaveBeforeAWarpBarrier) { run("lanes_leave_early", 1, 64, 20); }

TEST_F(Check, InPlaceWithABarrier) {
  cpu_device::describe(view("C", y.data(), 1, 64, 64));
  run("add_neighbour_after_barrier", 1, 64, 64);
  EXPECT_EQ(y[63], -2.0f);
}

TEST_F(Check, TwoLaunchesAreOrdered) {
  cpu_device::describe(view("C", y.data(), 32, 32, 32));
  run("write_at", 2, 32, 5);
  run("write_at", 1, 1, 5);
  run_on(y.data(), x.data(), "read_at", 1, 1, 5);
}

TEST_F(Check, BlocksMayReadTheSame) {
  cpu_device::describe(view("A", x.data(), 32, 32, 32, true, false));
  cpu_device::describe(view("C", y.data(), 32, 32, 32, false, true));
  run("copy_float", 8, 128);
  run("copy_float4", 8, 128, 256);
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(y[i], x[i]);
}

}  // namespace
