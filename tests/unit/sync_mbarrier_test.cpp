// Mbarriers: phases, what arriving and waiting order, and misuse.

#include "tests/unit/device_test.hpp"

namespace {

using testing::Contains;

TEST_P(BothBuilds, PhasesOfAnMbarrier) {
  for (const unsigned threads : {2u, 33u, 256u}) {
    run("phases", 1, threads, 7);
    EXPECT_EQ(y[0], static_cast<float>(21 * (threads - 1)));
  }
}

TEST_P(BothBuilds, TryWaitComesBack) {
  run("polls", 1, 1, 5);
  EXPECT_EQ(y[0], 5.0f);
}

TEST_P(BothBuilds, AnMbarrierCanBeInvalidated) {
  run("invalidated", 1, 64);
  EXPECT_EQ(y[63], 1.0f);
}

TEST_P(BothBuilds, OrderPassesFromBarrierToBarrier) {
  run("chain", 1, 64);
  EXPECT_EQ(y[0], 3.0f);
}

TEST_P(BothBuilds, ManyReadersAndTheirArrivals) { run("many_readers", 1, 1024, -1); }

// ---- Faults ----------------------------------------------------------------------------------------------

TEST_F(Check, MisuseOfMbarriers) {
  struct Case {
    const char* kernel;
    int n;
    std::string detail;
  };
  for (const auto& [kernel, n, detail] : std::vector<Case>{
           {"no_init", 0, "arrives at the mbarrier barrier, which has not been"},
           {"init_twice", 0, "in use since " + here("init")},
           {"no_fence", 0, "no mbarrier_fence_init()"},
           {"bad_parity", 2, "parity 2"},
           {"unawaited", 0,
            "completes phase 2 of the mbarrier barrier, and nobody has waited for the one before"},
           {"too_many_arrivals", 0, "has had its 1 arrival and lacks only 16 bytes"},
           {"too_many_bytes", 1, "up to 1048575"},
           {"overwritten_mbarrier", 0, "written to since"},
       }) {
    run(kernel, 1, 1, n);
    expect(FaultKind::mbarrier_misuse, 0, detail);
  }
  run("too_many_bytes", 1, 1, 0);
  run("unawaited", 1, 1, 1);
}

// The plain build reports these as well: its launch could not go on.
TEST_P(BothBuilds, WaitsThatNeverEnd) {
  run("no_init", 2, 64);
  expect(FaultKind::mbarrier_misuse, 0);
  run("hangs_polling", 2, 64);
  expect(FaultKind::deadlock, 0, "phase 0 of the mbarrier barrier, which lacks 1 arrival of 2");
  run("shuffle_elsewhere", 2, 64, 3);
  expect(FaultKind::missing_lane, 0);
  run("named_barrier_too_few", 2, 64);
  expect(FaultKind::deadlock, 0, "barrier 3, to which 32 of 64 threads have come");
}

TEST_F(Check, WhoWaitsForWhom) {
  run("producer_and_consumers", 1, 64);
  const Fault fault = expect(FaultKind::deadlock, 0, "waits here for phase 0 of the mbarrier empty");
  EXPECT_THAT(fault.table, ElementsAre("who waits for whom:",
                                       "[1] thread (0,0,0) waits at " + here("producer_and_consumers") +
                                           " for phase 0 of the mbarrier empty, which lacks 1 arrival of 1",
                                       "      nobody has come to it yet",
                                       "[2] warp 1 waits at " + here("consumes") +
                                           " for phase 1 of the mbarrier full, which lacks 1 arrival of 1",
                                       "      came before, not this time: thread (0,0,0) (" + here("fills") +
                                           "), now at [1]",
                                       "[3] 31 threads of warp 0 have left the kernel"));
  EXPECT_THAT(describe(fault), HasSubstr("\n    [3] 31 threads"));
  run("hangs_polling", 1, 64);
  const Fault polls = expect(FaultKind::deadlock, 0);
  ASSERT_EQ(polls.table.size(), 3u);
  EXPECT_THAT(polls.table[1], HasSubstr("[1] warps 0-1 wait at " + here("hangs_polling")));
  EXPECT_THAT(polls.table[2], HasSubstr("      has come this time: thread (0,0,0) ("));
  run("named_barrier_too_few", 1, 64);
  EXPECT_THAT(expect(FaultKind::deadlock, 0).table,
              Contains(HasSubstr("      has come this time: warp 0 (")));
}

TEST_F(Check, MbarrierInitNeedsABarrier) {
  run("init_without_barrier", 1, 64, 0);
  expect_none();
  for (const int n : {1, 40}) {
    run("init_without_barrier", 1, 64, n);
    expect(FaultKind::race_shared, n, "which " + thread_name(0) + " initialised at ");
  }
}

// n: thread 0 writes after it has arrived; thread 2 only announces bytes, which orders nothing.
TEST_F(Check, AnArrivalOrdersOnlyWhatWasBefore) {
  for (const int n : {0, 2}) {
    run("expect_is_no_arrive", 1, 64, n);
    expect(FaultKind::race_shared, 33, "which " + thread_name(n) + " wrote");
  }
}

// Each of many readers is remembered.
TEST_F(Check, OneOfManyReadersDoesNotArrive) {
  for (const int n : {1, 31, 33, 63, 200, 255}) {
    run("many_readers", 1, 256, n);
    expect(FaultKind::race_shared, 0, "which " + thread_name(n) + " read");
  }
}

}  // namespace
