// Mbarriers: phases, what arriving and waiting order, and misuse.

#include <utility>
#include <vector>

#include "tests/unit/sync_check.hpp"

namespace {

TEST_P(Sync, PhasesOfAnMbarrier) {
  for (const unsigned threads : {2u, 33u, 256u}) {
    run(kernels.phases, threads, 7);
    EXPECT_EQ(y[0], static_cast<float>(21 * (threads - 1)));
  }
}

TEST_P(Sync, TryWaitComesBack) {
  run(kernels.polls, 1, 5);
  EXPECT_EQ(y[0], 5.0f);
}

TEST_P(Sync, AnMbarrierCanBeInvalidated) {
  run(kernels.invalidated, 64);
  EXPECT_EQ(y[63], 1.0f);
}

TEST_P(Sync, OrderPassesFromBarrierToBarrier) {
  run(kernels.chain, 64);
  EXPECT_EQ(y[0], 3.0f);
}

TEST_P(Sync, ManyReadersAndTheirArrivals) { run(kernels.many_readers, 1024, -1); }

#ifdef HAVE_OBSERVED

// ---- What is wrong ---------------------------------------------------------------------------------------

TEST_F(SyncFault, MisuseOfMbarriers) {
  run(kernels.no_init, 1);
  expect(FaultKind::mbarrier_misuse, "no_init", 0,
         "arrives at the mbarrier barrier + 0 bytes, which has not been");
  run(kernels.init_twice, 32);
  expect(FaultKind::mbarrier_misuse, "init_twice", 0, "in use since tests/unit/sync_kernels_common.hpp");
  run(kernels.no_fence, 1);
  expect(FaultKind::mbarrier_misuse, "no_fence", 0, "no mbarrier_fence_init()");
  run(kernels.bad_parity, 1, 2);
  expect(FaultKind::mbarrier_misuse, "bad_parity", 0, "parity 2");
  run(kernels.too_many_arrivals, 1);
  expect(FaultKind::mbarrier_misuse, "too_many_arrivals", 0, "has had its 1 arrival and lacks only 16 bytes");
  run(kernels.too_many_bytes, 1, 1);
  expect(FaultKind::mbarrier_misuse, "too_many_bytes", 0, "up to 1048575");
  run(kernels.too_many_bytes, 1, 0);
  run(kernels.overwritten_mbarrier, 1);
  expect(FaultKind::mbarrier_misuse, "overwritten_mbarrier", 0, "written to since");
  run(kernels.hangs_polling, 2);
  expect(FaultKind::deadlock, "hangs_polling", 0,
         "phase 0 of the mbarrier barrier + 0 bytes, which lacks 1 arrival of 2");
}

// Also without --check.
TEST_F(SyncFault, PlainBuild) {
  cpu_device::set_checking(false);
  for (const auto& [kernel, kind] : {std::pair{plain_sync_kernels.no_init, FaultKind::mbarrier_misuse},
                                     {plain_sync_kernels.hangs_polling, FaultKind::deadlock},
                                     {plain_sync_kernels.shuffle_elsewhere, FaultKind::missing_lane},
                                     {plain_sync_kernels.named_barrier_too_few, FaultKind::deadlock}}) {
    run(kernel, 64, 3, 2);
    const std::vector<Fault> faults = cpu_device::take_faults();
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_EQ(faults[0].kind, kind);
    EXPECT_EQ(faults[0].block.x, 0u);
  }
}

TEST_F(SyncFault, InitNeedsABarrier) {
  run(kernels.init_without_barrier, 64, 0);
  for (const int n : {1, 40}) {
    run(kernels.init_without_barrier, 64, n);
    expect(FaultKind::race_shared, "init_without_barrier", static_cast<unsigned>(n),
           "which " + name(0) + " initialised at ");
  }
}

TEST_F(SyncFault, WhatIsWrittenAfterTheArrival) {
  run(kernels.expect_is_no_arrive, 64, 0);
  expect(FaultKind::race_shared, "expect_is_no_arrive", 33, "which " + name(0) + " wrote");
}

TEST_F(SyncFault, AnnouncingBytesOrdersNothing) {
  run(kernels.expect_is_no_arrive, 64, 2);
  expect(FaultKind::race_shared, "expect_is_no_arrive", 33, "which " + name(2) + " wrote");
}

// Each of many readers is remembered.
TEST_F(SyncFault, OneOfManyReadersDoesNotArrive) {
  for (const int n : {1, 31, 33, 63, 200, 255}) {
    run(kernels.many_readers, 256, n);
    expect(FaultKind::race_shared, "many_readers", 0, "which " + name(n) + " read");
  }
}

#endif

}  // namespace
